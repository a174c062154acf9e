//! A server that is stopped, killed, slow, full, demoted or cut off: the right kind of error, in bounded time, nothing
//! left behind, and recovery without a restart of the client.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::{Acquired, Error, ErrorKind, Keeper, LossReason, OwnerToken, Refusal, Released};
use lockkeeper_faults::{DropReply, FaultProxy, RedisServer, ServerKind, available};
use lockkeeper_testkit::arm::{Arm, SteppedRedis};
use lockkeeper_testkit::fake::{Fake, FakeServer, greeting};
use lockkeeper_testkit::wait::until;
use support::{SOON, calls, command, exists, is_busy, keeper, ms, quiet, secs, server, take};

/// How it is looked who holds a lock.
const LOOKS: &[&str] = &["eval_ro", "evalsha_ro"];
/// Short, so that faults are noticed soon; long enough for a busy machine.
const PATIENCE: Duration = Duration::from_millis(300);

fn proxied(server: &RedisServer) -> FaultProxy {
    FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], server.port()))).unwrap()
}

async fn impatient(url: &str) -> Keeper {
    Keeper::builder().url(url).unwrap().response_timeout(PATIENCE).connect().await.unwrap()
}

async fn try_error(keeper: &Keeper, name: &str) -> Error {
    keeper.lock(name).unwrap().lease(secs(30)).try_acquire().await.unwrap_err()
}

async fn gone(server: &RedisServer, key: &str) {
    until("the key is gone", SOON, async || !exists(server, key)).await;
}

async fn works_again(keeper: &Keeper) {
    let lock = keeper.lock("again").unwrap().wait(secs(10));
    let guard = lock.acquire().await.unwrap().or_busy().unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn l55_an_acquire_whose_reply_is_lost_is_compensated() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = impatient(&proxy.url()).await;
    works_again(&keeper).await;
    proxy.drop_replies(DropReply::Silently);
    let error = try_error(&keeper, "a").await;
    assert!(error.is_outcome_unknown(), "{error}");
    assert!(exists(&server, "lock:a"), "it was applied");
    proxy.heal();
    gone(&server, "lock:a").await;
    quiet(&keeper).await;
    works_again(&keeper).await;
}

/// A token of the caller's own that is being compensated is never held.
#[tokio::test]
async fn a_given_token_is_never_compensated_while_it_is_held() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = impatient(&proxy.url()).await;
    works_again(&keeper).await;
    proxy.drop_replies(DropReply::Silently);
    let lock = keeper.lock("own").unwrap().lease(secs(30)).wait(secs(10));
    let lock = lock.token(OwnerToken::given("my-own").unwrap());
    let error = lock.acquire().await.unwrap_err();
    assert!(error.is_outcome_unknown(), "it is not tried again with the same token: {error}");
    proxy.heal();
    gone(&server, "lock:own").await;
    quiet(&keeper).await;
}

/// What makes no sense may have been a grant: it is given back.
#[tokio::test]
async fn a_senseless_reply_is_compensated() {
    let released = Arc::new(AtomicUsize::new(0));
    let script = lockkeeper::redis::SCRIPTS.iter().find(|script| script.name == "release").unwrap().hash();
    let seen = released.clone();
    let fake = FakeServer::start(move |_, words| match words[0].as_str() {
        "EVALSHA" if words[1] == script => {
            seen.fetch_add(1, Ordering::SeqCst);
            Fake::Say("*2\r\n:9000000000000000\r\n$8\r\nreleased".to_owned())
        }
        _ => greeting(words).unwrap_or(Fake::Say("+OK".to_owned())),
    });
    let keeper = impatient(&fake.url()).await;
    assert_eq!(try_error(&keeper, "a").await.kind(), ErrorKind::Protocol);
    until("given back", SOON, async || released.load(Ordering::SeqCst) > 0).await;
    quiet(&keeper).await;
}

