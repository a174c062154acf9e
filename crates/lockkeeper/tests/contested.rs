//! Waiting against the grain: servers that cannot tell of changes, notes that nobody of ours wrote, lines that share a
//! key, tokens that change hands.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use lockkeeper::core::{ErrorKind, MemoryStore};
use lockkeeper::{
    Acquired, Credentials, Error, Keeper, LockGuard, RedisConfig, Released, SystemClock, TakenOver,
};
use lockkeeper_testkit::fake::{Fake, FakeServer, greeting};
use lockkeeper_testkit::wait::until;
use support::{SOON, command, exists, got, in_line, keeper, ms, secs, server, waits};

const NOTES: &str = "lock:~wait:{lock:a}";

async fn on(store: &MemoryStore) -> Keeper {
    Keeper::builder().memory_store(store.clone()).connect().await.unwrap()
}

/// A renewed lock on `a`, taken without waiting.
async fn held(keeper: &Keeper) -> LockGuard {
    keeper.lock("a").unwrap().try_acquire().await.unwrap().or_busy().unwrap()
}

/// Waits on a server where everything is busy and `HELLO` is answered like this.
async fn waited_with(hello: Fake) -> Result<Acquired, Error> {
    let busy = |others: &str| {
        let count = if others.is_empty() { 6 } else { 7 };
        Fake::Say(format!("*{count}\r\n:1000000\r\n$4\r\nbusy\r\n{others}:0\r\n$1\r\nx\r\n:1\r\n:90000"))
    };
    let fake = FakeServer::start(move |_, words| match words[0].as_str() {
        "HELLO" => hello.clone(),
        "EVALSHA" | "EVAL" if words[2] == "2" => busy(""),
        "EVALSHA" if words[2] == "3" => busy(":0\r\n"),
        _ => greeting(words).unwrap_or(Fake::Say("+OK".into())),
    });
    let keeper = Keeper::connect(&fake.url()).await.unwrap();
    keeper.lock("a").unwrap().wait(ms(2500)).acquire().await
}

