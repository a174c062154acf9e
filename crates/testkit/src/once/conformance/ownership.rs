//! Whose claim it is: takeovers, late writers, fences.

use std::time::Duration;

use lockkeeper::core::idempotency::{
    AbandonReply, Begin, BeginReply, CompleteReply, HowAbandoned, KeepAlive, KeepAliveReply, OnCrash, Phase,
    Resolution, ResolveReply, Strayed,
};
use lockkeeper::core::lock::{FENCE_LEAD, Fence, MIN_LEASE};

use crate::arm::{OnceArm, OnceKept, OncePlant};
use crate::once::ask::{
    Bench, HOLD, LEASE, RETAIN, abandon, begin, complete, keep_alive, lease, other_request, resolve, result,
    token,
};

const RERUN: OnCrash = OnCrash::Rerun;

pub(super) async fn all(arm: &impl OnceArm) {
    c4_a_second_begin_changes_nothing(arm).await;
    c10_what_acts_on_a_stale_read_takes_nothing_over(arm).await;
    c11_one_after_another_takes_over_and_fences_grow(arm).await;
    c13_an_attempt_that_was_taken_over_ends_nothing(arm).await;
    a_claim_repeated_is_the_same_claim_and_never_shorter(arm).await;
    a_lapsed_attempt_that_nobody_took_over_completes(arm).await;
    a_takeover_without_an_effect_leaves_the_crash_before_it(arm).await;
    c40_an_attempt_whose_record_is_gone_creates_none(arm).await;
    a_client_that_has_seen_more_pushes_a_fence_by_a_minute_at_most(arm).await;
}

async fn c4_a_second_begin_changes_nothing(arm: &impl OnceArm) {
    let bench = Bench::new(arm, "c4");
    bench.claim(begin("a", RERUN)).await;
    let before = bench.kept();
    arm.advance(Duration::from_secs(1));
    let reply = bench.ask(begin("b", RERUN)).await;
    let remaining = LEASE - Duration::from_secs(1);
    let expected = BeginReply::Running { holder: token("a").holder(), attempt: 1, remaining };
    assert_eq!(reply, expected, "{}", arm.name());
    let (OnceKept::Record(one, Some(then)), OnceKept::Record(other, Some(now))) = (before, bench.kept())
    else {
        panic!("{}: no record", arm.name())
    };
    assert_eq!((one, then - 1000), (other, now), "{}: the second one wrote", arm.name());
}

async fn c10_what_acts_on_a_stale_read_takes_nothing_over(arm: &impl OnceArm) {
    let bench = Bench::new(arm, "c10");
    let fence = bench.claim(begin("a", RERUN)).await;
    assert_eq!(bench.phase().await, Phase::Running, "{}", arm.name());
    bench.ask(complete("a")).await;
    let before = bench.kept();
    arm.advance(LEASE);
    match bench.ask(begin("b", RERUN)).await {
        BeginReply::Completed { stored, fence: of, .. } => {
            assert_eq!((stored, of), (result("a"), fence), "{}", arm.name());
        }
        other => panic!("{}: {other:?}", arm.name()),
    }
    assert_eq!(bytes(&bench.kept()), bytes(&before), "{}", arm.name());
}

async fn c11_one_after_another_takes_over_and_fences_grow(arm: &impl OnceArm) {
    let bench = Bench::new(arm, "c11");
    let mut last = bench.claim(begin("a", RERUN)).await;
    for (attempt, who, loser) in [(2, "b", "c"), (3, "c", "b")] {
        arm.advance(LEASE);
        match bench.ask(begin(who, RERUN)).await {
            BeginReply::Claimed { fence, attempt: number, takeover: true } if number == attempt => {
                assert!(fence > last, "{}: {fence} after {last}", arm.name());
                last = fence;
            }
            other => panic!("{}: {other:?}", arm.name()),
        }
        let refused = bench.ask(begin(loser, RERUN)).await;
        let expected = BeginReply::Running { holder: token(who).holder(), attempt, remaining: LEASE };
        assert_eq!(refused, expected, "{}", arm.name());
    }
}

async fn c13_an_attempt_that_was_taken_over_ends_nothing(arm: &impl OnceArm) {
    let bench = Bench::new(arm, "c13");
    bench.claim(begin("a", RERUN)).await;
    arm.advance(LEASE);
    bench.claim(begin("b", RERUN)).await;
    nothing_is_taken_from(&bench, "b").await;
    bench.ask(complete("b")).await;
    nothing_is_taken_from(&bench, "b").await;
}

/// By `a`, whatever it tries.
async fn nothing_is_taken_from(bench: &Bench<'_, impl OnceArm>, owner: &str) {
    let (name, before) = (bench.arm.name(), bench.kept());
    let taken = || Strayed::TakenOver(token(owner).holder());
    assert_eq!(bench.ask(keep_alive("a")).await, KeepAliveReply::Strayed(taken()), "{name}");
    assert_eq!(bench.ask(complete("a")).await, CompleteReply::Strayed(taken()), "{name}");
    for how in [HowAbandoned::Undone, HowAbandoned::Crashed] {
        assert_eq!(bench.ask(abandon("a", how)).await, AbandonReply::Strayed(taken()), "{name}");
    }
    assert_eq!(bench.kept(), before, "{name}");
}

