//! Every history of five steps: whatever happens, the promises hold.

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(&'static str),
    BeginOther,
    KeepAlive(&'static str),
    Complete(&'static str),
    Undone(&'static str),
    Crashed(&'static str),
    Resolve(bool),
    Wait(Duration),
    Back(Duration),
}

const STEPS: [Step; 16] = [
    Step::Begin("a"),
    Step::Begin("b"),
    Step::BeginOther,
    Step::KeepAlive("a"),
    Step::KeepAlive("b"),
    Step::Complete("a"),
    Step::Complete("b"),
    Step::Undone("a"),
    Step::Undone("b"),
    Step::Crashed("a"),
    Step::Crashed("b"),
    Step::Resolve(false),
    Step::Resolve(true),
    Step::Wait(Duration::from_secs(6)),
    Step::Wait(HOLD),
    Step::Back(Duration::from_secs(6)),
];
const LENGTH: usize = 5;

/// What was seen along a history.
#[derive(Clone, Debug)]
struct Seen {
    bench: Bench,
    now: Timestamp,
    /// The fence of the last claim.
    fence: u64,
    /// An attempt crashed, was taken over, and nothing has settled that.
    crashed: bool,
    /// The result that somebody was told.
    completed: Option<Stored>,
}

#[test]
fn every_short_history_keeps_the_promises() {
    for on_crash in [OnCrash::Rerun, OnCrash::Hold(HOLD)] {
        let start = Seen { bench: Bench::default(), now: START, fence: 0, crashed: false, completed: None };
        walk(&start, LENGTH, on_crash);
    }
}

fn walk(seen: &Seen, left: usize, on_crash: OnCrash) {
    if left == 0 {
        return;
    }
    for step in STEPS {
        let mut next = seen.clone();
        take(&mut next, step, on_crash);
        walk(&next, left - 1, on_crash);
    }
}

fn take(seen: &mut Seen, step: Step, on_crash: OnCrash) {
    let (before, now) = (seen.bench.phase(seen.now), seen.now);
    let old = seen.bench.clone();
    match step {
        Step::Begin(who) => begun(seen, &begin(who, on_crash), before),
        Step::BeginOther => {
            begun(seen, &Begin { fingerprint: print(2), ..begin("c", on_crash) }, before);
        }
        Step::KeepAlive(who) => {
            let kept = seen.bench.ask(&keep_alive(who), now) == KeepAliveReply::Kept;
            assert_eq!(kept, before == Phase::Running && old.0.claimed_by(&token(who), now).is_ok());
        }
        Step::Complete(who) => {
            if let CompleteReply::Completed { .. } = seen.bench.ask(&complete(who), now) {
                let stored = result(who);
                assert!(
                    seen.completed.as_ref().is_none_or(|known| *known == stored),
                    "a result was replaced"
                );
                seen.completed = Some(stored);
                seen.crashed = false;
            }
        }
        Step::Undone(who) => drop(seen.bench.ask(&abandon(who, HowAbandoned::Undone), now)),
        Step::Crashed(who) => drop(seen.bench.ask(&abandon(who, HowAbandoned::Crashed), now)),
        Step::Resolve(has_result) => resolved(seen, has_result, before),
        Step::Wait(time) => seen.now = now.after(time),
        Step::Back(time) => seen.now = now.before(time),
    }
    let after = seen.bench.phase(now);
    assert!(!seen.crashed || after != Phase::Open, "{step:?} let a crash be forgotten");
    if before == Phase::Completed && after != Phase::Completed {
        panic!("{step:?} undid a completed record");
    }
}

fn begun(seen: &mut Seen, decision: &Begin, before: Phase) {
    let old = seen.bench.clone();
    match seen.bench.ask(decision, seen.now) {
        BeginReply::Claimed { fence, takeover, .. } => {
            let again = before == Phase::Running;
            assert!(!again || old.0.claimed_by(&decision.token, seen.now).is_ok(), "two may run at once");
            assert!(
                matches!(before, Phase::Absent | Phase::Open | Phase::Lapsed | Phase::Running),
                "{before:?}"
            );
            seen.crashed = if again { seen.crashed } else { before == Phase::Lapsed };
            assert_eq!(takeover, seen.crashed);
            assert!(
                if again { fence.get() == seen.fence } else { fence.get() > seen.fence },
                "{fence} after {}",
                seen.fence
            );
            seen.fence = fence.get();
            seen.completed = None;
        }
        BeginReply::Completed { stored, .. } => {
            assert_eq!(Some(stored), seen.completed, "another result was replayed");
        }
        BeginReply::Unknown { .. } => assert_eq!(before, Phase::Unknown),
        BeginReply::Running { .. } => assert_eq!(before, Phase::Running),
        BeginReply::DifferentRequest => assert!(!matches!(before, Phase::Absent | Phase::Open)),
    }
}

fn resolved(seen: &mut Seen, has_result: bool, before: Phase) {
    let resolution = if has_result { Resolution::Completed(result("operator")) } else { Resolution::Undone };
    let decision = resolve(seen.bench.fence(), resolution);
    if seen.bench.ask(&decision, seen.now) == ResolveReply::Resolved {
        seen.crashed = false;
        assert!(matches!(before, Phase::Lapsed | Phase::Unknown) || seen.bench.phase(seen.now) == before);
        if has_result && matches!(before, Phase::Lapsed | Phase::Unknown) {
            seen.completed = Some(result("operator"));
        }
    }
}