#[tokio::test(flavor = "multi_thread")]
async fn l94_servers_that_do_not_know_hello_are_waited_on_by_polling() {
    for quote in ["`HELLO`", "'HELLO'"] {
        let words = format!("-ERR unknown command {quote}, with args beginning with: ");
        let result = waited_with(Fake::Say(words)).await;
        assert!(matches!(result, Ok(Acquired::Busy(_))), "{quote}: {result:?}");
    }
    let result = waited_with(Fake::Close).await;
    assert!(matches!(result, Ok(Acquired::Busy(_))), "hangs up: {result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_asked_for_once_per_attempt() {
    let Some(server) = server() else { return };
    command(&server, &["ACL", "SETUSER", "app", "on", ">first", "~*", "+@all", "-client|tracking"]);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let config = RedisConfig::from_url(&server.url()).unwrap().credentials(move || {
        count.fetch_add(1, Ordering::Relaxed);
        Credentials { user: Some("app".to_owned()), password: "first".to_owned() }
    });
    let keeper = Keeper::builder().redis(config).connect().await.unwrap();
    let _guard = held(&keeper).await;
    until("the renewal connection stands", SOON, async || keeper.health().await.renewal_connected).await;
    let before = asked.load(Ordering::Relaxed);
    let _ = keeper.lock("a").unwrap().wait(ms(300)).acquire().await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed) - before, 1, "one waiting connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_note_spoils_nothing() {
    let Some(server) = server() else { return };
    let (keeper, other) = (keeper(&server).await, keeper(&server).await);
    let far = "99999999999999:99999999999999999999999";
    for (field, note) in [("far", far), ("\u{0}", "not a note"), ("neg", "-1:-1"), ("empty", "")] {
        command(&server, &["HSET", NOTES, field, note]);
    }
    assert_eq!(keeper.inspect("a").await.unwrap().waiters, []);
    let holder = held(&keeper).await;
    let waiter = waits(other.lock("a").unwrap().wait(secs(20)));
    until("the waiter alone is seen", SOON, async || keeper.inspect("a").await.unwrap().waiting() == 1).await;
    holder.release().await.unwrap();
    got(waiter).await.release().await.unwrap();
    until("what is not ours is swept away", SOON, async || !exists(&server, NOTES)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_notes_does_not_stop_the_server() {
    let Some(server) = server() else { return };
    let (keeper, other) = (keeper(&server).await, keeper(&server).await);
    let fill = "for i = 1, 300000 do redis.call('HSET', KEYS[1], 'k' .. i, '99999999999999:1') end return 1";
    command(&server, &["EVAL", fill, "1", NOTES]);
    let holder = held(&keeper).await;
    command(&server, &["CONFIG", "SET", "slowlog-log-slower-than", "50000"]);
    command(&server, &["SLOWLOG", "RESET"]);
    assert_eq!(keeper.inspect("a").await.unwrap().waiters, []);
    let waiter = waits(other.lock("a").unwrap().wait(secs(20)));
    until("the waiter alone is seen", SOON, async || keeper.inspect("a").await.unwrap().waiting() == 1).await;
    assert_eq!(command(&server, &["SLOWLOG", "LEN"]).as_int(), Some(0), "no request took 50 ms");
    holder.release().await.unwrap();
    drop(got(waiter).await);
}

/// All shards are wanted while one of them is never free.
#[tokio::test(flavor = "multi_thread")]
async fn lines_of_one_keeper_that_share_a_key_take_turns() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let stops = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let (lock, stops) = (keeper.lock("a").unwrap().wait(secs(30)), stops.clone());
            tokio::spawn(async move {
                while !stops.load(Ordering::Relaxed) {
                    let guard = lock.acquire().await.unwrap().or_busy().unwrap();
                    tokio::time::sleep(ms(1)).await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for _ in 0..5 {
        let all = keeper.lock_all(["a", "b"]).unwrap().wait(secs(5)).acquire().await.unwrap();
        all.or_busy().expect("a turn").release().await.unwrap();
    }
    stops.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_cannot_release_what_was_handed_over() {
    let store = MemoryStore::new(Arc::new(SystemClock));
    let (giver, taker) = (on(&store).await, on(&store).await);
    let guard = held(&giver).await;
    let clone = guard.clone();
    let token = guard.hand_over().unwrap();
    assert_eq!(clone.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(matches!(taker.lock("a").unwrap().take_over(&token).await.unwrap(), TakenOver::Held(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_not_taken_over_by_itself() {
    let store = MemoryStore::new(Arc::new(SystemClock));
    let (giver, taker) = (on(&store).await, on(&store).await);
    let token = held(&giver).await.hand_over().unwrap();
    let error = taker.lock("a").unwrap().token(token.clone()).take_over(&token).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadArgument, "{error}");
}

/// A former holder asks for the token after the lock was passed on under it.
#[tokio::test(flavor = "multi_thread")]
async fn a_former_holder_does_not_learn_the_next_ones_token() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let lock = keeper.lock("a").unwrap().wait(secs(20));
    // The first to wait swaps for a block of fences; the second gets the tenure as it is.
    let first = held(&keeper).await;
    let second = waits(lock.clone());
    in_line(&keeper, 1).await;
    let third = waits(lock.clone());
    in_line(&keeper, 2).await;
    first.release().await.unwrap();
    let second = got(second).await;
    let former = second.clone();
    second.release().await.unwrap();
    let third = got(third).await;
    let answer = keeper.release_token("a", former.token()).await.unwrap();
    assert!(matches!(answer, Released::HeldByAnother(_)), "{answer:?}");
    assert!(third.is_valid() && exists(&server, "lock:a"));
    assert_eq!(third.release().await.unwrap(), Released::Released);
}

/// On a store that tells of nothing, a real release wakes the keeper's own line all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_release_stirs_the_line_of_its_own_keeper() {
    let keeper = on(&MemoryStore::new(Arc::new(SystemClock))).await;
    let lock = keeper.lock("a").unwrap().wait(secs(20));
    let mut times = Vec::new();
    for _ in 0..5 {
        let first = lock.acquire().await.unwrap().or_busy().unwrap();
        let _ = first.token();
        let second = waits(lock.clone());
        in_line(&keeper, 1).await;
        // Until its pauses are long.
        tokio::time::sleep(ms(700)).await;
        let started = Instant::now();
        first.release().await.unwrap();
        got(second).await.release().await.unwrap();
        times.push(started.elapsed());
    }
    assert!(support::median(&times) < ms(100), "{times:?}");
}
