//! How long a record means what: to the microsecond, and when its key goes.

use std::time::Duration;

use lockkeeper::core::idempotency::{
    Begin, BeginReply, Complete, CompleteReply, HowAbandoned, KeepAliveReply, MIN_RETENTION, OnCrash, Phase,
    Resolution, Resolve, ResolveReply, Stored,
};

use crate::arm::{OnceArm, OnceKept};
use crate::once::ask::{
    Bench, HOLD, LEASE, RETAIN, abandon, begin, complete, keep_alive, resolve, result, retention, token,
};

const RERUN: OnCrash = OnCrash::Rerun;
const TICK: Duration = Duration::from_micros(1);

pub(super) async fn all(arm: &impl OnceArm) {
    phases_follow_each_other_to_the_microsecond(arm).await;
    c44_a_replay_lengthens_nothing_and_after_the_retention_it_runs_afresh(arm).await;
    c46_a_record_has_an_expiry_after_every_decision(arm).await;
    resolving_never_shortens(arm).await;
    a_crash_ends_the_lease_at_once(arm).await;
    a_clock_that_is_set_back_moves_no_end_back(arm).await;
    c29_results_come_back_byte_by_byte(arm).await;
}

async fn phases_follow_each_other_to_the_microsecond(arm: &impl OnceArm) {
    let (bench, name) = (Bench::new(arm, "phases"), arm.name());
    bench.claim(begin("a", OnCrash::Hold(HOLD))).await;
    for (phase, length, next) in [
        (Phase::Running, LEASE, Phase::Unknown),
        (Phase::Unknown, HOLD, Phase::Lapsed),
        (Phase::Lapsed, RETAIN, Phase::Absent),
    ] {
        let seen = bench.seen().await.map(|seen| (seen.phase, seen.remaining));
        assert_eq!(seen, Some((phase, length)), "{name}");
        arm.advance(length - TICK);
        let seen = bench.seen().await.map(|seen| (seen.phase, seen.remaining));
        assert_eq!(seen, Some((phase, TICK)), "{name}: in its last microsecond");
        let alive = bench.ask(keep_alive("b")).await;
        assert!(matches!(alive, KeepAliveReply::Strayed(_)), "{name}: {alive:?}");
        arm.advance(TICK);
        assert_eq!(bench.phase().await, next, "{name}");
    }
}

/// A retry in the last second is a replay, which lengthens nothing; one at the end runs afresh, under a greater fence.
async fn c44_a_replay_lengthens_nothing_and_after_the_retention_it_runs_afresh(arm: &impl OnceArm) {
    let (bench, name) = (Bench::new(arm, "c44"), arm.name());
    let first = bench.claim(begin("a", RERUN)).await;
    bench.ask(complete("a")).await;
    arm.advance(RETAIN - Duration::from_secs(1));
    for passed in 0..3 {
        let remaining = Duration::from_secs(1) - passed * Duration::from_millis(250);
        let replay = BeginReply::Completed { stored: result("a"), fence: first, remaining };
        assert_eq!(bench.ask(begin("b", RERUN)).await, replay, "{name}");
        let again = bench.ask(complete("a")).await;
        assert_eq!(again, CompleteReply::Completed { remaining }, "{name}: completed once more");
        arm.advance(Duration::from_millis(250));
    }
    arm.advance(Duration::from_millis(250));
    match bench.ask(begin("b", RERUN)).await {
        BeginReply::Claimed { fence, attempt: 1, takeover: false } => assert!(fence > first, "{name}"),
        other => panic!("{name}: {other:?}"),
    }
}

/// As long as the record means something, rounded up to a millisecond.
async fn c46_a_record_has_an_expiry_after_every_decision(arm: &impl OnceArm) {
    let bench = Bench::new(arm, "c46");
    let is = |expected: Duration, what: &str| {
        let OnceKept::Record(_, left) = bench.kept() else { panic!("{}: {what}", arm.name()) };
        assert_eq!(left, Some(millis(expected) + 1), "{}: {what}", arm.name());
    };
    // All others advance by whole milliseconds: here, every end lies between two of them.
    arm.advance(TICK);
    let hold = OnCrash::Hold(HOLD);
    let fence = bench.claim(begin("a", hold)).await;
    is(LEASE + HOLD + RETAIN, "a claim");
    arm.advance(Duration::from_secs(1));
    bench.ask(keep_alive("a")).await;
    is(LEASE + HOLD + RETAIN, "kept alive");
    bench.ask(abandon("a", HowAbandoned::Crashed)).await;
    is(HOLD + RETAIN, "a crash");
    bench.ask(resolve(fence, Resolution::Undone)).await;
    is(HOLD + RETAIN, "resolved");
    bench.claim(begin("b", RERUN)).await;
    is(LEASE + RETAIN, "claimed when it was open");
    bench.ask(abandon("b", HowAbandoned::Undone)).await;
    is(RETAIN, "undone");
    bench.claim(begin("c", RERUN)).await;
    bench.ask(Complete { retain: retention(MIN_RETENTION), ..complete("c") }).await;
    is(MIN_RETENTION, "completed");
    arm.advance(MIN_RETENTION + Duration::from_millis(2));
    assert_eq!(bench.kept(), OnceKept::Nothing, "{}", arm.name());
    arm.advance(Duration::from_micros(999));
}

