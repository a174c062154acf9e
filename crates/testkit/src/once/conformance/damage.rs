//! What others leave behind: refused and not touched, or repaired.

use std::time::Duration;

use lockkeeper::core::ErrorKind;
use lockkeeper::core::idempotency::{
    BeginReply, CompleteReply, HowAbandoned, InspectOnce, KeepAliveReply, OnCrash, Phase, Resolution, Strayed,
};
use lockkeeper::core::lock::Fence;

use crate::arm::{OnceArm, OnceKept, OncePlant};
use crate::once::ask::{
    Bench, HOLD, LEASE, RETAIN, abandon, begin, complete, keep_alive, other_request, resolve, result,
};

const RERUN: OnCrash = OnCrash::Rerun;

pub(super) async fn all(arm: &impl OnceArm) {
    what_is_no_record_is_left_alone(arm).await;
    a_refusal_repairs_a_record_that_lost_its_expiry(arm).await;
    a_record_without_an_expiry_ends_all_the_same(arm).await;
}

/// A list, a text, a record of a later format: refused by every decision, and not changed.
async fn what_is_no_record_is_left_alone(arm: &impl OnceArm) {
    let bench = Bench::new(arm, "foreign");
    bench.claim(begin("a", RERUN)).await;
    let OnceKept::Record(record, _) = bench.kept() else { panic!("{}: no record", arm.name()) };
    let later = [b"once2", &record[5..]].concat();
    let plants = [b"".to_vec(), b"x".to_vec(), later].map(|text| OncePlant::Bytes(text, None));
    for plant in plants.into_iter().chain([OncePlant::List]) {
        bench.plant(&plant);
        for decision in 0..6 {
            let error = match decision {
                0 => bench.try_ask(begin("a", RERUN)).await.err(),
                1 => bench.try_ask(keep_alive("a")).await.err(),
                2 => bench.try_ask(complete("a")).await.err(),
                3 => bench.try_ask(abandon("a", HowAbandoned::Crashed)).await.err(),
                4 => bench.try_ask(resolve(Fence::new(7), Resolution::Undone)).await.err(),
                _ => bench.try_ask(InspectOnce).await.err(),
            };
            let error = error.unwrap_or_else(|| panic!("{}: {plant:?} is no record", arm.name()));
            assert_eq!(error.kind(), ErrorKind::WrongType, "{}: {plant:?}: {error}", arm.name());
            assert!(error.to_string().contains("not a record of idempotency"), "{error}");
            assert_eq!(bench.kept(), OnceKept::Foreign, "{}: {plant:?}", arm.name());
        }
    }
}

/// Whatever begin answers; the record stays as it was.
async fn a_refusal_repairs_a_record_that_lost_its_expiry(arm: &impl OnceArm) {
    let rows = [
        (Phase::Running, RERUN, LEASE + RETAIN),
        (Phase::Unknown, OnCrash::Hold(HOLD), HOLD + RETAIN),
        (Phase::Completed, RERUN, RETAIN),
    ];
    for (phase, on_crash, left) in rows {
        for asked in [begin("b", on_crash), other_request("b")] {
            let key = format!("repair:{phase:?}:{:?}", asked.fingerprint);
            let bench = Bench::new(arm, &key);
            bench.bring_into(phase, on_crash).await;
            let before = bench.kept();
            bench.plant(&OncePlant::Persist);
            assert_ne!(bench.kept(), before, "{}: {phase:?}", arm.name());
            let reply = bench.ask(asked).await;
            assert!(!matches!(reply, BeginReply::Claimed { .. }), "{}: {reply:?}", arm.name());
            let OnceKept::Record(_, kept) = bench.kept() else { panic!("{}: {phase:?}", arm.name()) };
            assert_eq!(kept.map(Duration::from_millis), Some(left), "{}: {phase:?}", arm.name());
            assert_eq!(bench.kept(), before, "{}: {phase:?}", arm.name());
        }
    }
}

/// For whoever looks, keeps alive or completes it is gone; begin claims it anew, under a greater fence.
async fn a_record_without_an_expiry_ends_all_the_same(arm: &impl OnceArm) {
    let (bench, name) = (Bench::new(arm, "immortal"), arm.name());
    let first = bench.claim(begin("a", RERUN)).await;
    bench.ask(complete("a")).await;
    bench.plant(&OncePlant::Persist);
    arm.advance(RETAIN - Duration::from_micros(1));
    assert_eq!(bench.phase().await, Phase::Completed, "{name}");
    let again = bench.ask(complete("a")).await;
    assert_eq!(again, CompleteReply::Completed { remaining: Duration::from_micros(1) }, "{name}");
    arm.advance(Duration::from_micros(1));
    assert_eq!(bench.seen().await, None, "{name}");
    assert_eq!(bench.ask(keep_alive("a")).await, KeepAliveReply::Strayed(Strayed::Gone), "{name}");
    assert_eq!(bench.ask(complete("a")).await, CompleteReply::Strayed(Strayed::Gone), "{name}");
    let OnceKept::Record(_, None) = bench.kept() else { panic!("{name}: it was touched") };
    match bench.ask(begin("b", RERUN)).await {
        BeginReply::Claimed { fence, attempt: 1, takeover: false } => assert!(fence > first, "{name}"),
        other => panic!("{name}: {other:?}"),
    }
    let OnceKept::Record(_, kept) = bench.kept() else { panic!("{name}: no record") };
    assert_eq!(kept.map(Duration::from_millis), Some(LEASE + RETAIN), "{name}");
    bench.ask(complete("b")).await;
    match bench.ask(begin("c", RERUN)).await {
        BeginReply::Completed { stored, .. } => assert_eq!(stored, result("b"), "{name}"),
        other => panic!("{name}: {other:?}"),
    }
}
