//! Servers that are dead, silent or slow.

use std::time::Instant;

use lockkeeper::core::lock::{Acquire, FenceRequest, Lease, OwnerToken, Swap, SwapReply};
use lockkeeper::core::{Apply, Key, Keys, Prefix, Timestamp};
use lockkeeper::redis::NodeStanding;
use lockkeeper::{ErrorKind, Released};
use lockkeeper_testkit::wait::until;

use crate::five::{Servers, is_away, votes};
use crate::support::{SOON, command, median, ms, secs, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_five_may_be_dead_and_three_are_a_clear_error() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    for node in [0, 1] {
        five.servers[node].kill().unwrap();
        let guard = take(&keeper, "a", secs(10)).await;
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    }
    five.servers[2].kill().unwrap();
    let started = Instant::now();
    let lock = keeper.lock("a").unwrap().lease(secs(10)).no_renewal();
    let error = lock.try_acquire().await.expect_err("two are no majority");
    assert!(started.elapsed() < secs(4), "{:?}", started.elapsed());
    assert!(
        matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::OutcomeUnknown { .. }),
        "{error}: {error:?}"
    );
    is_away(&keeper, 2).await;
    let error = lock.try_acquire().await.expect_err("two are no majority").to_string();
    assert!(error.contains("2 of 5 servers vote, and 3 are needed"), "{error}");
    five.nobody_holds("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l125_a_black_holed_server_costs_nothing() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    let cycle = async || {
        let started = Instant::now();
        take(&keeper, "a", secs(10)).await.release().await.unwrap();
        started.elapsed()
    };
    let mut healthy = Vec::new();
    for _ in 0..100 {
        healthy.push(cycle().await);
    }
    five.proxies[4].black_hole();
    let (mut silent, started) = (Vec::new(), Instant::now());
    for _ in 0..100 {
        silent.push(cycle().await);
    }
    // Each of them would have waited for a time-out of hundreds of milliseconds.
    assert!(started.elapsed() < secs(10), "{:?}", started.elapsed());
    assert!(median(&silent) < median(&healthy) * 3, "{:?} {:?}", median(&silent), median(&healthy));
    five.proxies[4].heal();
    five.proxies[4].cut_connections();
    votes(&keeper, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l73_a_late_answer_is_a_vote_while_held_and_deleted_after_the_release() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    // All lanes are connected, so that nothing but answers is late.
    take(&keeper, "warm", secs(10)).await.release().await.unwrap();
    five.nobody_holds("warm").await;

    five.proxies[4].hold_replies();
    let started = Instant::now();
    let guard = take(&keeper, "kept", secs(30)).await;
    assert!(started.elapsed() < secs(2), "returns at a majority: {:?}", started.elapsed());
    until("the fifth server has it, unanswered", SOON, async || five.holds("kept")[4]).await;
    five.proxies[4].release();
    votes(&keeper, 4).await;
    assert_eq!(five.holds("kept"), [true; 5], "it stays while the lock is held");
    guard.release().await.unwrap();
    five.nobody_holds("kept").await;

    five.proxies[4].hold_replies();
    let guard = take(&keeper, "late", secs(30)).await;
    until("the fifth server has it, unanswered", SOON, async || five.holds("late")[4]).await;
    five.proxies[4].black_hole();
    guard.release().await.unwrap();
    assert!(five.holds("late")[4], "neither the answer nor the release has passed");
    five.proxies[4].heal();
    five.proxies[4].cut_connections();
    five.nobody_holds("late").await;
    until("nothing is being given back", SOON, async || keeper.health().await.giving_back == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_that_failed_leaves_nothing_at_a_server_that_was_slow() {
    let Some(three) = Servers::start(3) else { return };
    let keeper = three.keeper("").await;
    take(&keeper, "warm", secs(10)).await.release().await.unwrap();
    for proxy in &three.proxies[1..] {
        proxy.hold_replies();
    }
    let lock = keeper.lock("a").unwrap().lease(secs(20)).no_renewal();
    let trying = tokio::spawn(async move { lock.try_acquire().await });
    until("it is taken there, and the answer is on its way", SOON, async || three.holds("a")[1]).await;
    let error = trying.await.unwrap().expect_err("one answer of three");
    assert!(error.is_transient(), "{error}");
    for proxy in &three.proxies[1..] {
        proxy.release();
    }
    three.nobody_holds("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l8_a_dropped_acquire_leaves_nothing_anywhere() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    take(&keeper, "warm", secs(10)).await.release().await.unwrap();
    for polls in 0..12 {
        let name = format!("a{polls}");
        let lock = keeper.lock(&name).unwrap().lease(secs(30));
        let mut trying = Box::pin(lock.try_acquire());
        for _ in 0..polls {
            if futures_util::poll!(&mut trying).is_ready() {
                break;
            }
            tokio::time::sleep(ms(1)).await;
        }
        drop(trying);
        five.nobody_holds(&name).await;
    }
}

#[test]
fn what_a_try_has_taken_goes_also_when_its_runtime_ends() {
    let Some(three) = Servers::start(3) else { return };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let short = runtime();
    let keeper = short.block_on(async {
        let keeper = three.keeper("").await;
        take(&keeper, "warm", secs(10)).await.release().await.unwrap();
        three.nobody_holds("warm").await;
        for server in &three.servers[..2] {
            command(server, &["SET", "lock:a", "somebody", "PX", "60000"]);
        }
        three.proxies[2].hold_replies();
        let lock = keeper.lock("a").unwrap().lease(secs(50)).no_renewal();
        assert!(lock.try_acquire().await.unwrap().or_busy().is_err(), "two of three are busy");
        until("the third has it, unanswered", SOON, async || three.holds("a")[2]).await;
        keeper
    });
    drop(short);
    three.proxies[2].release();
    runtime().block_on(async {
        until("it is given back", SOON, async || !three.holds("a")[2]).await;
        until("nothing is left", SOON, async || keeper.quorum_store().unwrap().giving_back() == 0).await;
    });
}

#[test]
fn servers_are_looked_after_also_while_nobody_drives_the_runtime_that_came_first() {
    let Some(three) = Servers::start(3) else { return };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let parked = runtime();
    let keeper = parked.block_on(async {
        let keeper = three.keeper("").await;
        take(&keeper, "warm", secs(10)).await.release().await.unwrap();
        keeper
    });
    // Alive, and not driven from here on.
    runtime().block_on(async {
        three.servers[0].kill().unwrap();
        let store = keeper.quorum_store().unwrap();
        let is_seen = async || matches!(store.known()[0].standing, NodeStanding::Away(_));
        until("it is seen that one is away", SOON, is_seen).await;
    });
    drop(parked);
}

fn swap(from: &str, to: &str) -> (Keys, Swap) {
    let keys = Keys::from(Key::new(&Prefix::new("lock:").unwrap(), "a").unwrap());
    let token = |text: &str| OwnerToken::given(text).unwrap();
    let (lease, fences) = (Lease::new(secs(30)).unwrap(), FenceRequest { seen: 0, block: 1 });
    (keys, Swap { from: token(from), to: token(to), lease, fences, not_after: Timestamp::MAX })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_other_among_servers_that_are_silent_does_not_refuse_a_swap() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    take(&keeper, "warm", secs(10)).await.release().await.unwrap();
    for (node, token) in [(0, "from"), (1, "from"), (2, "other"), (3, "from"), (4, "from")] {
        command(&five.servers[node], &["SET", "lock:a", token, "PX", "60000"]);
    }
    five.proxies[3].black_hole();
    five.proxies[4].black_hole();
    let (keys, swap) = swap("from", "to");
    let error =
        keeper.quorum_store().unwrap().apply(&keys, swap, secs(1)).await.expect_err("two may have it");
    assert!(matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_old_token_goes_from_servers_that_refused_a_swap() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    let store = keeper.quorum_store().unwrap();
    let (keys, swap) = swap("from", "to");
    let fences = FenceRequest { seen: 0, block: 1 };
    let acquire = Acquire { token: swap.from.clone(), lease: swap.lease, fences, not_after: Timestamp::MAX };
    store.apply(&keys, acquire, secs(1)).await.unwrap();
    until("it is everywhere", SOON, async || five.holds("a") == [true; 5]).await;
    let memory = |limit: &str| command(&five.servers[4], &["CONFIG", "SET", "maxmemory", limit]);
    memory("1");
    let answer = store.apply(&keys, swap, secs(1)).await.unwrap();
    assert!(matches!(answer.reply, SwapReply::Swapped(_)));
    memory("0");
    let token = async || command(&five.servers[4], &["GET", "lock:a"]).as_str().map(str::to_owned);
    until("the old one is gone there", SOON, async || token().await.as_deref() != Some("from")).await;
}