/// The connection breaks after the server did it: asked again with the same token, the same acquisition is answered.
#[tokio::test]
async fn an_acquire_is_repeated_with_its_token_after_a_broken_connection() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = keeper_through(&proxy).await;
    let first = take(&keeper, "a", secs(30)).await.fence().unwrap();
    gone(&server, "lock:a").await;
    proxy.drop_next_reply(DropReply::ThenClose);
    let guard = take(&keeper, "a", secs(30)).await;
    assert!(guard.is_valid() && guard.fence().unwrap() > first);
    let held = command(&server, &["GET", "lock:a"]);
    assert_eq!(held.as_bytes().unwrap(), guard.token().as_bytes());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    quiet(&keeper).await;
    assert!(!exists(&server, "lock:a"));
}

async fn keeper_through(proxy: &FaultProxy) -> Keeper {
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    works_again(&keeper).await;
    keeper
}

#[tokio::test]
async fn l113_l92_a_release_whose_reply_is_lost_is_a_release() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = keeper_through(&proxy).await;
    let guard = take(&keeper, "a", secs(30)).await;
    proxy.drop_next_reply(DropReply::ThenClose);
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert!(!exists(&server, "lock:a"));

    let guard = take(&keeper, "a", secs(30)).await;
    proxy.drop_replies(DropReply::Silently);
    assert_eq!(guard.release().await.unwrap(), Released::Unknown);
    proxy.heal();
    let next = keeper.lock("a").unwrap().acquire().await.unwrap().or_busy().unwrap();
    quiet(&keeper).await;
    assert!(is_busy(&keeper, "a").await && next.is_valid(), "the retried release left the next holder alone");
}

/// Invariant 5: the acquire sits in a socket that nobody reads, its caller is gone, and its compensation may overtake it.
#[tokio::test]
async fn an_acquire_that_arrives_after_its_compensation_is_compensated_again() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = impatient(&proxy.url()).await;
    works_again(&keeper).await;
    for round in 0..10u64 {
        proxy.hold_requests();
        let lock = keeper.lock("a").unwrap().lease(secs(30));
        let attempt = tokio::time::timeout(ms(20), lock.try_acquire()).await;
        assert!(attempt.is_err(), "it is held");
        assert!(proxy.wait_until(SOON, |stats| stats.kept_request_bytes > 0));
        tokio::time::sleep(ms(round * 3)).await;
        proxy.release();
        quiet(&keeper).await;
        assert!(!exists(&server, "lock:a"), "round {round}");
    }
}

/// A stopped server keeps what it was sent and runs all of it afterwards; "not after" makes that harmless.
#[tokio::test]
async fn l2_commands_that_a_stopped_server_kept_take_nothing_later() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    works_again(&keeper).await;
    server.pause().unwrap();
    let started = Instant::now();
    for name in ["a", "b", "c"] {
        let error = try_error(&keeper, name).await;
        assert!(matches!(error.kind(), ErrorKind::OutcomeUnknown { .. } | ErrorKind::Unreachable), "{error}");
    }
    assert!(started.elapsed() < secs(8), "{:?}", started.elapsed());
    server.resume().unwrap();
    works_again(&keeper).await;
    quiet(&keeper).await;
    for name in ["lock:a", "lock:b", "lock:c"] {
        assert!(!exists(&server, name), "{name} was taken for nobody");
    }
    assert_eq!(keeper.health().await.held, 0);
}

#[tokio::test]
async fn l2_a_paused_server_takes_nothing_after_its_time() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    works_again(&keeper).await;
    command(&server, &["CLIENT", "PAUSE", "1000", "ALL"]);
    let error = try_error(&keeper, "a").await;
    assert!(error.is_outcome_unknown(), "{error}");
    let other = impatient_later(&server).await;
    let guard = other.lock("a").unwrap().wait(secs(5)).acquire().await.unwrap().or_busy().unwrap();
    assert!(guard.is_valid());
    quiet(&keeper).await;
    assert!(guard.is_valid() && is_busy(&other, "a").await);
}

async fn impatient_later(server: &RedisServer) -> Keeper {
    Keeper::builder().url(&server.url()).unwrap().lazy().connect().await.unwrap()
}

