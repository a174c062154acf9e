//! Every store keeps the contract of idempotency, and answers and keeps what the model does.

#![allow(clippy::unwrap_used, reason = "tests panic")]

#[path = "once/records.rs"]
mod records;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::core::idempotency::{
    BeginReply, Complete, CompleteReply, HowAbandoned, InspectOnce, OnCrash, Phase, Resolution, Stored,
};
use lockkeeper::core::{Apply, Clock, Keys, ManualClock};
use lockkeeper::redis::{RedisConfig, RedisStore, SCRIPTS};
use lockkeeper::{SystemClock, core::MemoryStore};
use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_testkit::arm::{Arm, MemoryArm, OnceArm, SteppedRedis, once_key};
use lockkeeper_testkit::once::ask::{LEASE, abandon, begin, complete, keep_alive, resolve, token};
use lockkeeper_testkit::once::{conformance, differential};
use lockkeeper_testkit::runs;
use proptest::strategy::{Strategy, ValueTree};

const HISTORIES: u32 = 150;
const LONGEST: usize = 60;
const WITHIN: Duration = Duration::from_secs(5);
const HOUR: Duration = Duration::from_secs(3600);

async fn store(server: &RedisServer) -> RedisStore {
    let config = RedisConfig::from_url(&server.url()).unwrap();
    RedisStore::connect(config, Arc::new(SystemClock)).await.unwrap()
}

/// One server of each kind, in real time.
fn servers() -> impl Iterator<Item = (ServerKind, RedisServer)> {
    let kinds = ServerKind::ALL.into_iter().filter(|kind| available(*kind));
    kinds.map(|kind| (kind, RedisServer::builder().kind(kind).start().unwrap()))
}

#[tokio::test]
async fn the_memory_store_keeps_the_contract_of_idempotency() {
    conformance::all(&MemoryArm::default()).await;
}

#[tokio::test]
async fn redis_6_2_keeps_the_contract_of_idempotency() {
    if let Some(arm) = SteppedRedis::start(ServerKind::Redis62).await {
        conformance::all(&arm).await;
    }
}

#[tokio::test]
async fn the_redis_of_this_machine_keeps_the_contract_of_idempotency() {
    if let Some(arm) = SteppedRedis::start(ServerKind::Redis).await {
        conformance::all(&arm).await;
    }
}

#[tokio::test]
async fn valkey_keeps_the_contract_of_idempotency() {
    if let Some(arm) = SteppedRedis::start(ServerKind::Valkey).await {
        conformance::all(&arm).await;
    }
}

/// In real time, on several connections.
#[tokio::test(flavor = "multi_thread")]
async fn c1_c11_of_many_that_begin_at_once_one_has_the_right_to_run() {
    let memory = [MemoryStore::new(Arc::new(SystemClock))];
    conformance::c1_c11_one_of_many_at_once_has_the_right_to_run(&memory).await;
    for (_, server) in servers() {
        let mut stores = Vec::new();
        for _ in 0..4 {
            stores.push(store(&server).await);
        }
        conformance::c1_c11_one_of_many_at_once_has_the_right_to_run(&stores).await;
    }
}

/// C47: clients whose clocks are an hour ahead or behind begin and take over when the server's clock says so.
#[tokio::test]
async fn c47_a_clients_clock_makes_no_takeover_early_or_late() {
    for kind in ServerKind::ALL {
        let Some(arm) = SteppedRedis::start(kind).await else { continue };
        let now = ManualClock::default().wall();
        for (at, wall) in [(0, now.after(HOUR)), (1, now.before(HOUR))] {
            let config = RedisConfig::from_url(&arm.server().url()).unwrap();
            let odd = RedisStore::connect(config, Arc::new(ManualClock::new(wall))).await.unwrap();
            let at = Keys::from(once_key(&format!("c47:{at}")));
            let ask = async |store: &RedisStore, who| {
                store.apply(&at, begin(who, OnCrash::Rerun), WITHIN).await.unwrap().reply
            };
            ask(&odd, "a").await;
            arm.advance(LEASE - Duration::from_micros(1));
            for who in [&odd, arm.once()] {
                let remaining = Duration::from_micros(1);
                let expected = BeginReply::Running { holder: token("a").holder(), attempt: 1, remaining };
                assert_eq!(ask(who, "b").await, expected, "{kind}: {wall:?}");
            }
            arm.advance(Duration::from_micros(1));
            let late = ask(&odd, "b").await;
            assert!(
                matches!(late, BeginReply::Claimed { attempt: 2, takeover: true, .. }),
                "{kind}: {late:?}"
            );
        }
    }
}

