//! A lock on its way from one caller to the next: the next one goes away, or the server's answer is lost. Nothing is
//! left behind, nobody is blocked, and never do two think that they hold it.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lockkeeper::{Acquired, Keeper, Lock, LockGuard, OwnerToken};
use lockkeeper_faults::{DropReply, FaultProxy, RedisServer};
use lockkeeper_testkit::drops::drop_at_every_poll;
use lockkeeper_testkit::wait::until;
use support::{SOON, command, got, in_line, ms, noted, nothing_left, quiet, secs, server, waits};

/// Longer than any test: what is left would stay.
const LEASE: Duration = Duration::from_secs(60);

async fn impatient(url: &str) -> Keeper {
    Keeper::builder().url(url).unwrap().response_timeout(ms(300)).connect().await.unwrap()
}

fn plain(keeper: &Keeper) -> Lock {
    keeper.lock("a").unwrap().lease(LEASE).wait(secs(30))
}

fn proxied(server: &RedisServer) -> FaultProxy {
    FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], server.port()))).unwrap()
}

/// A holder who can pass it on as it is: there are fences left.
async fn established(keeper: &Keeper) -> LockGuard {
    let first = plain(keeper).acquire().await.unwrap().or_busy().unwrap();
    let next = waits(plain(keeper));
    in_line(keeper, 1).await;
    drop(first);
    got(next).await
}

/// Nobody is blocked, and nothing is held, waited for or given back.
async fn nobody_is_blocked(server: &RedisServer, keeper: &Keeper, when: &str) {
    let next = tokio::time::timeout(SOON, plain(keeper).acquire()).await;
    drop(next.unwrap_or_else(|_| panic!("{when}: the next one is blocked")).unwrap().or_busy().unwrap());
    nothing_left(server, keeper, when).await;
}