#[tokio::test]
async fn l5_after_a_failed_renewal_and_release_the_next_hold_is_renewed() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let lock = keeper.lock("a").unwrap().lease(ms(900));
    let guard = lock.acquire().await.unwrap().or_busy().unwrap();
    server.pause().unwrap();
    let reason = tokio::time::timeout(secs(5), guard.lost()).await.unwrap();
    assert!(matches!(reason, LossReason::NotRenewed(_)), "{reason:?}");
    let failed = guard.release().await;
    assert!(matches!(&failed, Ok(Released::Unknown)) || failed.is_err(), "{failed:?}");
    server.resume().unwrap();
    let guard =
        keeper.lock("a").unwrap().lease(ms(900)).wait(secs(5)).acquire().await.unwrap().or_busy().unwrap();
    // Real time: three leases. A held lock must outlive its first.
    tokio::time::sleep(ms(2700)).await;
    assert!(guard.is_valid(), "{:?}", guard.loss());
    assert!(is_busy(&keeper, "a").await);
}

/// The guard learns of the loss from the reconnection, long before a third of its lease has passed.
#[tokio::test]
async fn a_server_that_was_restarted_empty_is_noticed_at_once() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let guard = keeper.lock("a").unwrap().lease(secs(60)).try_acquire().await.unwrap().or_busy().unwrap();
    until("a sign of life", SOON, async || {
        calls(&server, &["time"]) > 1 && keeper.health().await.renewal_connected
    })
    .await;
    server.kill().unwrap();
    assert!(guard.is_valid(), "its lease may still be kept");
    server.restart().unwrap();
    let started = Instant::now();
    assert_eq!(tokio::time::timeout(secs(10), guard.lost()).await.unwrap(), LossReason::KeyGone);
    assert!(started.elapsed() < secs(10));
    works_again(&keeper).await;
}

/// The same without renewals: its lease is looked for, once for each time that the server may have been restarted.
#[tokio::test]
async fn a_server_that_was_restarted_empty_is_noticed_by_who_does_not_renew() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let lock = keeper.lock("a").unwrap().lease(secs(600)).no_renewal();
    let guard = lock.try_acquire().await.unwrap().or_busy().unwrap();
    until("a sign of life", SOON, async || {
        calls(&server, &["time"]) > 1 && keeper.health().await.renewal_connected
    })
    .await;
    command(&server, &["CLIENT", "KILL", "TYPE", "normal"]);
    until("it is looked for", SOON * 3, async || calls(&server, LOOKS) > 0).await;
    assert!(guard.is_valid(), "the server has it: {:?}", guard.loss());
    server.kill().unwrap();
    server.restart().unwrap();
    assert_eq!(tokio::time::timeout(secs(15), guard.lost()).await.unwrap(), LossReason::KeyGone);
}

#[tokio::test]
async fn a_killed_server_is_unreachable_and_comes_back() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    works_again(&keeper).await;
    server.kill().unwrap();
    let started = Instant::now();
    let mut kinds = Vec::new();
    for _ in 0..5 {
        kinds.push(try_error(&keeper, "a").await.kind());
    }
    assert!(
        kinds.iter().all(|kind| matches!(kind, ErrorKind::Unreachable | ErrorKind::OutcomeUnknown { .. })),
        "{kinds:?}"
    );
    assert_eq!(kinds.last(), Some(&ErrorKind::Unreachable));
    assert!(started.elapsed() < secs(5), "{:?}", started.elapsed());
    let waiting = tokio::spawn({
        let lock = keeper.lock("a").unwrap().wait(secs(20));
        async move { lock.acquire().await }
    });
    server.restart().unwrap();
    assert!(
        matches!(waiting.await.unwrap().unwrap(), Acquired::Held(_)),
        "who waits gets it when the server is back"
    );
    works_again(&keeper).await;
    quiet(&keeper).await;
}

/// A cut of less than the lease costs nothing, also where the lease is short: renewals do not wait for a long pause.
#[tokio::test]
async fn a_short_lease_survives_a_short_cut() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = keeper_through(&proxy).await;
    let guard = keeper.lock("a").unwrap().lease(secs(3)).try_acquire().await.unwrap().or_busy().unwrap();
    until("the renewal connection stands", SOON, async || keeper.health().await.renewal_connected).await;
    proxy.cut();
    // Real time: 1.2 s of a lease that has at least 2 s left.
    tokio::time::sleep(ms(1200)).await;
    proxy.heal();
    until("renewed", ms(900), async || guard.remaining() > ms(2500)).await;
}

