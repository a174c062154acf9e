//! Renewals that have to last.

use std::time::Instant;

use lockkeeper::{Lock, LossReason};
use lockkeeper_faults::{RedisServer, Replicated, ServerKind, available};
use lockkeeper_testkit::wait::until;

use crate::common::{assert_unmet, group, hasty, keeper, replicas};
use crate::support::{SOON, calls, command, ms, nothing_left, secs};

const LEASE: std::time::Duration = ms(1500);

fn renewed(lock: Lock) -> Lock {
    lock.lease(LEASE).durability(replicas(1))
}

/// The primary has a longer lease by then, which counts for nothing.
#[tokio::test]
async fn a_guard_whose_renewals_are_not_met_ends_at_its_old_deadline() {
    let Some(group) = group(1) else { return };
    let keeper = keeper(group.primary()).await;
    let guard = renewed(keeper.lock("a").unwrap()).try_acquire().await.unwrap().or_busy().unwrap();
    group.replicas()[0].line.hold();
    let ends = Instant::now() + guard.remaining();
    while guard.is_valid() {
        let promised = Instant::now() + guard.remaining();
        assert!(promised <= ends + ms(5), "it moved by {:?}", promised - ends);
        tokio::time::sleep(ms(2)).await;
    }
    let LossReason::NotRenewed(error) = guard.lost().await else { panic!("{:?}", guard.loss()) };
    assert!(error.contains("0 of 1 replica acknowledged it in time"), "{error}");
    let left = command(group.primary(), &["PTTL", "lock:a"]).as_int().unwrap();
    assert!(left > 0, "the primary renewed it: {left}");
    drop(guard);
    nothing_left(group.primary(), &keeper, "after the loss").await;
}

/// Nothing has to be lengthened, and a fence that was evicted is not there to be written.
#[tokio::test]
async fn a_renewal_that_lengthens_nothing_is_waited_for_all_the_same() {
    for kind in ServerKind::ALL.into_iter().filter(|&kind| available(kind)) {
        let group = Replicated::start(&RedisServer::builder().kind(kind), 1).unwrap();
        let keeper = hasty(group.primary()).await;
        let lock = keeper.lock("a").unwrap().lease(secs(30)).no_renewal();
        let guard = lock.durability(replicas(1)).try_acquire().await.unwrap().or_busy().unwrap();
        let keys = command(group.primary(), &["KEYS", "*"]);
        let mut keys = keys.as_array().unwrap().iter().map(|key| key.as_str().unwrap());
        let fence = keys.find(|key| *key != "lock:a").unwrap();
        group.replicas()[0].line.hold();
        command(group.primary(), &["DEL", fence]);
        let extended = guard.extend(secs(10)).await;
        assert!(extended.is_err(), "{kind}: nobody was waited for");
        assert_unmet(&extended.unwrap_err(), 0, 1);
        let left = command(group.primary(), &["PTTL", "lock:a"]).as_int().unwrap();
        assert!(left > 20_000, "{kind}: it was shortened: {left}");
    }
}

#[tokio::test]
async fn a_guard_whose_replica_comes_back_in_time_lives_on() {
    let Some(group) = group(1) else { return };
    let keeper = keeper(group.primary()).await;
    let guard = renewed(keeper.lock("a").unwrap()).try_acquire().await.unwrap().or_busy().unwrap();
    let started = Instant::now();
    let before = calls(group.primary(), &["wait"]);
    group.replicas()[0].line.hold();
    until("a renewal has been asked for", SOON, async || calls(group.primary(), &["wait"]) > before).await;
    tokio::time::sleep(ms(50)).await;
    assert!(guard.is_valid() && guard.remaining() < LEASE * 3 / 4, "not renewed: {:?}", guard.remaining());
    group.replicas()[0].line.release();
    until("three leases have passed", secs(20), async || started.elapsed() > LEASE * 3).await;
    assert!(guard.is_valid(), "{:?}", guard.loss());
    guard.release().await.unwrap();
    nothing_left(group.primary(), &keeper, "at the end").await;
}
