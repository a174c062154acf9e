//! Plain locks where scripts are forbidden: on a real Valkey 8.1, which has `SET … IFEQ`. No server here has `DELIFEQ`
//! (Valkey 9) or `DELEX` (Redis 8.4): those two are tried against a scripted fake, which answers as their documents say.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use lockkeeper::core::lock::{Identity, Lease, Release, Renew};
use lockkeeper::core::{Apply, Key, Keys, Prefix, Timestamp};
use lockkeeper::redis::{Lane, RedisStore};
use lockkeeper::{
    Error, ErrorKind, Extended, Keeper, LossReason, OwnerToken, RedisConfig, Released, SystemClock,
    TakenOver, fingerprint,
};
use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_testkit::fake::{Fake, FakeServer};
use lockkeeper_testkit::wait::until;
use support::{PATIENT, SOON, command, got, in_line, ms, secs, take, waits};

/// A user who may do everything but run scripts.
fn without_scripts(kind: ServerKind) -> Option<(RedisServer, String)> {
    let server = available(kind).then(|| RedisServer::builder().kind(kind).start().unwrap())?;
    command(&server, &["ACL", "SETUSER", "plain", "on", ">pw", "~*", "+@all", "-@scripting"]);
    let url = server.url().replace("redis://", "redis://plain:pw@");
    Some((server, url))
}

async fn plain(url: &str) -> Keeper {
    Keeper::builder().url(url).unwrap().without_scripts().connect().await.unwrap()
}

fn is_unsupported<T: std::fmt::Debug>(result: Result<T, Error>, words: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains(words), "{words}: {error}");
}

/// Everything that a plain lock promises, on one server.
async fn holds_what_it_promises(url: &str) {
    let (one, other) = (plain(url).await, plain(url).await);
    let guard = take(&one, "a", secs(30)).await;
    is_unsupported(guard.fence(), "no fences");
    let busy = other.lock("a").unwrap().try_acquire().await.unwrap().or_busy().unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
    let seen = other.inspect("a").await.unwrap();
    assert_eq!(seen.holder, Some(guard.token().holder()));
    assert!(seen.remaining.unwrap() > secs(25) && seen.fence.is_none());

    // A lease is never shortened.
    assert_eq!(guard.extend(secs(5)).await.unwrap(), Extended::Extended);
    assert!(other.inspect("a").await.unwrap().remaining.unwrap() > secs(25));
    assert_eq!(guard.extend(secs(90)).await.unwrap(), Extended::Extended);
    assert!(other.inspect("a").await.unwrap().remaining.unwrap() > secs(80));

    let token = guard.hand_over().unwrap();
    let TakenOver::Held(guard) = other.lock("a").unwrap().take_over(&token).await.unwrap() else {
        panic!("not taken over")
    };
    assert_eq!(
        one.release_token("a", &token).await.unwrap(),
        Released::HeldByAnother(guard.token().holder())
    );
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    let guard = take(&one, "a", ms(50)).await;
    tokio::time::sleep(ms(60)).await;
    assert_eq!(guard.release().await.unwrap(), Released::Expired);
    assert!(one.inspect("a").await.unwrap().holder.is_none());

    // Kept beyond the lease that it began with, and lost to nobody.
    let lock = one.lock("b").unwrap().lease(secs(2));
    let taken = Instant::now();
    let guard = lock.try_acquire().await.unwrap().or_busy().unwrap();
    until("its first lease has passed", PATIENT, async || taken.elapsed() > secs(2)).await;
    assert!(guard.is_valid(), "{:?}", guard.loss());
    // Inside a keeper, and between two.
    let inside = waits(lock.clone().wait(secs(20)));
    in_line(&one, 1).await;
    drop(guard);
    let guard = got(inside).await;
    let outside = waits(other.lock("b").unwrap().wait(secs(20)));
    in_line(&other, 1).await;
    guard.release().await.unwrap();
    assert_eq!(got(outside).await.release().await.unwrap(), Released::Released);
}