/// It is remembered as long as it would have been.
async fn resolving_never_shortens(arm: &impl OnceArm) {
    let bench = Bench::new(arm, "resolving");
    let fence = bench.claim(begin("a", OnCrash::Hold(HOLD))).await;
    arm.advance(LEASE);
    let short = Resolve { retain: retention(MIN_RETENTION), ..resolve(fence, Resolution::Undone) };
    for _ in 0..2 {
        assert_eq!(bench.ask(short.clone()).await, ResolveReply::Resolved, "{}", arm.name());
        let seen = bench.seen().await.map(|seen| (seen.holder, seen.remaining));
        assert_eq!(seen, Some((token("operator").holder(), HOLD + RETAIN)), "{}", arm.name());
    }
}

async fn a_crash_ends_the_lease_at_once(arm: &impl OnceArm) {
    let crashed = || abandon("a", HowAbandoned::Crashed);
    for (on_crash, phase, left) in
        [(RERUN, Phase::Lapsed, RETAIN), (OnCrash::Hold(HOLD), Phase::Unknown, HOLD)]
    {
        let key = format!("crash:{phase:?}");
        let bench = Bench::new(arm, &key);
        bench.claim(begin("a", on_crash)).await;
        bench.ask(crashed()).await;
        // Another one moves nothing.
        arm.advance(Duration::from_secs(1));
        bench.ask(crashed()).await;
        let seen = bench.seen().await.map(|seen| (seen.phase, seen.remaining));
        assert_eq!(seen, Some((phase, left - Duration::from_secs(1))), "{}", arm.name());
    }
}

/// The server's clock is set back by an hour: leases end an hour later, fences grow on.
async fn a_clock_that_is_set_back_moves_no_end_back(arm: &impl OnceArm) {
    let (bench, name, hour) = (Bench::new(arm, "back"), arm.name(), Duration::from_secs(3600));
    let first = bench.claim(begin("a", RERUN)).await;
    arm.step_back(hour);
    assert_eq!(bench.ask(keep_alive("a")).await, KeepAliveReply::Kept, "{name}");
    assert_eq!(bench.claim(begin("a", RERUN)).await, first, "{name}");
    let seen = bench.seen().await.map(|seen| seen.remaining);
    assert_eq!(seen, Some(LEASE + hour), "{name}: an end was moved back");
    bench.ask(abandon("a", HowAbandoned::Undone)).await;
    let second = bench.claim(begin("b", RERUN)).await;
    assert_eq!(second.get(), first.get() + 1, "{name}");
    arm.advance(hour);
}

/// Any bytes, none, or many; and what was to be kept of one that is too large.
async fn c29_results_come_back_byte_by_byte(arm: &impl OnceArm) {
    let many: Vec<u8> = (0..1_000_003_u32).map(|at| (at % 251) as u8).collect();
    let results = [
        Stored::whole(Vec::new()),
        Stored::not_kept(Vec::new()),
        Stored::whole(&b" \0\r\n once1 r 1 \xff"[..]),
        Stored::not_kept(&b"201"[..]),
        Stored::whole(&many[..80]),
        Stored::whole(&many[..81]),
        Stored::whole(many),
    ];
    for (at, stored) in results.into_iter().enumerate() {
        let (key, stored) = (format!("result:{at}"), stored.expect("a result"));
        let bench = Bench::new(arm, &key);
        let fence = bench.claim(begin("a", RERUN)).await;
        bench.ask(Complete { stored: stored.clone(), ..complete("a") }).await;
        let seen = bench.seen().await.and_then(|seen| seen.result);
        assert_eq!(seen, Some((stored.bytes().len() as u64, stored.is_whole())), "{}", arm.name());
        let replay = bench.ask(Begin { seen: 9, ..begin("b", RERUN) }).await;
        let expected = BeginReply::Completed { stored, fence, remaining: RETAIN };
        assert_eq!(replay, expected, "{}", arm.name());
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("it fits")
}