/// L46, L31: nobody is there. The wait limit holds, and connecting is tried with growing pauses, not in a hot loop.
#[tokio::test]
async fn l46_l31_waiting_for_a_server_that_is_away_is_bounded_and_gentle() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = keeper_through(&proxy).await;
    proxy.cut();
    let refused = proxy.stats().refused;
    let started = Instant::now();
    let error = keeper.lock("a").unwrap().wait(secs(1)).acquire().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(started.elapsed() >= secs(1) && started.elapsed() < secs(4), "{:?}", started.elapsed());
    let attempts = proxy.stats().refused - refused;
    assert!((1..40).contains(&attempts), "{attempts} attempts to connect in a second");
}

#[tokio::test]
async fn a_black_hole_is_left_for_a_fresh_connection() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = impatient(&proxy.url()).await;
    works_again(&keeper).await;
    proxy.black_hole();
    for _ in 0..3 {
        let error = try_error(&keeper, "a").await;
        assert!(error.is_transient(), "{error}");
    }
    proxy.heal();
    works_again(&keeper).await;
    quiet(&keeper).await;
}

#[tokio::test]
async fn a_slow_network_is_slow_and_nothing_more() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = keeper_through(&proxy).await;
    proxy.slow(ms(100));
    let started = Instant::now();
    let guard = take(&keeper, "a", secs(10)).await;
    assert!(started.elapsed() >= ms(200), "{:?}", started.elapsed());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

/// L47: the answer comes after the lease has ended for its holder. No guard, and nothing left.
#[tokio::test]
async fn l47_a_lease_that_ends_before_the_answer_comes_is_no_lease() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = keeper_through(&proxy).await;
    proxy.slow(ms(60));
    let error = keeper.lock("a").unwrap().lease(ms(100)).no_renewal().try_acquire().await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    proxy.slow(Duration::ZERO);
    gone(&server, "lock:a").await;
    quiet(&keeper).await;
}