/// Whatever needs more than one key or a script says so, and has taken nothing.
async fn refuses_the_rest(url: &str) {
    let keeper = plain(url).await;
    is_unsupported(keeper.lock_all(["a", "b"]).unwrap().try_acquire().await, "several keys");
    is_unsupported(keeper.concurrency("p", 1).unwrap().try_acquire().await, "EVALSHA");
    let limiter = keeper.limiter("l", "3/s").unwrap().decide_within(PATIENT);
    is_unsupported(limiter.check("u").await, "EVALSHA");
    let once = keeper.once("o").unwrap();
    is_unsupported(once.begin("k", fingerprint::of_bytes("x")).await, "EVALSHA");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l103_a_plain_lock_works_where_scripts_are_forbidden() {
    let Some((server, url)) = without_scripts(ServerKind::Valkey) else { return };
    holds_what_it_promises(&url).await;
    command(&server, &["FLUSHALL"]);
    refuses_the_rest(&url).await;
    assert_eq!(command(&server, &["DBSIZE"]).as_int(), Some(0), "something was taken");
    // Not chosen: an error, although it could.
    let keeper = Keeper::connect(&url).await.unwrap();
    is_unsupported(keeper.lock("a").unwrap().try_acquire().await, "EVALSHA");
    command(&server, &["RPUSH", "lock:a", "job"]);
    let keeper = plain(&url).await;
    let error = keeper.lock("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
    assert!(keeper.inspect("a").await.unwrap().wrong_type);
    // Where scripts are allowed, nothing changes.
    let keeper = plain(&server.url()).await;
    assert!(take(&keeper, "b", secs(5)).await.fence().is_ok());
}

#[tokio::test]
async fn l82_l103_without_compare_and_set_nothing_is_taken_and_it_is_said() {
    for kind in [ServerKind::Redis, ServerKind::Redis62] {
        let Some((server, url)) = without_scripts(kind) else { continue };
        let keeper = plain(&url).await;
        for _ in 0..2 {
            is_unsupported(keeper.lock("a").unwrap().try_acquire().await, "IFEQ");
        }
        assert_eq!(command(&server, &["DBSIZE"]).as_int(), Some(0), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l103_plain_locks_of_two_keepers_exclude_each_other() {
    let Some((_server, url)) = without_scripts(ServerKind::Valkey) else { return };
    let keepers = [plain(&url).await, plain(&url).await];
    let (inside, sections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let tasks: Vec<_> = (0..8)
        .map(|number: usize| {
            let lock = keepers[number % 2].lock("a").unwrap().lease(secs(10)).wait(secs(60));
            let (inside, sections) = (inside.clone(), sections.clone());
            tokio::spawn(async move {
                for _ in 0..25 {
                    let guard = lock.acquire().await.unwrap().or_busy().unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
                    tokio::task::yield_now().await;
                    inside.store(false, Ordering::SeqCst);
                    sections.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(guard.release().await.unwrap(), Released::Released);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(sections.load(Ordering::SeqCst), 200);
}

#[tokio::test]
async fn l103_a_plain_lock_that_another_took_is_lost() {
    let Some((server, url)) = without_scripts(ServerKind::Valkey) else { return };
    let keeper = plain(&url).await;
    let guard = keeper.lock("a").unwrap().lease(secs(2)).try_acquire().await.unwrap().or_busy().unwrap();
    command(&server, &["SET", "lock:a", "somebody", "PX", "60000"]);
    let reason = tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    assert!(matches!(reason, LossReason::HeldByAnother(_)), "{reason}");
    assert!(matches!(guard.release().await.unwrap(), Released::HeldByAnother(_)));
    assert_eq!(command(&server, &["GET", "lock:a"]).as_str(), Some("somebody"));
}

/// Released by an expiry of a millisecond, it is nobody's at once: a renewal under way does not revive it.
#[tokio::test]
async fn l1_l103_nothing_renews_a_plain_lock_after_its_release() {
    let Some((server, url)) = without_scripts(ServerKind::Valkey) else { return };
    let config = RedisConfig::from_url(&url).unwrap().without_scripts();
    let store = RedisStore::connect(config, Arc::new(SystemClock)).await.unwrap();
    let at = Keys::from(Key::new(&Prefix::new("lock:").unwrap(), "a").unwrap());
    let token = OwnerToken::generate([1; 16], &Identity::new("host", 1), Timestamp::from_micros(1));
    let (lease, within) = (Lease::new(secs(60)).unwrap(), secs(5));
    let text = String::from_utf8(token.as_bytes().to_vec()).unwrap();
    let renewing = store.on(Lane::Renewal);
    let release = async || store.apply(&at, Release { token: token.clone() }, within).await.unwrap();
    let renew = async || {
        let renew = Renew { token: token.clone(), lease, not_after: Timestamp::MAX };
        renewing.apply(&at, renew, within).await.unwrap()
    };
    release().await;
    renew().await;
    for round in 0..1000 {
        command(&server, &["SET", "lock:a", &text, "PX", "60000"]);
        tokio::join!(renew(), release());
        let left = command(&server, &["PTTL", "lock:a"]).as_int().unwrap();
        assert!(left <= 1, "round {round}: revived for {left} ms");
    }
}

/// A server without scripts that knows one of the two commands, one database, and no expiry.
fn fake(deletes: &'static str) -> (FakeServer, Arc<AtomicU32>) {
    let (held, deleted) =
        (Arc::new(Mutex::new(HashMap::<String, (String, u64)>::new())), Arc::new(AtomicU32::new(0)));
    let count = deleted.clone();
    let server = FakeServer::start(move |_, words| {
        let mut held = held.lock().unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut free = |key: &str, token: &str| {
            let is_theirs = held.get(key).is_some_and(|(holder, _)| holder == token);
            count.fetch_add(u32::from(is_theirs), Ordering::SeqCst);
            is_theirs.then(|| held.remove(key));
            format!(":{}", u8::from(is_theirs))
        };
        Fake::Say(match words[..] {
            ["INFO", ..] => "$19\r\nredis_version:9.0.0".to_owned(),
            ["DELIFEQ", key, token] if deletes == "DELIFEQ" => free(key, token),
            ["DELEX", key, "IFEQ", token] if deletes == "DELEX" => free(key, token),
            ["SET", key, token, "NX", "PX", ms] if !held.contains_key(key) => {
                held.insert(key.to_owned(), (token.to_owned(), ms.parse().unwrap()));
                "+OK".to_owned()
            }
            ["SET", _, _, "NX", "PX", _] => "$-1".to_owned(),
            ["SET", key, to, "IFEQ", from, "PX", ms] => match held.get_mut(key) {
                Some(entry) if entry.0 == from => {
                    assert_ne!(ms, "1", "it has a command to delete with");
                    *entry = (to.to_owned(), ms.parse().unwrap());
                    "+OK".to_owned()
                }
                _ => "$-1".to_owned(),
            },
            ["GET", key] => match held.get(key) {
                Some((token, _)) => format!("${}\r\n{token}", token.len()),
                None => "$-1".to_owned(),
            },
            ["PTTL", key] => held.get(key).map_or(":-2".to_owned(), |(_, ms)| format!(":{ms}")),
            ["TIME"] => "*2\r\n$10\r\n1800000000\r\n$1\r\n0".to_owned(),
            [name, ..] => format!("-ERR unknown command '{name}', with args beginning with: "),
            [] => "-ERR empty".to_owned(),
        })
    });
    (server, deleted)
}

#[tokio::test]
async fn l103_delifeq_and_delex_give_back_what_is_theirs_and_nothing_else() {
    for deletes in ["DELIFEQ", "DELEX"] {
        let (server, deleted) = fake(deletes);
        let (one, other) = (plain(&server.url()).await, plain(&server.url()).await);
        let guard = take(&one, "a", secs(30)).await;
        let busy = other.lock("a").unwrap().try_acquire().await.unwrap().or_busy().unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Busy, "{deletes}: {busy}");
        let foreign = OwnerToken::generate([1; 16], &Identity::new("host", 1), Timestamp::from_micros(1));
        let released = other.release_token("a", &foreign).await.unwrap();
        assert_eq!(released, Released::HeldByAnother(guard.token().holder()), "{deletes}");
        assert_eq!(guard.extend(secs(60)).await.unwrap(), Extended::Extended);
        assert_eq!(deleted.load(Ordering::SeqCst), 0, "{deletes}");
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        assert_eq!(deleted.load(Ordering::SeqCst), 1, "{deletes}");
        assert_eq!(other.release_token("a", &foreign).await.unwrap(), Released::Expired, "{deletes}");
        drop(take(&other, "a", secs(30)).await);
    }
}
