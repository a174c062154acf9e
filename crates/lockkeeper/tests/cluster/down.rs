//! A cluster that is down, in whole or in part.

use std::time::{Duration, Instant};

use lockkeeper::{Durability, ErrorKind, Keeper, LockGuard, LossReason, Refusal, WhenAway};
use lockkeeper_faults::{ClusterServers, RedisServer, ServerKind, available};
use lockkeeper_testkit::wait::until;

use crate::common::{hold, one_on_each, three};
use crate::support::{PATIENT, SOON, command, ms, secs};

const LIMIT: Duration = ms(500);

async fn hasty(cluster: &ClusterServers) -> Keeper {
    Keeper::builder().url(&cluster.url()).unwrap().response_timeout(LIMIT).connect().await.unwrap()
}

/// R161: a server of it is dead and nobody takes over, so no server serves anything.
#[tokio::test]
async fn r161_a_cluster_that_is_down_is_told_within_the_limit_and_left_to_the_policy() {
    let Some(cluster) = three() else { return };
    let keeper = hasty(&cluster).await;
    let [alive, dead, _] = one_on_each("c");
    hold(&keeper, &alive).await.release().await.unwrap();
    cluster.nodes()[1].kill().unwrap();
    let down = ErrorKind::Refused(Refusal::ClusterDown);
    until("the cluster is down", secs(15), async || {
        keeper.lock(&alive).unwrap().try_acquire().await.is_err_and(|error| error.kind() == down)
    })
    .await;
    for name in [&alive, &dead] {
        let started = Instant::now();
        let error = keeper.lock(name).unwrap().try_acquire().await.unwrap_err();
        assert!(started.elapsed() < LIMIT + ms(400), "{name}: {:?}", started.elapsed());
        assert!(error.is_transient() && !error.is_outcome_unknown(), "{name}: {error}");
    }
    let limiter = keeper.limiter("api", "10/h").unwrap().decide_within(LIMIT);
    assert!(limiter.check("u").await.is_err());
    let lenient = limiter.when_away(WhenAway::Allow);
    assert!(lenient.check("u").await.unwrap().is_allowed());

    cluster.nodes()[1].restart().unwrap();
    cluster.wait_ok().unwrap();
    let guard = keeper.lock(&dead).unwrap().wait(secs(20)).acquire().await.unwrap().or_busy().unwrap();
    guard.release().await.unwrap();
}

/// Long before the first renewal is due: every server that is used is asked for a sign of life.
#[tokio::test]
async fn a_server_that_was_restarted_empty_is_noticed_by_who_has_just_taken_a_lock_there() {
    let Some(cluster) = three() else { return };
    let keeper = hasty(&cluster).await;
    let [.., last] = one_on_each("e");
    let lock = keeper.lock(&last).unwrap().lease(secs(120));
    let guard = lock.acquire().await.unwrap().or_busy().unwrap();
    is_noticed_when_it_comes_back_empty(&cluster, &guard).await;
}

/// The same where nothing but steps that must last was asked of it.
#[tokio::test]
async fn a_server_that_is_used_for_steps_that_must_last_is_asked_for_a_sign_of_life() {
    if !available(ServerKind::Valkey) {
        return;
    }
    let builder = RedisServer::builder().kind(ServerKind::Valkey);
    let cluster = ClusterServers::minimal(&builder).unwrap();
    let keeper = hasty(&cluster).await;
    let [.., last] = one_on_each("e");
    // Not by its configuration, so that it is empty when it comes back.
    command(&cluster.nodes()[2], &["CONFIG", "SET", "appendonly", "yes"]);
    let lock = keeper.lock(&last).unwrap().lease(secs(120)).no_renewal().durability(Durability::fsync());
    until("the log is begun", SOON * 3, async || {
        let info = command(&cluster.nodes()[2], &["INFO", "persistence"]);
        let words = ["aof_enabled:1", "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"];
        words.iter().all(|word| info.as_str().unwrap().contains(word))
    })
    .await;
    let guard = lock.acquire().await.unwrap().or_busy().unwrap();
    is_noticed_when_it_comes_back_empty(&cluster, &guard).await;
}

/// The third server. In two seconds of real time it is asked for a sign of life at least once.
async fn is_noticed_when_it_comes_back_empty(cluster: &ClusterServers, guard: &LockGuard) {
    tokio::time::sleep(secs(2)).await;
    cluster.nodes()[2].kill().unwrap();
    cluster.nodes()[2].restart().unwrap();
    let reason = tokio::time::timeout(secs(15), guard.lost()).await.expect("long before the lease ends");
    assert_eq!(reason, LossReason::KeyGone);
}

/// The circuit of a server that is silent refuses nobody whose keys lie on another.
#[tokio::test]
async fn one_silent_server_stops_only_the_limits_that_it_keeps() {
    if !available(ServerKind::Redis) {
        return;
    }
    let builder = RedisServer::builder().config("cluster-require-full-coverage", "no");
    let cluster = ClusterServers::minimal(&builder).unwrap();
    let keeper = Keeper::connect(&cluster.url()).await.unwrap();
    let limiter = keeper.limiter("api", "1000/h").unwrap().decide_within(PATIENT).exact();
    let hasty = limiter.clone().decide_within(ms(100));
    let subjects = subjects_of_each_node(&cluster, &limiter).await;
    cluster.nodes()[1].pause().unwrap();
    for _ in 0..5 {
        assert!(hasty.check(&subjects[1]).await.is_err());
        for other in [&subjects[0], &subjects[2]] {
            assert!(limiter.check(other).await.unwrap().is_allowed(), "{other}");
        }
    }
    let started = Instant::now();
    let error = hasty.check(&subjects[1]).await.unwrap_err();
    assert!(error.to_string().contains("probed in the background"), "{error}");
    assert!(started.elapsed() < ms(50), "{:?}", started.elapsed());
    cluster.nodes()[1].resume().unwrap();
    until("it is asked again", SOON * 3, async || limiter.check(&subjects[1]).await.is_ok()).await;
}

/// A subject whose key node 0 keeps, one of node 1, one of node 2: found by where the key is.
async fn subjects_of_each_node(cluster: &ClusterServers, limiter: &lockkeeper::Limiter) -> [String; 3] {
    let mut found: [Option<String>; 3] = Default::default();
    let sizes = || -> Vec<i64> {
        cluster.nodes().iter().map(|node| node.command(&["DBSIZE"]).unwrap().as_int().unwrap()).collect()
    };
    for number in 0..1000 {
        let (subject, before) = (format!("s{number}"), sizes());
        assert!(limiter.check(&subject).await.unwrap().is_allowed());
        let after = sizes();
        let at = (0..3).find(|node| after[*node] > before[*node]).unwrap();
        found[at].get_or_insert(subject);
        if let [Some(one), Some(two), Some(three)] = &found {
            return [one.clone(), two.clone(), three.clone()];
        }
    }
    panic!("no subject for some node")
}