/// Invariant 5: a stopped server runs what it was sent when it goes on, and then begins, keeps and resolves nothing.
#[tokio::test]
async fn what_comes_too_late_changes_no_record() {
    for kind in ServerKind::ALL {
        let Some(arm) = SteppedRedis::start(kind).await else { continue };
        let now = arm.server_clock();
        let (print, micros) = ("01".repeat(32), |more: u64| (now + more).to_string());
        let record = |ends: &str| format!("once1 r {now} 1 {ends} 0 5000000 {print} 0 1 a");
        let (running, lapsed) = (record(&micros(1_000_000)), record(&micros(0)));
        let fence = now.to_string();
        for (script, before, first, rest) in [
            ("begin", &running, ["a", "9000000"], &["0", "5000000", &print, "0", "60000000"][..]),
            ("keep_alive", &running, ["a", "9000000"], &[]),
            ("resolve", &lapsed, [&fence, "operator"], &["5000000", "o", "0", ""]),
        ] {
            let script = SCRIPTS.iter().find(|known| known.name == script).unwrap();
            for (not_after, is_late) in [(now, false), (now - 1, true)] {
                arm.server().command(&["SET", "late", before, "PX", "10000"]).unwrap();
                let not_after = not_after.to_string();
                let words = [&["EVAL", script.source, "1", "late"], &first[..], &[&not_after], rest].concat();
                let reply = arm.server().command(&words).unwrap();
                let status = reply.as_array().unwrap()[1].as_str().unwrap();
                assert_eq!(status == "late", is_late, "{kind}: {}: {status}", script.name);
                let kept = arm.server().command(&["GET", "late"]).unwrap();
                assert_eq!(kept.as_str() == Some(before), is_late, "{kind}: {}: {kept:?}", script.name);
            }
        }
    }
}

/// A server that is paused for writes shows a record all the same, where it has read-only scripts.
#[tokio::test]
async fn a_look_passes_a_server_that_is_paused_for_writes() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let (store, at) = (store(&server).await, Keys::from(once_key("paused")));
    store.apply(&at, begin("a", OnCrash::Rerun), WITHIN).await.unwrap();
    store.apply(&at, complete("a"), WITHIN).await.unwrap();
    server.command(&["CLIENT", "PAUSE", "60000", "WRITE"]).unwrap();
    let seen = store.apply(&at, InspectOnce, WITHIN).await.unwrap().reply.unwrap();
    assert_eq!((seen.phase, seen.result), (Phase::Completed, Some((1, true))));
}

/// What the guide says is enough: every decision is answered, and no other command is needed.
#[tokio::test]
async fn the_permissions_that_the_guide_names_suffice() {
    const LEAST: &str = "~once:* +evalsha +eval +time +get +getrange +strlen +set +pttl +pexpireat";
    const LOOKING: &str = " +evalsha_ro +eval_ro";
    for (kind, server) in servers() {
        let rule = ["ACL", "SETUSER", "least", "on", ">pw", "resetkeys", "-@all"];
        // Redis 6.2 has no read-only scripts.
        let words = LEAST.to_owned() + if kind == ServerKind::Redis62 { "" } else { LOOKING };
        let reply = server.command(&rule.into_iter().chain(words.split(' ')).collect::<Vec<_>>()).unwrap();
        assert!(!reply.is_error(), "{kind}: {reply:?}");
        let url = format!("redis://least:pw@127.0.0.1:{}", server.port());
        let config = RedisConfig::from_url(&url).unwrap();
        let store = RedisStore::connect(config, Arc::new(SystemClock)).await.unwrap();
        let at = Keys::from(once_key("least"));
        for round in 0..2 {
            let claimed = store.apply(&at, begin("a", OnCrash::Rerun), WITHIN).await.unwrap().reply;
            let BeginReply::Claimed { fence, .. } = claimed else { panic!("{kind}: {claimed:?}") };
            store.apply(&at, keep_alive("a"), WITHIN).await.unwrap();
            store.apply(&at, InspectOnce, WITHIN).await.unwrap();
            let key = once_key("least");
            server.command_bytes(&[b"PERSIST", key.as_bytes()]).unwrap();
            store.apply(&at, begin("b", OnCrash::Rerun), WITHIN).await.unwrap();
            let how = if round == 0 { HowAbandoned::Undone } else { HowAbandoned::Crashed };
            store.apply(&at, abandon("a", how), WITHIN).await.unwrap();
            store.apply(&at, resolve(fence, Resolution::Undone), WITHIN).await.unwrap();
        }
        let large = Stored::whole(vec![b'x'; 1000]).unwrap();
        store.apply(&at, begin("c", OnCrash::Rerun), WITHIN).await.unwrap();
        for _ in 0..2 {
            let done = Complete { stored: large.clone(), ..complete("c") };
            let reply = store.apply(&at, done, WITHIN).await.unwrap().reply;
            assert!(matches!(reply, CompleteReply::Completed { .. }), "{kind}: {reply:?}");
        }
        let absent = Keys::from(once_key("absent"));
        assert_eq!(store.apply(&absent, InspectOnce, WITHIN).await.unwrap().reply, None, "{kind}");
    }
}

/// Invariant 3. Set `LOCKKEEPER_SEED` to repeat a failure, `LOCKKEEPER_HISTORIES` for more.
#[tokio::test]
async fn scripts_of_idempotency_answer_and_keep_what_the_model_does() {
    let seed = runs::seed();
    let histories = runs::histories(HISTORIES);
    for kind in ServerKind::ALL {
        let Some(redis) = SteppedRedis::start(kind).await else { continue };
        let mut runner = runs::runner(seed);
        // One model clock for all histories: it is moved in step with the server's.
        let memory = MemoryArm::default();
        for _ in 0..histories {
            let history = differential::histories(LONGEST).new_tree(&mut runner).unwrap().current();
            differential::clean(&memory);
            differential::clean(&redis);
            if let Err(difference) = differential::compare(&memory, &redis, &history).await {
                panic!("LOCKKEEPER_SEED={seed}: {difference}\nhistory: {history:#?}");
            }
        }
    }
}
