//! What works on one server works on a cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use lockkeeper::redis::{RedisConfig, RedisStore, SCRIPTS};
use lockkeeper::{Begun, ErrorKind, Keeper, Released, Stored, fingerprint};
use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::wait::until;

use crate::common::{ask, hold, keeper, one_on_each, slot, three};
use crate::support::{PATIENT, SOON, ms, secs};

#[tokio::test]
async fn locks_of_all_servers_are_taken_renewed_listed_and_released() {
    let Some(cluster) = three() else { return };
    let (one, other) = (keeper(&cluster).await, keeper(&cluster).await);
    let names = one_on_each("a");
    let mut guards = Vec::new();
    for name in &names {
        let lock = one.lock(name).unwrap().lease(ms(600));
        guards.push(lock.acquire().await.unwrap().or_busy().unwrap());
        let error = other.lock(name).unwrap().try_acquire().await.unwrap().or_busy().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
    }
    tokio::time::sleep(ms(1500)).await;
    assert!(guards.iter().all(|guard| guard.is_valid()), "renewed on every server");

    let (mut seen, mut from) = (BTreeSet::new(), None);
    loop {
        let page = other.list(from).await.unwrap();
        seen.extend(page.locks.into_iter().map(|view| String::from_utf8(view.key.name().to_vec()).unwrap()));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(seen, names.iter().cloned().collect());

    let shown = one.inspect(&names[1]).await.unwrap().holder.unwrap();
    other.force_release(&names[1], &shown).await.unwrap();
    for (number, guard) in guards.into_iter().enumerate() {
        let expected = if number == 1 { Released::Expired } else { Released::Released };
        assert_eq!(guard.release().await.unwrap(), expected, "{number}");
    }
    let health = one.health().await;
    assert!(health.round_trip.is_ok() && health.renewal_connected, "{health:?}");
    assert!(health.server_ahead_us.abs() < 100_000, "{health:?}");
}

/// The waiting connection of the right server is told; the poll alone would take up to a second.
#[tokio::test]
async fn waiters_are_told_by_the_server_that_keeps_the_lock() {
    let Some(cluster) = three() else { return };
    let (one, other) = (keeper(&cluster).await, keeper(&cluster).await);
    for name in one_on_each("w") {
        let mut quickest = Duration::MAX;
        for _ in 0..5 {
            let guard = hold(&one, &name).await;
            let waiting = tokio::spawn({
                let lock = other.lock(&name).unwrap();
                async move { lock.acquire().await.unwrap().or_busy().unwrap() }
            });
            until("it waits", SOON, async || !one.inspect(&name).await.unwrap().waiters.is_empty()).await;
            let started = std::time::Instant::now();
            guard.release().await.unwrap();
            let next = waiting.await.unwrap();
            quickest = quickest.min(started.elapsed());
            next.release().await.unwrap();
        }
        assert!(quickest < ms(100), "{name}: told in {quickest:?}");
    }
}

#[tokio::test]
async fn permits_limits_and_once_records_work_on_every_server() {
    let Some(cluster) = three() else { return };
    let keeper = keeper(&cluster).await;
    for name in (0..30).map(|number| format!("k{number}")) {
        let few = keeper.concurrency(&name, 2).unwrap();
        let permits = [few.try_acquire().await.unwrap(), few.try_acquire().await.unwrap()];
        let permits = permits.map(|permit| permit.or_full().unwrap());
        assert!(few.try_acquire().await.unwrap().or_full().is_err(), "{name}");
        for permit in permits {
            permit.release().await.unwrap();
        }

        for quota in ["3/h", "3/h fixed-window", "3/h sliding-counter", "3/h sliding-log", "3/h; 9/d"] {
            let limiter = keeper.limiter("api", quota).unwrap().decide_within(PATIENT);
            for left in [2, 1, 0] {
                let verdict = limiter.check(&name).await.unwrap();
                assert!(verdict.is_allowed() && verdict.remaining() == left, "{name} {quota}: {verdict:?}");
            }
            assert!(!limiter.check(&name).await.unwrap().is_allowed(), "{name} {quota}");
        }

        let once = keeper.once("pay").unwrap();
        match once.begin(&name, fingerprint::of_bytes(&name)).await.unwrap() {
            Begun::Claimed(attempt) => {
                _ = attempt.complete(Stored::whole(name.as_bytes()).unwrap()).await.unwrap();
            }
            other => panic!("{name}: {other:?}"),
        }
        match once.begin(&name, fingerprint::of_bytes(&name)).await.unwrap() {
            Begun::Completed(done) => assert_eq!(done.stored.bytes(), name.as_bytes()),
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// A real cluster refuses a script whose keys lie in two slots: none does, whatever the name.
#[tokio::test]
async fn l95_whatever_its_name_a_lock_and_its_side_keys_lie_in_one_slot() {
    let Some(cluster) = three() else { return };
    for prefix in ["lock:", "{app}:", "x{y}z:", "p:"] {
        let keeper = || Keeper::builder().url(&cluster.url()).unwrap().prefix(prefix).unwrap().connect();
        let (one, other) = (keeper().await.unwrap(), keeper().await.unwrap());
        for name in
            ["{Test}:abc:key", "a{b", "a}b", "{}", "{}x", "a{}b{c}", "{a}{b}", "}{", "{{a}}", "order:1"]
        {
            let guard = hold(&one, name).await;
            let waiting = other.lock(name).unwrap().wait(ms(50)).acquire().await.unwrap();
            assert!(waiting.held().is_none(), "{prefix}{name}");
            assert_eq!(
                guard.extend(secs(5)).await.unwrap(),
                lockkeeper::Extended::Extended,
                "{prefix}{name}"
            );
            assert_eq!(guard.release().await.unwrap(), Released::Released, "{prefix}{name}");
            let permit = one.concurrency(name, 1).unwrap().try_acquire().await.unwrap().or_full().unwrap();
            permit.release().await.unwrap();
        }
    }
}

/// A node that has forgotten its scripts gets them again.
#[tokio::test]
async fn scripts_are_sent_again_to_a_server_that_forgot_them() {
    let Some(cluster) = three() else { return };
    let keeper = keeper(&cluster).await;
    assert!(!SCRIPTS.is_empty());
    for name in one_on_each("s") {
        hold(&keeper, &name).await.release().await.unwrap();
        ask(&cluster, &name, &["SCRIPT", "FLUSH"]);
        hold(&keeper, &name).await.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_dead_seed_is_passed_over_and_a_server_that_is_no_cluster_is_named() {
    let Some(cluster) = three() else { return };
    let port = cluster.nodes()[1].port();
    let url = format!("redis+cluster://127.0.0.1:1,127.0.0.1:{port}");
    let keeper = Keeper::connect(&url).await.unwrap();
    for name in one_on_each("d") {
        hold(&keeper, &name).await.release().await.unwrap();
    }

    let alone = RedisServer::builder().start().unwrap();
    let error = Keeper::connect(&format!("redis+cluster://127.0.0.1:1,127.0.0.1:{}", alone.port()))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("not a cluster"), "{error}");
    let error = Keeper::connect("redis+cluster://127.0.0.1:1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}

/// L124: a client that does not know that it talks to a cluster is told which URL would.
#[tokio::test]
async fn l124_a_url_of_one_server_that_is_a_cluster_node_is_told_the_other_form() {
    let Some(cluster) = three() else { return };
    let [mine, elsewhere, _] = one_on_each("m");
    let keeper = Keeper::connect(&cluster.nodes()[0].url()).await.unwrap();
    hold(&keeper, &mine).await.release().await.unwrap();
    let error = keeper.lock(&elsewhere).unwrap().try_acquire().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("MOVED") && text.contains("redis+cluster://"), "{text}");
}

/// L97: nothing is sent for keys of several slots, and the error says which and what to do.
#[tokio::test]
async fn l97_several_keys_over_several_slots_are_refused_before_anything_is_sent() {
    let Some(cluster) = three() else { return };
    let keeper = keeper(&cluster).await;
    let [one, other, _] = one_on_each("x");
    let error = keeper.lock_all([&one, &other]).unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    for part in [
        format!("`lock:{one}`"),
        format!("`lock:{other}`"),
        format!("slot {}", slot(&one)),
        format!("slot {}", slot(&other)),
        "hash tag".to_owned(),
        "across_slots".to_owned(),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    assert!(keeper.inspect(&one).await.unwrap().holder.is_none());
    let both = keeper.lock_all(["{t}:a", "{t}:b"]).unwrap().acquire().await.unwrap().or_busy().unwrap();
    both.release().await.unwrap();
}

/// Plain questions go to the server of their key, too.
#[tokio::test]
async fn questions_follow_their_key() {
    let Some(cluster) = three() else { return };
    let config = RedisConfig::from_url(&cluster.url()).unwrap();
    let store = RedisStore::connect(config, std::sync::Arc::new(lockkeeper::SystemClock)).await.unwrap();
    for name in one_on_each("q") {
        let set: String = store.query(&["SET", &format!("lock:{name}"), "x"], secs(2)).await.unwrap();
        assert_eq!(set, "OK");
        assert_eq!(ask(&cluster, &name, &["GET", &format!("lock:{name}")]).as_str(), Some("x"));
    }
    let servers = store.servers(secs(2)).await.unwrap().unwrap();
    assert_eq!(servers.len(), 3);
    let mut sizes = 0;
    for (_, server) in servers {
        sizes += server.query::<u64>(&["DBSIZE"], secs(2)).await.unwrap();
    }
    assert_eq!(sizes, 3);
}