/// L56: who is handed the lock goes away at that moment, before, or after.
async fn race_of_drops(next: impl Fn(&Keeper, u64) -> Lock) {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    for round in 0..60u64 {
        let holder = established(&keeper).await;
        let mut tasks = Vec::new();
        for place in 0..4u64 {
            let lock = next(&keeper, place);
            tasks.push(tokio::spawn(async move { lock.acquire().await.unwrap().or_busy().map(drop) }));
        }
        let last = waits(plain(&keeper));
        in_line(&keeper, 5).await;
        let release = tokio::spawn(async move { holder.release().await });
        let aborts: Vec<_> = tasks.iter().map(tokio::task::JoinHandle::abort_handle).collect();
        let race = tokio::task::spawn_blocking(move || {
            for abort in aborts {
                std::thread::sleep(Duration::from_micros((round * 37) % 300));
                abort.abort();
            }
        });
        race.await.unwrap();
        release.await.unwrap().unwrap();
        drop(got(last).await);
    }
    nobody_is_blocked(&server, &keeper, "after the race").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l56_receivers_that_go_away_pass_it_on() {
    race_of_drops(|keeper, _| plain(keeper)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l56_receivers_that_swap_and_go_away_pass_it_on() {
    race_of_drops(|keeper, place| plain(keeper).lease(secs(20 + place))).await;
}

/// L58, L56: the waiting future is dropped after each of its polls, while the lock is passed to it.
async fn dropped_at_every_poll(next: impl Fn(&Keeper) -> Lock) {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let polls = drop_at_every_poll(
        async || {
            let holder = established(&keeper).await;
            let lock = next(&keeper);
            let release = async {
                in_line(&keeper, 1).await;
                holder.release().await.unwrap();
            };
            tokio::join!(lock.acquire(), release).0
        },
        async |polls, output| {
            if let Some(outcome) = output {
                assert!(matches!(outcome.unwrap(), Acquired::Held(_)));
            }
            nobody_is_blocked(&server, &keeper, &format!("after {polls} polls")).await;
        },
    )
    .await;
    assert!(polls >= 4, "{polls}");
}

#[tokio::test]
async fn l58_a_receiver_dropped_at_every_poll() {
    dropped_at_every_poll(plain).await;
}

#[tokio::test]
async fn l58_a_receiver_that_swaps_dropped_at_every_poll() {
    dropped_at_every_poll(|keeper| plain(keeper).lease(secs(20))).await;
}

/// In flight: the request is on its way when the receiver goes.
#[tokio::test]
async fn a_swap_that_is_dropped_in_flight_leaves_neither_token() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = impatient(&proxy.url()).await;
    for round in 0..10u64 {
        let holder = established(&keeper).await;
        let next = waits(plain(&keeper).lease(secs(20)));
        in_line(&keeper, 1).await;
        match round % 2 {
            0 => proxy.hold_requests(),
            _ => proxy.hold_replies(),
        }
        holder.release().await.unwrap();
        // It was passed on inside; now the swap is sent.
        tokio::time::sleep(ms(5 + round)).await;
        next.abort();
        assert!(next.await.unwrap_err().is_cancelled());
        proxy.release();
        nobody_is_blocked(&server, &keeper, &format!("in round {round}")).await;
    }
}

#[tokio::test]
async fn a_swap_whose_answer_is_lost_leaves_neither_side_holding() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = impatient(&proxy.url()).await;
    for own in [false, true] {
        let holder = established(&keeper).await;
        let before = command(&server, &["GET", "lock:a"]);
        let lock = plain(&keeper).lease(secs(20)).wait(ms(900));
        let next = waits(if own { lock.token(OwnerToken::given("own").unwrap()) } else { lock });
        in_line(&keeper, 1).await;
        proxy.drop_replies(DropReply::Silently);
        let handle = holder.clone();
        holder.release().await.unwrap();
        until("swapped on the server", SOON, async || command(&server, &["GET", "lock:a"]) != before).await;
        let started = Instant::now();
        let outcome = next.await.unwrap();
        assert!(!matches!(outcome, Ok(Acquired::Held(_))), "{outcome:?}");
        if own {
            assert!(outcome.unwrap_err().is_outcome_unknown(), "its own token is not tried again");
            assert!(started.elapsed() < ms(800), "{:?}", started.elapsed());
        }
        assert!(!handle.is_valid());
        assert_eq!(keeper.health().await.held, 0);
        proxy.heal();
        nobody_is_blocked(&server, &keeper, &format!("own token: {own}")).await;
    }
}

/// The line's own try is under way when the one it was made for is handed the lock: its own token is never taken twice.
#[tokio::test]
async fn an_own_token_is_in_one_request_only() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let (keeper, looking) = (Keeper::connect(&proxy.url()).await.unwrap(), impatient(&server.url()).await);
    for round in 0..12 {
        let holder = established(&keeper).await;
        let front = waits(plain(&keeper));
        in_line(&keeper, 1).await;
        let own = OwnerToken::given(format!("own {round}")).unwrap();
        let next = waits(plain(&keeper).token(own.clone()));
        in_line(&keeper, 2).await;
        // Another one behind, for whom the line goes on.
        let last = waits(plain(&keeper));
        in_line(&keeper, 3).await;
        front.abort();
        in_line(&keeper, 2).await;
        proxy.hold_requests();
        until("the line asks", SOON, async || proxy.stats().kept_request_bytes > 0).await;
        holder.release().await.unwrap();
        tokio::time::sleep(ms(20)).await;
        proxy.release();
        let guard = got(next).await;
        // Whatever was under way has been answered for.
        quiet(&keeper).await;
        assert!(guard.is_valid(), "round {round}: {:?}", guard.loss());
        assert_eq!(command(&server, &["GET", "lock:a"]).as_bytes(), Some(own.as_bytes()), "round {round}");
        drop(guard.release().await.unwrap());
        drop(got(last).await);
        noted(&looking, "a", 0).await;
    }
    nobody_is_blocked(&server, &keeper, "at the end").await;
}
