//! A replica takes over from its primary.

use std::time::Instant;

use lockkeeper::redis::slot_of;
use lockkeeper::{Begun, Durability, LossReason, Released};
use lockkeeper_faults::ClusterServers;
use lockkeeper_testkit::wait::until;

use crate::common::{ask, hold, keeper, one_on_each, six, slot};
use crate::support::{SOON, command, is_busy, ms, secs};

/// Longer than the other nodes take to give a dead one up and to elect its replica.
const ELECTED: std::time::Duration = secs(15);

/// Planned: nothing is lost, and waiters get their turn from the new primary.
#[tokio::test]
async fn a_planned_failover_loses_nothing() {
    let Some(cluster) = six() else { return };
    let (one, other) = (keeper(&cluster).await, keeper(&cluster).await);
    let names = one_on_each("p");
    let mut guards = Vec::new();
    let mut waiting = Vec::new();
    for name in &names {
        guards.push(hold(&one, name).await);
        let lock = other.lock(name).unwrap().wait(secs(30));
        waiting.push(tokio::spawn(async move { lock.acquire().await.unwrap().or_busy().unwrap() }));
    }
    for replica in 3..6 {
        cluster.fail_over_to(replica).unwrap();
    }
    cluster.wait_ok().unwrap();
    // One whole lease: each was renewed by its new primary.
    tokio::time::sleep(secs(3)).await;
    for (guard, next) in guards.into_iter().zip(waiting) {
        assert!(guard.is_valid(), "{:?}", guard.loss());
        let fence = guard.fence().unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        let next = tokio::time::timeout(SOON, next).await.unwrap().unwrap();
        assert!(next.fence().unwrap() > fence);
        next.release().await.unwrap();
    }
}

/// Unplanned: what the replica had received is kept, and the keys can be taken within a second of its election.
#[tokio::test]
async fn after_kill_9_what_was_replicated_is_kept_and_locks_are_taken_again() {
    let Some(cluster) = six() else { return };
    let (one, other) = (keeper(&cluster).await, keeper(&cluster).await);
    let [held, ..] = one_on_each("k");
    let lock = one.lock(&held).unwrap().lease(secs(20));
    let guard = lock.acquire().await.unwrap().or_busy().unwrap();
    wait_replicated(&cluster, &held).await;
    let waiting = tokio::spawn({
        let lock = other.lock(&held).unwrap().wait(secs(40));
        async move { lock.acquire().await.unwrap().or_busy().unwrap() }
    });
    until("it waits", SOON, async || !one.inspect(&held).await.unwrap().waiters.is_empty()).await;

    cluster.nodes()[0].kill().unwrap();
    // Others are served by servers that live, as soon as the cluster serves anything.
    cluster.wait_primary(3).unwrap();
    cluster.wait_ok().unwrap();
    let elected = Instant::now();
    let free = (0..).map(|number| format!("free-{number}")).find(|name| slot(name) < 5000).unwrap();
    let taken = other.lock(&free).unwrap().wait(secs(20)).acquire().await.unwrap().or_busy().unwrap();
    let took = elected.elapsed();
    assert!(took < secs(1), "taken again after {took:?}");
    eprintln!("taken again {took:?} after the cluster served all slots");
    taken.release().await.unwrap();

    assert!(guard.is_valid(), "{:?}", guard.loss());
    assert!(is_busy(&one, &held).await);
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().release().await.unwrap();
}

/// Unplanned, and the replica had not received it: the holder is told long before its lease would have ended.
#[tokio::test]
async fn a_lock_that_a_failover_lost_is_reported_at_once() {
    let Some(cluster) = six() else { return };
    let keeper = keeper(&cluster).await;
    let [lost, kept, _] = one_on_each("l");
    let primary = &cluster.nodes()[0];
    // From now on the replica cannot come back: it names a password that its primary does not know.
    command(&cluster.nodes()[3], &["CONFIG", "SET", "masterauth", "unknown"]);
    command(primary, &["CLIENT", "KILL", "TYPE", "replica"]);
    until("the replica is cut off", SOON, async || {
        command(primary, &["INFO", "replication"]).as_str().unwrap().contains("connected_slaves:0")
    })
    .await;
    let long = |name: &str| keeper.lock(name).unwrap().lease(secs(120));
    let guard = long(&lost).acquire().await.unwrap().or_busy().unwrap();
    let other = long(&kept).acquire().await.unwrap().or_busy().unwrap();

    primary.kill().unwrap();
    let reason = tokio::time::timeout(ELECTED, guard.lost()).await.expect("told before its lease ended");
    assert_eq!(reason, LossReason::Failover);
    assert!(!guard.is_valid() && other.is_valid());
    let again = long(&lost).acquire().await.unwrap().or_busy().unwrap();
    again.release().await.unwrap();
}