/// What the server refuses is refused by name; undoing it mends it, without a new client.
async fn refused_by_name(server: &RedisServer, spoil: &[&[&str]], expected: Refusal, mend: &[&[&str]]) {
    let keeper = keeper(server).await;
    let held = keeper.lock("held").unwrap().lease(secs(30)).try_acquire().await.unwrap().or_busy().unwrap();
    spoil.iter().for_each(|words| drop(command(server, words)));
    let started = Instant::now();
    let error = try_error(&keeper, "a").await;
    assert_eq!(error.kind(), ErrorKind::Refused(expected), "{error}");
    assert!(started.elapsed() < secs(2) && held.is_valid());
    mend.iter().for_each(|words| drop(command(server, words)));
    assert!(!exists(server, "lock:a"));
    works_again(&keeper).await;
    assert_eq!(held.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn refusals_are_told_apart_on_old_and_new_servers() {
    for kind in [ServerKind::Redis62, ServerKind::Redis, ServerKind::Valkey] {
        if !available(kind) {
            continue;
        }
        let server = RedisServer::builder().kind(kind).config("repl-timeout", "60").start().unwrap();
        let full: &[&[&str]] = &[&["CONFIG", "SET", "maxmemory", "1"]];
        refused_by_name(&server, full, Refusal::OutOfMemory, &[&["CONFIG", "SET", "maxmemory", "0"]]).await;
        let alone: &[&[&str]] = &[&["CONFIG", "SET", "min-replicas-to-write", "1"]];
        refused_by_name(
            &server,
            alone,
            Refusal::NoReplicas,
            &[&["CONFIG", "SET", "min-replicas-to-write", "0"]],
        )
        .await;
        let demoted: &[&[&str]] = &[&["REPLICAOF", "127.0.0.1", "1"]];
        refused_by_name(&server, demoted, Refusal::ReadOnly, &[&["REPLICAOF", "NO", "ONE"]]).await;
        let stale: &[&[&str]] =
            &[&["CONFIG", "SET", "replica-serve-stale-data", "no"], &["REPLICAOF", "127.0.0.1", "1"]];
        refused_by_name(&server, stale, Refusal::PrimaryDown, &[&["REPLICAOF", "NO", "ONE"]]).await;
    }
}

#[tokio::test]
async fn a_server_that_cannot_save_is_misconf() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().config("save", "3600 1").start().unwrap();
    // The snapshot's name is taken by a folder, so that saving fails.
    std::fs::create_dir(server.folder().join("dump.rdb")).unwrap();
    std::fs::write(server.folder().join("dump.rdb/x"), "").unwrap();
    command(&server, &["SET", "x", "1"]);
    command(&server, &["BGSAVE"]);
    let failed = || {
        command(&server, &["INFO", "persistence"]).as_str().unwrap().contains("rdb_last_bgsave_status:err")
    };
    until("saving failed", SOON, async || failed()).await;
    let error = try_error(&keeper(&server).await, "a").await;
    assert_eq!(error.kind(), ErrorKind::Refused(Refusal::Misconfigured), "{error}");
}

#[tokio::test]
async fn l41_c41_a_full_server_still_releases() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let guard = take(&keeper, "a", secs(30)).await;
    command(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert!(!exists(&server, "lock:a"));
}

#[tokio::test]
async fn l94_l103_missing_permissions_are_named_and_the_least_suffice() {
    let Some(server) = server() else { return };
    let port = server.port();
    let rule = |user: &str, rest: &[&str]| {
        let words = [&["ACL", "SETUSER", user, "on", ">pw", "resetkeys", "-@all"], rest].concat();
        command(&server, &words);
    };
    let least = [
        "~lock:*",
        "+eval",
        "+evalsha",
        "+evalsha_ro",
        "+eval_ro",
        "+get",
        "+set",
        "+del",
        "+pttl",
        "+pexpire",
        "+time",
    ];
    rule("least", &least);
    let keeper = Keeper::connect(&format!("redis://least:pw@127.0.0.1:{port}")).await.unwrap();
    works_again(&keeper).await;

    rule("nohash", &least.map(|word| if word == "+evalsha" { "-evalsha" } else { word }));
    let keeper = Keeper::connect(&format!("redis://nohash:pw@127.0.0.1:{port}")).await.unwrap();
    works_again(&keeper).await;

    rule("noreadonly", &["~*", "+@all", "-evalsha_ro", "-eval_ro"]);
    let keeper = Keeper::connect(&format!("redis://noreadonly:pw@127.0.0.1:{port}")).await.unwrap();
    assert!(!is_busy(&keeper, "a").await, "looking works without the read-only commands");

    rule("noscripts", &["~*", "+@all", "-@scripting"]);
    let keeper = Keeper::connect(&format!("redis://noscripts:pw@127.0.0.1:{port}")).await.unwrap();
    let error = try_error(&keeper, "a").await;
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("scripts"), "{error}");

    for (user, rest) in [("nokeys", &["~other:*", "+@all"][..]), ("noset", &["~*", "+@all", "-set"])] {
        rule(user, rest);
        let keeper = Keeper::connect(&format!("redis://{user}:pw@127.0.0.1:{port}")).await.unwrap();
        let error = try_error(&keeper, "a").await;
        assert_eq!(error.kind(), ErrorKind::Refused(Refusal::NoPermission), "{user}: {error}");
    }
    assert!(!exists(&server, "lock:a"));
}

