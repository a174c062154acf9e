//! Degraded mode: a lock inside this process while the store is away, and a real one again afterwards.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lockkeeper::{Busy, Degradable, DegradableGuard, ErrorKind, Keeper, LocalGuard, Refusal, Released};
use lockkeeper_faults::FaultProxy;
use lockkeeper_testkit::drops::drop_at_every_poll;
use lockkeeper_testkit::fake::{Fake, FakeServer, greeting};
use lockkeeper_testkit::wait::until;
use support::{SOON, command, exists, is_busy, ms, nothing_left, secs, server, take};

async fn impatient(url: &str) -> Keeper {
    Keeper::builder().url(url).unwrap().response_timeout(ms(300)).connect().await.unwrap()
}

async fn acquire(keeper: &Keeper, names: &[&str], wait: Duration) -> Degradable {
    let lock = keeper.lock_all(names).unwrap().lease(secs(30)).wait(wait);
    lock.or_process_local().acquire().await.unwrap()
}

async fn held(keeper: &Keeper, name: &str) -> DegradableGuard {
    match acquire(keeper, &[name], secs(5)).await {
        Degradable::Held(guard) => guard,
        other => panic!("{other:?}"),
    }
}

async fn local(keeper: &Keeper, name: &str) -> LocalGuard {
    match acquire(keeper, &[name], secs(5)).await {
        Degradable::Local(guard) => guard,
        other => panic!("{other:?}"),
    }
}

async fn busy(keeper: &Keeper, names: &[&str], wait: Duration) -> Busy {
    match acquire(keeper, names, wait).await {
        Degradable::Busy(busy) => busy,
        other => panic!("{other:?}"),
    }
}

async fn degraded(keeper: &Keeper) -> usize {
    keeper.health().await.degraded
}

/// The next acquisition is a real one.
async fn real_again(keeper: &Keeper, name: &str) {
    until("real again", secs(10), async || {
        matches!(acquire(keeper, &[name], secs(5)).await, Degradable::Held(_))
    })
    .await;
}

#[tokio::test]
async fn a_stopped_server_degrades_and_a_started_one_does_not() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    assert_eq!(held(&keeper, "a").await.release().await.unwrap(), Released::Released);
    server.kill().unwrap();

    let started = Instant::now();
    let guard = local(&keeper, "a").await;
    assert!(started.elapsed() < secs(4), "it does not wait for its whole limit");
    assert!(guard.cause().is_transient() && guard.key() == "lock:a");
    assert_eq!(degraded(&keeper).await, 1);
    let in_the_way = busy(&keeper, &["a"], ms(50)).await;
    let me = format!(":{}:", std::process::id());
    assert!(in_the_way.holder.to_string().contains(&me), "{in_the_way}");
    drop(guard);
    assert_eq!(degraded(&keeper).await, 0);

    server.restart().unwrap();
    real_again(&keeper, "a").await;
}

#[tokio::test]
async fn a_real_holder_excludes_a_degraded_one() {
    let Some(server) = server() else { return };
    let proxy = FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], server.port()))).unwrap();
    let keeper = impatient(&proxy.url()).await;
    let guard = held(&keeper, "a").await;
    proxy.cut();
    let started = Instant::now();
    let in_the_way = busy(&keeper, &["b", "a"], ms(100)).await;
    assert!(started.elapsed() >= ms(100), "it waited");
    assert_eq!(in_the_way.key.name(), b"a");
    assert!(guard.is_valid());
    drop(guard);
    let both = acquire(&keeper, &["a", "b"], ms(100)).await;
    assert!(matches!(both, Degradable::Local(_)), "{both:?}");
    busy(&keeper, &["b"], Duration::ZERO).await;
    drop(both);
    proxy.heal();
    real_again(&keeper, "a").await;
}

#[tokio::test]
async fn an_unknown_outcome_degrades_and_is_given_back() {
    let Some(server) = server() else { return };
    let proxy = FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], server.port()))).unwrap();
    let keeper = impatient(&proxy.url()).await;
    drop(held(&keeper, "warm").await);
    proxy.drop_replies(lockkeeper_faults::DropReply::Silently);
    let guard = local(&keeper, "a").await;
    assert!(guard.cause().is_outcome_unknown(), "{}", guard.cause());
    proxy.heal();
    until("given back", SOON, async || !exists(&server, "lock:a")).await;
    drop(guard);
    real_again(&keeper, "a").await;
}