/// Renewed or not, and whatever it is.
#[tokio::test]
async fn whatever_was_held_is_looked_after_when_a_replica_took_over_without_it() {
    let Some(cluster) = six() else { return };
    let keeper = keeper(&cluster).await;
    let primary = &cluster.nodes()[0];
    command(&cluster.nodes()[3], &["CONFIG", "SET", "masterauth", "unknown"]);
    command(primary, &["CLIENT", "KILL", "TYPE", "replica"]);
    until("the replica is cut off", SOON, async || {
        command(primary, &["INFO", "replication"]).as_str().unwrap().contains("connected_slaves:0")
    })
    .await;
    let lease = secs(120);
    // The keys of all lie with the server that dies.
    let name =
        |stem: &str| (0..).map(|number| format!("{stem}{number}")).find(|name| slot(name) < 5000).unwrap();
    let near = |kind: &str| {
        let tag = (0..).find(|tag| slot_of(format!("{{{tag}}}").as_bytes()) < 5000).unwrap();
        format!("{kind}{{{tag}}}")
    };
    let lock = |name: &str| keeper.lock(name).unwrap().lease(lease);
    let taken_name = name("taken");
    let taken = lock(&taken_name).acquire().await.unwrap().or_busy().unwrap();
    let plain = lock(&name("plain")).no_renewal().acquire().await.unwrap().or_busy().unwrap();
    let permit = keeper.concurrency(near("permit"), 1).unwrap().lease(lease);
    let permit = permit.acquire().await.unwrap().or_full().unwrap();
    let once = keeper.once("pay").unwrap().lease(lease);
    let begun = once.begin(near("once"), lockkeeper::fingerprint::of_bytes("r")).await.unwrap();
    let Begun::Claimed(attempt) = begun else { panic!("it is nobody's") };

    primary.kill().unwrap();
    // Somebody may be faster than we are.
    let key = format!("lock:{taken_name}");
    until("the replica takes writes", ELECTED, async || {
        let answer = cluster.nodes()[3].command(&["SET", &key, "somebody", "PX", "60000"]);
        answer.is_ok_and(|answer| answer.as_str() == Some("OK"))
    })
    .await;
    let reasons = tokio::time::timeout(ELECTED, async {
        (taken.lost().await, plain.lost().await, permit.lost().await, attempt.lost().await)
    });
    let (one, two, three, four) = reasons.await.expect("long before the leases end");
    for reason in [one, two, three, four] {
        assert_eq!(reason, LossReason::Failover);
    }
    assert!(matches!(taken.release().await.unwrap(), Released::HeldByAnother(_)));
}

/// A caller's runtime that stands still in the middle of a look at the map keeps nobody from looking.
#[tokio::test]
async fn a_runtime_that_stands_still_while_it_looks_does_not_freeze_the_map() {
    let Some(cluster) = six() else { return };
    let keeper = keeper(&cluster).await;
    // The map is old enough: the next call looks.
    tokio::time::sleep(ms(5100)).await;
    let stuck = std::thread::spawn({
        let keeper = keeper.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let lock = keeper.lock("other").unwrap();
                assert!(futures_util::poll!(std::pin::pin!(lock.try_acquire())).is_pending());
            });
            // It is not dropped, and nobody drives it: the look has begun and does not go on.
            runtime
        }
    });
    let stuck = stuck.join().unwrap();
    let [held, ..] = one_on_each("s");
    let lease = secs(20);
    let guard = keeper.lock(&held).unwrap().lease(lease).acquire().await.unwrap().or_busy().unwrap();
    wait_replicated(&cluster, &held).await;
    cluster.nodes()[0].kill().unwrap();
    until("it is renewed by the new primary", lease, async || {
        assert!(guard.is_valid(), "{:?}", guard.loss());
        cluster.nodes()[3].command(&["PTTL", &format!("lock:{held}")]).is_ok_and(|left| {
            // The old one renewed it too, perhaps, but by then less was left.
            left.as_int().is_some_and(|left| left > 0) && guard.remaining() > secs(19)
        }) && cluster.owner_of(slot(&held)).is_ok_and(|owner| owner == 3)
    })
    .await;
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    stuck.shutdown_background();
}

async fn wait_replicated(cluster: &ClusterServers, name: &str) {
    let key = format!("lock:{name}");
    let token = ask(cluster, name, &["GET", &key]);
    let replica = &cluster.nodes()[3];
    until("it is replicated", SOON, async || {
        // A connection that says READONLY may read from a replica; the keyspace says as much without one.
        command(replica, &["INFO", "replication"]).as_str().unwrap().contains("master_link_status:up")
            && offset(&cluster.nodes()[0], "master_repl_offset") <= offset(replica, "slave_repl_offset")
    })
    .await;
    assert!(!token.is_nil());
    tokio::time::sleep(ms(1)).await;
}

fn offset(server: &lockkeeper_faults::RedisServer, name: &str) -> u64 {
    let info = command(server, &["INFO", "replication"]);
    let line = info.as_str().unwrap().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// A level is met by the replicas of the server that keeps the key, wherever its slot has moved.
#[tokio::test]
async fn a_lasting_lock_is_acknowledged_by_the_replica_of_its_own_server() {
    let Some(cluster) = six() else { return };
    let keeper = keeper(&cluster).await;
    for name in one_on_each("r") {
        let lock = keeper.lock(&name).unwrap().durability(Durability::replicas(1).unwrap());
        lock.acquire().await.unwrap().or_busy().unwrap().release().await.unwrap();
        let to = (cluster.owner_of(slot(&name)).unwrap() + 1) % 3;
        cluster.move_slot(slot(&name), to).unwrap();
        lock.acquire().await.unwrap().or_busy().unwrap().release().await.unwrap();
    }
}