/// What no binary here does at will comes from a scripted fake.
#[tokio::test]
async fn l82_l97_l124_other_answers_come_from_a_fake() {
    for (words, expected) in [
        ("-LOADING Redis is loading the dataset in memory", ErrorKind::Refused(Refusal::Loading)),
        (
            "-BUSY Redis is busy running a script. You can only call SCRIPT KILL",
            ErrorKind::Refused(Refusal::BusyScript),
        ),
        ("-MOVED 3999 127.0.0.1:6381", ErrorKind::Refused(Refusal::Cluster)),
        ("-CROSSSLOT Keys in request don't hash to the same slot", ErrorKind::Refused(Refusal::Cluster)),
        ("-CLUSTERDOWN The cluster is down", ErrorKind::Refused(Refusal::ClusterDown)),
        ("-ERR something new", ErrorKind::Refused(Refusal::Other)),
        ("-ERR unknown command 'EVAL'", ErrorKind::Unsupported),
        ("+OK", ErrorKind::Protocol),
        ("*1\r\n:1", ErrorKind::Protocol),
        ("*2\r\n:1\r\n$3\r\nodd", ErrorKind::Protocol),
        ("*3\r\n:1\r\n$7\r\ngranted\r\n:-1", ErrorKind::Protocol),
        ("*1\r\n:99999999999999999", ErrorKind::Protocol),
    ] {
        let fake =
            FakeServer::start(move |_, command| greeting(command).unwrap_or(Fake::Say(words.to_owned())));
        let keeper = Keeper::connect(&fake.url()).await.unwrap();
        let error = try_error(&keeper, "a").await;
        assert_eq!(error.kind(), expected, "{words}: {error}");
    }
}

/// Invariant 5: a definite answer to the second copy says nothing about the first, which nobody answered.
#[tokio::test]
async fn a_refused_second_copy_leaves_the_first_in_doubt() {
    let fake = FakeServer::start(|_, words| match words[0].as_str() {
        "EVALSHA" => Fake::Close,
        _ => greeting(words).unwrap_or(Fake::Say("-ERR no".to_owned())),
    });
    let keeper = Keeper::connect(&fake.url()).await.unwrap();
    let error = try_error(&keeper, "a").await;
    assert!(error.is_outcome_unknown(), "both copies were lost: {error}");

    let fake = FakeServer::start(|number, words| match words[0].as_str() {
        "EVALSHA" if number == 0 => Fake::Close,
        "EVALSHA" => Fake::Say("-OOM command not allowed".to_owned()),
        _ => greeting(words).unwrap_or(Fake::Say("-ERR no".to_owned())),
    });
    let keeper = Keeper::connect(&fake.url()).await.unwrap();
    let error = try_error(&keeper, "a").await;
    assert!(error.is_outcome_unknown(), "the first copy may have been applied: {error}");
}

/// A socket that takes everything and answers nothing is left for another after three unanswered commands.
#[tokio::test]
async fn a_silent_socket_is_replaced() {
    let fake = FakeServer::start(|number, words| match (number, words[0].as_str()) {
        (0, "EVALSHA") => Fake::Silence,
        (_, "EVALSHA") => Fake::Say("*6\r\n:1\r\n$4\r\nbusy\r\n:0\r\n$1\r\nx\r\n:1\r\n:-1".to_owned()),
        _ => greeting(words).unwrap_or(Fake::Say("-ERR no".to_owned())),
    });
    let keeper = impatient(&fake.url()).await;
    for _ in 0..3 {
        assert!(try_error(&keeper, "a").await.is_outcome_unknown());
    }
    let acquired = keeper.lock("a").unwrap().try_acquire().await.unwrap();
    assert!(matches!(acquired, Acquired::Busy(_)), "{acquired:?}");
}

/// A step of the server's clock costs one answer of "too late" and one more trip, not a refusal for ever.
#[tokio::test]
async fn a_step_of_the_servers_clock_does_not_refuse_for_ever() {
    let Some(arm) = SteppedRedis::start(ServerKind::Redis62).await else { return };
    let keeper = Keeper::builder().redis_store(arm.redis().clone()).connect().await.unwrap();
    let hour = 3_600_000_000;
    for (step, sends) in [(hour, 2), (-2 * hour, 1), (hour, 2)] {
        let before = calls(arm.server(), &["evalsha", "eval"]);
        arm.set_server_clock(arm.server_clock().saturating_add_signed(step));
        let guard = take(&keeper, &format!("step{step}"), secs(10)).await;
        let sent = calls(arm.server(), &["evalsha", "eval"]) - before;
        assert!(sent >= sends && sent <= sends + 1, "{sent} sends after a step of {step} µs");
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        arm.advance(ms(5));
    }
}
