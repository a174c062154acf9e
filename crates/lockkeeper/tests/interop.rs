//! Sharing keys with the lock libraries of other languages: redis-py, and redlock for Node, as real processes.

#![allow(clippy::unwrap_used, reason = "these are tests")]

#[path = "interop/board.rs"]
mod board;
#[path = "interop/contest.rs"]
mod contest;
mod support;

use lockkeeper::{Acquired, Keeper, Released};
use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::wait::until;

use contest::contest;
use support::foreign::{Foreign, client, hold};
use support::{SOON, calls, command, exists, keeper, ms, secs, server};

const KEY: &str = "shared";

/// The server, and those foreign libraries that can be run; none of them without a server.
fn with_each() -> impl Iterator<Item = (RedisServer, Foreign)> {
    let usable = Foreign::ALL.into_iter().filter(|who| who.available());
    usable.filter_map(|who| server().map(|server| (server, who)))
}

fn value(server: &RedisServer) -> Vec<u8> {
    command(server, &["GET", KEY]).as_bytes().unwrap().to_vec()
}

async fn contest_with(foreigners: &[Foreign], share: u64) {
    let Some(server) = server() else { return };
    if foreigners.iter().all(|who| who.available()) {
        contest(&server, foreigners, share).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exclusion_holds_with_redis_py() {
    contest_with(&[Foreign::RedisPy], 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exclusion_holds_with_redlock() {
    contest_with(&[Foreign::Redlock], 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exclusion_holds_among_all_three() {
    contest_with(&Foreign::ALL, 250).await;
}

#[tokio::test]
async fn a_lock_of_redis_py_without_expiry_is_waited_for_and_taken_after_its_release() {
    let Some(server) = server() else { return };
    let Some(mut theirs) = hold(Foreign::RedisPy, &server, KEY, None).await else { return };
    let lock = keeper(&server).await.lock_exact(KEY).unwrap();
    let Acquired::Busy(busy) = lock.try_acquire().await.unwrap() else { panic!("took it") };
    assert_eq!(busy.remaining, None);
    let before = calls(&server, &["evalsha", "eval"]);
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap().or_busy().unwrap() });
    until("asked and refused", SOON, async || calls(&server, &["evalsha", "eval"]) > before).await;
    assert!(!waiter.is_finished());
    assert_eq!(value(&server), theirs.token.as_bytes());
    theirs.start_release();
    let guard = waiter.await.unwrap();
    theirs.released().await;
    assert_eq!(value(&server), guard.token().as_bytes());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn others_wait_for_a_guard_and_get_the_lock_after_its_release() {
    for (server, who) in with_each() {
        let guard =
            keeper(&server).await.lock_exact(KEY).unwrap().acquire().await.unwrap().or_busy().unwrap();
        let mut theirs = client(who, &server, KEY, Some(secs(10)));
        theirs.tell("take");
        theirs.expect("busy").await;
        let tries = || calls(&server, &["set", "evalsha", "eval"]);
        let before = tries();
        until("tried again and again", SOON, async || tries() > before + 3).await;
        assert_eq!(value(&server), guard.token().as_bytes(), "{who:?}");
        assert!(guard.is_valid());
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        let token = theirs.expect("held").await;
        assert_eq!(value(&server), token.as_bytes(), "{who:?}");
        theirs.tell("release");
        theirs.expect("released").await;
        assert!(!exists(&server, KEY), "{who:?}");
    }
}

/// Real time: their lease of 200 ms runs out.
#[tokio::test]
async fn others_cannot_release_what_lockkeeper_took_after_their_lease_ended() {
    for (server, who) in with_each() {
        let Some(mut theirs) = hold(who, &server, KEY, Some(ms(200))).await else { return };
        let lock = keeper(&server).await.lock_exact(KEY).unwrap();
        let guard = lock.acquire().await.unwrap().or_busy().unwrap();
        theirs.start_release();
        assert_eq!(theirs.failed().await, who.not_owned());
        assert_eq!(value(&server), guard.token().as_bytes(), "{who:?}");
        assert!(guard.is_valid());
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    }
}

/// Real time: our lease of 200 ms runs out.
#[tokio::test]
async fn a_guard_cannot_release_what_others_took_after_its_lease_ended() {
    for (server, who) in with_each() {
        let lock = keeper(&server).await.lock_exact(KEY).unwrap().lease(ms(200)).no_renewal();
        let guard = lock.acquire().await.unwrap().or_busy().unwrap();
        let Some(mut theirs) = hold(who, &server, KEY, Some(secs(10))).await else { return };
        assert!(!guard.is_valid());
        let Released::HeldByAnother(holder) = guard.release().await.unwrap() else { panic!("{who:?}") };
        assert_eq!(holder.token_bytes(), theirs.token.as_bytes());
        assert_eq!(value(&server), theirs.token.as_bytes(), "{who:?}");
        theirs.start_release();
        theirs.released().await;
    }
}

#[tokio::test]
async fn a_foreign_holder_is_shown() {
    for (server, who) in with_each() {
        let exact =
            Keeper::builder().url(&server.url()).unwrap().prefix("").unwrap().connect().await.unwrap();
        let Some(mut theirs) = hold(who, &server, KEY, Some(secs(10))).await else { return };
        let seen = exact.inspect(KEY).await.unwrap();
        let holder = seen.holder.unwrap();
        assert_eq!(holder.token_bytes(), theirs.token.as_bytes());
        let shown = format!("foreign `{}…` ({} bytes)", &theirs.token[..8], theirs.token.len());
        assert_eq!(holder.to_string(), shown);
        assert!(seen.remaining.unwrap() <= secs(10) && seen.fence.is_none());
        theirs.start_release();
        theirs.released().await;
        assert_eq!(exact.inspect(KEY).await.unwrap().holder, None);
    }
}