#[tokio::test]
async fn the_wait_limit_holds_for_both_steps_together() {
    let keeper = Keeper::connect("memory://").await.unwrap();
    // Real time: the second one would need 1.4 s if it began to count anew.
    let _elsewhere = take(&keeper, "a", secs(30)).await;
    let first = async { busy(&keeper, &["a"], ms(600)).await };
    let started = Instant::now();
    let second = async {
        busy(&keeper, &["a"], ms(800)).await;
        started.elapsed()
    };
    let (_, waited) = tokio::join!(first, second);
    assert!(waited >= ms(800) && waited < ms(1300), "{waited:?}: first here, then for the rest of it");
}

/// A server that says `words` to whoever wants a lock.
async fn refusing(words: &'static str) -> Keeper {
    let fake = FakeServer::start(move |_, command| match command[0].as_str() {
        "EVALSHA" => Fake::Say(words.to_owned()),
        _ => greeting(command).unwrap_or(Fake::Close),
    });
    impatient(&fake.url()).await
}

#[tokio::test]
async fn refusals_that_pass_degrade_and_mistakes_do_not() {
    for words in ["-LOADING data", "-READONLY replica", "-OOM full", "-MISCONF disk"] {
        let keeper = refusing(words).await;
        assert!(matches!(local(&keeper, "a").await.cause().kind(), ErrorKind::Refused(_)), "{words}");
    }
    for (words, refusal) in [("-NOPERM no", Refusal::NoPermission), ("-MOVED 1 x:1", Refusal::Cluster)] {
        let lock = refusing(words).await.lock("a").unwrap().or_process_local();
        assert_eq!(lock.acquire().await.unwrap_err().kind(), ErrorKind::Refused(refusal), "{words}");
    }
}

#[tokio::test]
async fn a_wrong_type_is_an_error() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    command(&server, &["RPUSH", "lock:a", "x"]);
    let error = keeper.lock("a").unwrap().or_process_local().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongType);
}

#[tokio::test]
async fn invariant_8_dropped_while_it_is_taken() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let lock = keeper.lock_all(["a", "b"]).unwrap().lease(secs(30)).or_process_local();
    let polls = drop_at_every_poll(
        || lock.acquire(),
        async |polls, output| {
            drop(output);
            nothing_left(&server, &keeper, format!("after {polls} polls")).await;
        },
    )
    .await;
    assert!(polls >= 2, "it was dropped in flight at least once");
    drop_at_every_poll(
        || async {
            let guard = held(&keeper, "a").await;
            guard.release().await
        },
        async |polls, _| nothing_left(&server, &keeper, format!("after {polls} polls")).await,
    )
    .await;
}

#[tokio::test]
async fn invariant_8_dropped_while_it_waits_for_a_local_holder() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let lock = keeper.lock_all(["a", "b"]).unwrap().lease(secs(30)).wait(ms(50)).or_process_local();
    drop_at_every_poll(
        || async {
            let holder = held(&keeper, "b").await;
            let result = lock.acquire().await;
            drop(holder);
            result
        },
        async |polls, output| {
            if let Some(result) = output {
                assert!(matches!(result.unwrap(), Degradable::Busy(_)));
            }
            nothing_left(&server, &keeper, format!("after {polls} polls")).await;
        },
    )
    .await;
}

#[tokio::test]
async fn invariant_8_dropped_while_it_degrades() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    server.kill().unwrap();
    let lock = keeper.lock("a").unwrap().or_process_local();
    drop_at_every_poll(
        || lock.acquire(),
        async |polls, output| {
            assert!(output.is_none_or(|result| matches!(result.unwrap(), Degradable::Local(_))));
            assert_eq!(degraded(&keeper).await, 0, "after {polls} polls");
        },
    )
    .await;
    server.restart().unwrap();
    real_again(&keeper, "a").await;
    until("released", SOON, async || !is_busy(&keeper, "a").await).await;
}
