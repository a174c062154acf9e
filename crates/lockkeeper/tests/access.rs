//! Each feature with a user who has its rule and nothing else, on every product and version.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::time::{Duration, Instant};

use lockkeeper::core::Timestamp;
use lockkeeper::core::lock::Identity;
use lockkeeper::redis::access::{Feature, Prefixes, Rule};
use lockkeeper::{
    Begun, Error, ErrorKind, Keeper, Once, OwnerToken, Released, Resolution, Stored, TakenOver, fingerprint,
};
use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_testkit::wait::until;
use support::{PATIENT, SOON, command, ms, only_key, secs};

fn servers() -> impl Iterator<Item = (ServerKind, RedisServer)> {
    let kinds = ServerKind::ALL.into_iter().filter(|&kind| available(kind));
    kinds.map(|kind| (kind, RedisServer::builder().kind(kind).start().unwrap()))
}

fn version(server: &RedisServer) -> (u32, u32) {
    let info = command(server, &["INFO", "server"]);
    let text = info.as_str().unwrap();
    let version = text.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap();
    let mut numbers = version.split('.').map(|part| part.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// A keeper of a user with these words.
async fn with(server: &RedisServer, words: &[String]) -> Keeper {
    let start = ["ACL", "SETUSER", "app", "reset", "on", ">pw"];
    command(server, &start.into_iter().chain(words.iter().map(String::as_str)).collect::<Vec<_>>());
    let url = server.url().replace("redis://", "redis://app:pw@");
    Keeper::builder().url(&url).unwrap().response_timeout(secs(5)).connect().await.unwrap()
}

fn words(feature: Feature, server: &RedisServer) -> Vec<String> {
    Rule::of(&[feature], &Prefixes::default(), version(server)).words().to_vec()
}

/// All that the feature does. An error of the first thing that did not work.
async fn exercise(feature: Feature, keeper: &Keeper, server: &RedisServer) -> Result<(), Error> {
    match feature {
        Feature::Locks => locks(keeper).await,
        Feature::Waiters => waiters(keeper, server).await,
        Feature::Inspecting => inspecting(keeper, server).await,
        Feature::Listing => listing(keeper, server).await,
        Feature::Permits => permits(keeper).await,
        Feature::Limits => limits(keeper, &PLAIN).await,
        Feature::SlidingLogs => limits(keeper, &["3/200ms sliding-log"]).await,
        Feature::Once => once(keeper, server).await,
        _ => unreachable!("not exercised here"),
    }
}

const PLAIN: [&str; 4] = ["3/h", "3/h fixed-window", "3/h fixed-window-from-first", "3/h sliding-counter"];

/// What makes a feature fail in a way that is no error of one call.
fn degraded(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, "exercise", what)
}

/// Within a second; a user who lacks something sees it never.
async fn soon(condition: impl AsyncFn() -> bool) -> bool {
    let started = Instant::now();
    while !condition().await {
        if started.elapsed() > secs(1) {
            return false;
        }
        tokio::time::sleep(ms(5)).await;
    }
    true
}

/// Of what is to be kept beyond it.
const LEASE: Duration = secs(2);

/// Waits until the lease of what was taken then has passed.
async fn passed(taken: Instant) {
    until("the first lease has passed", PATIENT, async || taken.elapsed() > LEASE).await;
}

async fn locks(keeper: &Keeper) -> Result<(), Error> {
    let lock = keeper.lock_all(["a", "b"])?;
    let guard = lock.try_acquire().await?.or_busy()?;
    guard.extend(secs(60)).await?;
    let token = guard.hand_over()?;
    let TakenOver::Held(guard) = lock.take_over(&token).await? else { panic!("not taken over") };
    assert_eq!(guard.release().await?, Released::Released);
    // The second time with one token restarts the lease.
    let token = OwnerToken::generate([7; 16], &Identity::new("host", 1), Timestamp::from_micros(1));
    let lock = keeper.lock("c")?.token(token).no_renewal();
    let first = lock.clone().lease(secs(5)).try_acquire().await?.or_busy()?;
    let second = lock.lease(secs(50)).try_acquire().await?.or_busy()?;
    second.release().await?;
    drop(first);
    Ok(())
}

async fn waiters(keeper: &Keeper, server: &RedisServer) -> Result<(), Error> {
    command(server, &["DEL", "lock:~wait:{lock:w}"]);
    command(server, &["SET", "lock:w", "somebody", "PX", "60000"]);
    let lock = keeper.lock("w")?.wait(secs(20));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let sees = async |count: u64| keeper.inspect("w").await.is_ok_and(|seen| seen.waiting() == count);
    let seen = soon(async || sees(1).await).await;
    let expires = command(server, &["PTTL", "lock:~wait:{lock:w}"]).as_int();
    waiting.abort();
    let gone = soon(async || sees(0).await).await;
    keeper.inspect("w").await?;
    command(server, &["DEL", "lock:w"]);
    if !(seen && gone) {
        return Err(degraded("who waits is not seen, or still after they left"));
    }
    if expires == Some(-1) {
        return Err(degraded("a note without an end"));
    }
    // And the grant of what was waited for.
    command(server, &["SET", "lock:w", "somebody", "PX", "60000"]);
    let lock = keeper.lock("w")?.wait(secs(20));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("in line", SOON, async || keeper.health().await.waiting == 1).await;
    command(server, &["DEL", "lock:w"]);
    let guard = waiting.await.unwrap()?.or_busy()?;
    command(server, &["DEL", "lock:w"]);
    drop(guard);
    Ok(())
}

async fn inspecting(keeper: &Keeper, server: &RedisServer) -> Result<(), Error> {
    command(server, &["SET", "lock:i", "somebody", "PX", "60000"]);
    let seen = keeper.inspect("i").await?;
    assert!(seen.holder.is_some() && seen.remaining.is_some());
    Ok(())
}

async fn listing(keeper: &Keeper, server: &RedisServer) -> Result<(), Error> {
    command(server, &["SET", "lock:i", "somebody", "PX", "60000"]);
    let (mut found, mut from) = (0, None);
    loop {
        let page = keeper.list(from).await?;
        found += page.locks.len();
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert!(found > 0);
    Ok(())
}

async fn permits(keeper: &Keeper) -> Result<(), Error> {
    let limit = keeper.concurrency("p", 1)?.lease(LEASE);
    let taken = Instant::now();
    let permit = limit.try_acquire().await?.or_full()?;
    assert!(limit.try_acquire().await?.or_full().is_err(), "one of one");
    assert_eq!(limit.holders().await?.len(), 1);
    // Renewed: it is valid after the lease that it began with.
    passed(taken).await;
    if !permit.is_valid() {
        return Err(degraded("not renewed"));
    }
    assert_eq!(permit.release().await?, Released::Released);
    Ok(())
}

async fn limits(keeper: &Keeper, limits: &[&str]) -> Result<(), Error> {
    for text in limits {
        let limiter = keeper.limiter("l", *text)?.decide_within(PATIENT).exact().without_memory_of_denials();
        for _ in 0..3 {
            assert!(limiter.check("u").await?.is_allowed(), "{text}");
        }
        limiter.refund("u", 1).await?;
        assert!(limiter.check("u").await?.is_allowed(), "{text}: given back");
        assert!(!limiter.check("u").await?.is_allowed(), "{text}: used up");
        assert_eq!(limiter.peek("u", 3).await?.remaining(), 0, "{text}");
        if text.contains("log") {
            // What is stale is cleared away by the next call.
            tokio::time::sleep(ms(250)).await;
            assert!(limiter.check("u").await?.is_allowed(), "{text}");
        }
        limiter.reset("u").await?;
        assert_eq!(limiter.peek("u", 1).await?.remaining(), 3, "{text}");
    }
    Ok(())
}

async fn once(keeper: &Keeper, server: &RedisServer) -> Result<(), Error> {
    let once = keeper.once("o")?.lease(LEASE).wait(Duration::ZERO);
    let taken = Instant::now();
    let attempt = claim(&once, "kept").await?;
    is_running(&once, "kept").await?;
    let key = only_key(server, "once:o:kept");
    command(server, &["PERSIST", &key]);
    is_running(&once, "kept").await?;
    // Kept alive beyond the lease that it began with.
    passed(taken).await;
    if !attempt.is_valid() {
        return Err(degraded("not kept alive"));
    }
    attempt.complete(Stored::whole(vec![b'x'; 1000]).unwrap()).await?;
    let Begun::Completed(_) = begin(&once, "kept").await? else { panic!("not completed") };
    claim(&once, "undone").await?.abandon().await?;
    let crashed = claim(&once, "crashed").await?;
    let fence = crashed.fence();
    drop(crashed);
    once.resolve("crashed", fence, Resolution::Undone).await?;
    once.inspect("kept").await?;
    keeper.list_once(None, None).await?;
    for key in ["kept", "undone", "crashed"] {
        command(server, &["DEL", &format!("once:o:{key}")]);
    }
    Ok(())
}

async fn begin(once: &Once, key: &str) -> Result<Begun, Error> {
    once.begin(key, fingerprint::of_bytes("the request")).await
}

async fn is_running(once: &Once, key: &str) -> Result<(), Error> {
    match begin(once, key).await? {
        Begun::Running { .. } => Ok(()),
        other => panic!("not running: {other:?}"),
    }
}

async fn claim(once: &Once, key: &str) -> Result<lockkeeper::Attempt, Error> {
    match begin(once, key).await? {
        Begun::Claimed(attempt) => Ok(attempt),
        other => panic!("not claimed: {other:?}"),
    }
}

const EXERCISED: [Feature; 8] = [
    Feature::Locks,
    Feature::Waiters,
    Feature::Inspecting,
    Feature::Listing,
    Feature::Permits,
    Feature::Limits,
    Feature::SlidingLogs,
    Feature::Once,
];

#[tokio::test]
async fn l94_l101_each_feature_works_with_its_rule_and_nothing_else() {
    for (kind, server) in servers() {
        for feature in EXERCISED {
            let keeper = with(&server, &words(feature, &server)).await;
            if let Err(error) = exercise(feature, &keeper, &server).await {
                panic!("{kind}, {feature}: {error}");
            }
        }
        let refused = refused(&server);
        assert!(refused.is_empty(), "{kind}: refused on the way, and not seen: {refused:?}");
    }
}

/// What was refused to anybody, but for what connecting asks, and does without.
fn refused(server: &RedisServer) -> Vec<String> {
    let log = command(server, &["ACL", "LOG"]);
    let objects = log.as_array().unwrap().iter().map(|entry| {
        let fields = entry.as_array().unwrap();
        let at = fields.iter().position(|field| field.as_str() == Some("object")).unwrap();
        fields[at + 1].as_str().unwrap().to_owned()
    });
    let probes = ["info", "client", "select", "hello"];
    objects.filter(|object| !probes.contains(&object.split('|').next().unwrap())).collect()
}

/// Without any of the commands that a feature cannot do without, it fails: none of them is idle.
#[tokio::test]
async fn l94_without_one_of_its_commands_a_feature_fails() {
    let Some(server) = support::server() else { return };
    for feature in EXERCISED {
        let words = words(feature, &server);
        for needed in feature.commands().filter(|command| command.without.is_none()) {
            let rest: Vec<String> =
                words.iter().filter(|word| **word != format!("+{}", needed.name)).cloned().collect();
            let keeper = with(&server, &rest).await;
            let error = exercise(feature, &keeper, &server).await.err();
            assert!(error.is_some(), "{feature} works without {}", needed.name);
            command(&server, &["FLUSHALL"]);
        }
    }
}

/// No channel is granted, and a release wakes at once; without the one word it is found by polling, which is said.
#[tokio::test]
async fn l94_waiting_needs_no_channel() {
    for (kind, server) in servers() {
        let rule = words(Feature::Waiting, &server);
        assert!(!rule.iter().any(|word| word.starts_with('&')), "{rule:?}");
        let keeper = with(&server, &rule).await;
        wakes(&keeper, &server).await;
        assert!(!keeper.redis_store().unwrap().may_not_hear(), "{kind}: it is told");
        let rest: Vec<String> = rule.into_iter().filter(|word| word != "+client|tracking").collect();
        let keeper = with(&server, &rest).await;
        wakes(&keeper, &server).await;
        assert!(keeper.redis_store().unwrap().may_not_hear(), "{kind}: it polls");
    }
}

async fn wakes(keeper: &Keeper, server: &RedisServer) {
    command(server, &["SET", "lock:a", "somebody", "PX", "60000"]);
    let lock = keeper.lock("a").unwrap().wait(secs(20));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("in line", SOON, async || keeper.health().await.waiting == 1).await;
    tokio::time::sleep(ms(50)).await;
    command(server, &["DEL", "lock:a"]);
    let guard = support::got(waiting).await;
    guard.release().await.unwrap();
}