async fn a_claim_repeated_is_the_same_claim_and_never_shorter(arm: &impl OnceArm) {
    let bench = Bench::new(arm, "repeated");
    let fence = bench.claim(begin("a", RERUN)).await;
    let short = Begin { lease: lease(MIN_LEASE), ..begin("a", RERUN) };
    for (decision, passed) in [(short, 1), (begin("a", RERUN), 0)] {
        arm.advance(Duration::from_secs(1));
        assert_eq!(bench.claim(decision).await, fence, "{}", arm.name());
        let left = bench.seen().await.map(|seen| (seen.attempt, seen.remaining));
        assert_eq!(left, Some((1, LEASE - Duration::from_secs(passed))), "{}", arm.name());
    }
    let short = KeepAlive { lease: lease(MIN_LEASE), ..keep_alive("a") };
    assert_eq!(bench.ask(short).await, KeepAliveReply::Kept, "{}", arm.name());
    assert_eq!(bench.seen().await.map(|seen| seen.remaining), Some(LEASE), "{}: shortened", arm.name());
}

async fn a_lapsed_attempt_that_nobody_took_over_completes(arm: &impl OnceArm) {
    let bench = Bench::new(arm, "lapsed");
    bench.claim(begin("a", RERUN)).await;
    arm.advance(LEASE + LEASE);
    let reply = bench.ask(complete("a")).await;
    assert!(matches!(reply, CompleteReply::Completed { .. }), "{}: {reply:?}", arm.name());
    let reply = bench.ask(begin("b", RERUN)).await;
    assert!(matches!(reply, BeginReply::Completed { .. }), "{}: {reply:?}", arm.name());
}

/// Whether the first one had its effect is as unknown as before, so its request keeps the key, and who runs it next is told.
async fn a_takeover_without_an_effect_leaves_the_crash_before_it(arm: &impl OnceArm) {
    for on_crash in [RERUN, OnCrash::Hold(HOLD)] {
        let (key, name) = (format!("doubt:{on_crash:?}"), arm.name());
        let bench = Bench::new(arm, &key);
        bench.bring_into(Phase::Lapsed, on_crash).await;
        for (who, number) in [("b", 2), ("c", 3), ("d", 4)] {
            for _ in 0..2 {
                match bench.ask(begin(who, on_crash)).await {
                    BeginReply::Claimed { attempt, takeover: true, .. } => {
                        assert_eq!(attempt, number, "{name}")
                    }
                    other => panic!("{name}: {who}: {other:?}"),
                }
            }
            bench.ask(keep_alive(who)).await;
            arm.advance(Duration::from_secs(1));
            assert_eq!(
                bench.ask(abandon(who, HowAbandoned::Undone)).await,
                AbandonReply::Abandoned,
                "{name}"
            );
            let left = bench.seen().await.map(|seen| (seen.phase, seen.remaining));
            assert_eq!(left, Some((Phase::Lapsed, RETAIN)), "{name}");
            let before = bench.kept();
            assert_eq!(
                bench.ask(abandon(who, HowAbandoned::Undone)).await,
                AbandonReply::Abandoned,
                "{name}"
            );
            assert_eq!(bench.ask(other_request("x")).await, BeginReply::DifferentRequest, "{name}");
            assert_eq!(bench.kept(), before, "{name}");
        }
        let fence = bench.seen().await.map(|seen| seen.fence).expect("a record");
        assert_eq!(bench.ask(resolve(fence, Resolution::Undone)).await, ResolveReply::Resolved, "{name}");
        match bench.ask(other_request("x")).await {
            BeginReply::Claimed { attempt: 5, takeover: false, .. } => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

async fn c40_an_attempt_whose_record_is_gone_creates_none(arm: &impl OnceArm) {
    let bench = Bench::new(arm, "c40");
    bench.claim(begin("a", RERUN)).await;
    bench.plant(&OncePlant::Gone);
    let name = arm.name();
    assert_eq!(bench.ask(keep_alive("a")).await, KeepAliveReply::Strayed(Strayed::Gone), "{name}");
    assert_eq!(bench.ask(complete("a")).await, CompleteReply::Strayed(Strayed::Gone), "{name}");
    let undone = abandon("a", HowAbandoned::Undone);
    assert_eq!(bench.ask(undone).await, AbandonReply::Strayed(Strayed::Gone), "{name}");
    assert_eq!(bench.kept(), OnceKept::Nothing, "{name}: a record was created");
}

/// Where the record is gone, the fence grows because the client remembers; not beyond a minute.
async fn a_client_that_has_seen_more_pushes_a_fence_by_a_minute_at_most(arm: &impl OnceArm) {
    let bench = Bench::new(arm, "seen");
    let first = bench.claim(begin("a", RERUN)).await;
    let minute = u64::try_from(FENCE_LEAD.as_micros()).expect("it fits");
    let seen = [(first.get() + 5, first.get() + 6), (u64::MAX, first.get() + minute), (0, first.get())];
    for (seen, expected) in seen {
        bench.plant(&OncePlant::Gone);
        let fence = bench.claim(Begin { seen, ..begin("b", RERUN) }).await;
        assert_eq!(fence, Fence::new(expected), "{}: seen {seen}", arm.name());
    }
}

fn bytes(kept: &OnceKept) -> &[u8] {
    match kept {
        OnceKept::Record(bytes, _) => bytes,
        other => panic!("no record but {other:?}"),
    }
}
