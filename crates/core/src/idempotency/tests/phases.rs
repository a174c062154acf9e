//! The table of the module's documentation, cell by cell.

use super::*;
use crate::lock::Fence;

/// Every phase, with the policies that can lead to it.
const ROWS: [(Phase, OnCrash); 10] = [
    (Phase::Absent, OnCrash::Rerun),
    (Phase::Running, OnCrash::Rerun),
    (Phase::Running, OnCrash::Hold(HOLD)),
    (Phase::Lapsed, OnCrash::Rerun),
    (Phase::Lapsed, OnCrash::Hold(HOLD)),
    (Phase::Unknown, OnCrash::Hold(HOLD)),
    (Phase::Completed, OnCrash::Rerun),
    (Phase::Completed, OnCrash::Hold(HOLD)),
    (Phase::Open, OnCrash::Rerun),
    (Phase::Open, OnCrash::Hold(HOLD)),
];

fn holder(name: &str) -> crate::lock::Holder {
    token(name).holder()
}

#[test]
fn begin_claims_what_is_free_and_refuses_with_the_reason() {
    for (phase, on_crash) in ROWS {
        for who in ["a", "b"] {
            let (mut bench, now) = Bench::in_phase(phase, on_crash);
            let before = bench.clone();
            let reply = bench.ask(&begin(who, on_crash), now);
            let claimed = |attempt, takeover| BeginReply::Claimed {
                fence: Fence::new(bench.fence()),
                attempt,
                takeover,
            };
            match (phase, who) {
                (Phase::Absent, _) => assert_eq!(reply, claimed(1, false)),
                (Phase::Running, "a") => {
                    assert_eq!(reply, claimed(1, false), "the same claim");
                    assert_eq!(bench.fence(), before.fence());
                }
                (Phase::Open, _) => assert_eq!(reply, claimed(2, false)),
                (Phase::Lapsed, _) => assert_eq!(reply, claimed(2, true)),
                (Phase::Running, _) => {
                    let remaining = LEASE - Duration::from_secs(1);
                    assert_eq!(reply, BeginReply::Running { holder: holder("a"), attempt: 1, remaining });
                }
                (Phase::Unknown, _) => {
                    let fence = Fence::new(before.fence());
                    assert_eq!(reply, BeginReply::Unknown { holder: holder("a"), fence, remaining: HOLD });
                }
                (Phase::Completed, _) => {
                    let (stored, fence) = (result("a"), Fence::new(before.fence()));
                    assert_eq!(reply, BeginReply::Completed { stored, fence, remaining: RETAIN });
                }
            }
            let is_claim = matches!(reply, BeginReply::Claimed { .. });
            assert_eq!(
                is_claim,
                bench.phase(now) == Phase::Running && bench.0 != before.0,
                "{phase:?} {who}"
            );
            assert!(is_claim || bench.0 == before.0, "{phase:?} {who}: a refusal changed the record");
        }
    }
}

#[test]
fn another_request_is_refused_wherever_the_key_has_one() {
    for (phase, on_crash) in ROWS {
        let (mut bench, now) = Bench::in_phase(phase, on_crash);
        let before = bench.clone();
        let reply = bench.ask(&Begin { fingerprint: print(2), ..begin("b", on_crash) }, now);
        if matches!(phase, Phase::Absent | Phase::Open) {
            assert!(matches!(reply, BeginReply::Claimed { .. }), "{phase:?}: {reply:?}");
        } else {
            assert_eq!((reply, &bench.0), (BeginReply::DifferentRequest, &before.0), "{phase:?}");
        }
    }
}

#[test]
fn keeping_alive_is_for_the_running_attempt_alone() {
    for (phase, on_crash) in ROWS {
        for who in ["a", "b"] {
            let (mut bench, now) = Bench::in_phase(phase, on_crash);
            let before = bench.clone();
            let reply = bench.ask(&keep_alive(who), now);
            let expected = match (phase, who) {
                (Phase::Running, "a") => KeepAliveReply::Kept,
                (Phase::Absent, _) => KeepAliveReply::Strayed(Strayed::Gone),
                (_, "b") => KeepAliveReply::Strayed(Strayed::TakenOver(holder("a"))),
                (Phase::Lapsed | Phase::Unknown, _) => KeepAliveReply::Strayed(Strayed::Lapsed),
                _ => KeepAliveReply::Strayed(Strayed::Settled),
            };
            assert_eq!(reply, expected, "{phase:?} {who}");
            assert_eq!(bench.0 != before.0, reply == KeepAliveReply::Kept, "{phase:?} {who}");
        }
    }
}

#[test]
fn completing_is_for_the_attempt_that_nobody_took_over() {
    for (phase, on_crash) in ROWS {
        for who in ["a", "b"] {
            let (mut bench, now) = Bench::in_phase(phase, on_crash);
            let before = bench.clone();
            let reply = bench.ask(&complete(who), now);
            let expected = match (phase, who) {
                (Phase::Absent, _) => CompleteReply::Strayed(Strayed::Gone),
                (_, "b") => CompleteReply::Strayed(Strayed::TakenOver(holder("a"))),
                (Phase::Open, _) => CompleteReply::Strayed(Strayed::Settled),
                _ => CompleteReply::Completed { remaining: RETAIN },
            };
            assert_eq!(reply, expected, "{phase:?} {who}");
            match reply {
                CompleteReply::Completed { .. } => assert_eq!(bench.phase(now), Phase::Completed),
                CompleteReply::Strayed(_) => assert_eq!(bench.0, before.0, "{phase:?} {who}"),
            }
        }
    }
}

#[test]
fn abandoning_opens_the_key_or_ends_the_lease_at_once() {
    for (phase, on_crash) in ROWS {
        for (who, how) in
            [("a", HowAbandoned::Undone), ("a", HowAbandoned::Crashed), ("b", HowAbandoned::Undone)]
        {
            let (mut bench, now) = Bench::in_phase(phase, on_crash);
            let reply = bench.ask(&abandon(who, how), now);
            let after = bench.phase(now);
            let crashed = if on_crash == OnCrash::Rerun { Phase::Lapsed } else { Phase::Unknown };
            let (expected, expected_phase) = match (phase, who, how) {
                (Phase::Absent, ..) => (AbandonReply::Strayed(Strayed::Gone), phase),
                (_, "b", _) => (AbandonReply::Strayed(Strayed::TakenOver(holder("a"))), phase),
                (Phase::Completed, ..) => (AbandonReply::Strayed(Strayed::Settled), phase),
                (Phase::Running, _, HowAbandoned::Crashed) => (AbandonReply::Abandoned, crashed),
                (_, _, HowAbandoned::Crashed) => (AbandonReply::Abandoned, phase),
                (_, _, HowAbandoned::Undone) => (AbandonReply::Abandoned, Phase::Open),
            };
            assert_eq!((reply, after), (expected, expected_phase), "{phase:?} {who} {how:?}");
        }
    }
}

/// `a` crashed and was taken over by `b`, which had no effect.
fn undone_after_a_crash(on_crash: OnCrash) -> (Bench, Timestamp) {
    let (mut bench, lapsed) = Bench::in_phase(Phase::Lapsed, on_crash);
    bench.ask(&begin("b", on_crash), lapsed);
    let now = lapsed.after(Duration::from_secs(1));
    assert_eq!(bench.ask(&abandon("b", HowAbandoned::Undone), now), AbandonReply::Abandoned);
    (bench, now)
}

#[test]
fn a_takeover_without_an_effect_leaves_the_crash_before_it() {
    for on_crash in [OnCrash::Rerun, OnCrash::Hold(HOLD)] {
        let (mut bench, now) = undone_after_a_crash(on_crash);
        let seen = bench.ask(&InspectOnce, now).unwrap();
        assert_eq!((seen.phase, seen.remaining), (Phase::Lapsed, RETAIN), "{on_crash:?}");
        let before = bench.clone();
        assert_eq!(bench.ask(&abandon("b", HowAbandoned::Undone), now), AbandonReply::Abandoned);
        let other = Begin { fingerprint: print(2), ..begin("c", on_crash) };
        assert_eq!(bench.ask(&other, now), BeginReply::DifferentRequest, "{on_crash:?}");
        assert_eq!(bench.0, before.0, "{on_crash:?}");
        let fence = Fence::new(now.as_micros());
        let claimed = BeginReply::Claimed { fence, attempt: 3, takeover: true };
        for _ in 0..2 {
            assert_eq!(bench.ask(&begin("c", on_crash), now), claimed, "{on_crash:?}");
        }
        bench.ask(&abandon("c", HowAbandoned::Undone), now);
        assert_eq!(bench.phase(now), Phase::Lapsed, "{on_crash:?}");
    }
}

/// Also where it lapsed itself before it said so, and was about to be held.
#[test]
fn a_takeover_that_lapsed_and_had_no_effect_holds_nobody() {
    let (mut bench, lapsed) = Bench::in_phase(Phase::Lapsed, OnCrash::Hold(HOLD));
    bench.ask(&begin("b", OnCrash::Hold(HOLD)), lapsed);
    let now = lapsed.after(LEASE);
    assert_eq!(bench.phase(now), Phase::Unknown);
    bench.ask(&abandon("b", HowAbandoned::Undone), now);
    assert_eq!(bench.phase(now), Phase::Lapsed);
}

#[test]
fn a_result_or_an_operator_settles_what_a_crash_left() {
    let on_crash = OnCrash::Hold(HOLD);
    for settles in [true, false] {
        let (mut bench, now) = undone_after_a_crash(on_crash);
        if settles {
            let undone = resolve(bench.fence(), Resolution::Undone);
            assert_eq!(bench.ask(&undone, now), ResolveReply::Resolved);
        } else {
            bench.ask(&begin("c", on_crash), now);
            bench.ask(&complete("c"), now);
        }
        let now = now.after(if settles { Duration::ZERO } else { RETAIN });
        let reply = bench.ask(&begin("d", on_crash), now);
        assert!(matches!(reply, BeginReply::Claimed { takeover: false, .. }), "{reply:?}");
        bench.ask(&abandon("d", HowAbandoned::Undone), now);
        assert_eq!(bench.phase(now), Phase::Open);
    }
}

#[test]
fn an_operator_resolves_what_was_shown_and_nothing_that_lives() {
    for (phase, on_crash) in ROWS {
        for resolution in [Resolution::Undone, Resolution::Completed(result("operator"))] {
            let (mut bench, now) = Bench::in_phase(phase, on_crash);
            let (before, fence) = (bench.clone(), bench.fence());
            if phase != Phase::Absent {
                let other = bench.ask(&resolve(fence + 1, resolution.clone()), now);
                assert_eq!(other, ResolveReply::Changed(Fence::new(fence)), "{phase:?}");
            }
            let decision = resolve(fence, resolution.clone());
            let reply = bench.ask(&decision, now);
            let expected = match phase {
                Phase::Absent => ResolveReply::Gone,
                Phase::Running => {
                    ResolveReply::Running { holder: holder("a"), remaining: LEASE - Duration::from_secs(1) }
                }
                Phase::Completed | Phase::Open => ResolveReply::Settled,
                Phase::Lapsed | Phase::Unknown => ResolveReply::Resolved,
            };
            assert_eq!(reply, expected, "{phase:?}");
            if reply != ResolveReply::Resolved {
                assert_eq!(bench.0, before.0, "{phase:?}");
                continue;
            }
            let resolved = if resolution == Resolution::Undone { Phase::Open } else { Phase::Completed };
            assert_eq!(bench.phase(now), resolved);
            assert_eq!(bench.ask(&decision, now), ResolveReply::Resolved, "once more");
            // The attempt that comes back is told that it is no longer its own.
            let late = bench.ask(&complete("a"), now);
            assert_eq!(late, CompleteReply::Strayed(Strayed::TakenOver(holder("operator"))), "{phase:?}");
        }
    }
}

/// A record is remembered as long as it would have been: resolving shortens nothing.
#[test]
fn resolving_never_shortens() {
    let (mut bench, now) = Bench::in_phase(Phase::Unknown, OnCrash::Hold(HOLD));
    let kept_until = START.after(LEASE).after(HOLD).after(RETAIN);
    let short = Retention::new(MIN_RETENTION).unwrap();
    bench.ask(&Resolve { retain: short, ..resolve(bench.fence(), Resolution::Undone) }, now);
    let seen = bench.ask(&InspectOnce, now).unwrap();
    assert_eq!(seen.remaining, kept_until.since(now));
}

/// To the microsecond: running until the last one of the lease, then unknown, then lapsed, then nothing.
#[test]
fn phases_follow_each_other_without_a_gap() {
    let mut bench = Bench::default();
    bench.ask(&begin("a", OnCrash::Hold(HOLD)), START);
    let tick = Duration::from_micros(1);
    let ends = [LEASE, LEASE + HOLD, LEASE + HOLD + RETAIN];
    let phases = [Phase::Running, Phase::Unknown, Phase::Lapsed, Phase::Absent];
    for (at, end) in ends.into_iter().enumerate() {
        assert_eq!(bench.phase(START.after(end - tick)), phases[at]);
        assert_eq!(bench.phase(START.after(end)), phases[at + 1]);
    }
}

/// C44: a replay does not lengthen the retention; after its end the request runs afresh.
#[test]
fn c44_a_replay_lengthens_nothing_and_after_the_retention_it_runs_afresh() {
    let (mut bench, completed) = Bench::in_phase(Phase::Completed, OnCrash::Rerun);
    let last = completed.after(RETAIN - Duration::from_secs(1));
    let replay = bench.ask(&begin("b", OnCrash::Rerun), last);
    assert!(
        matches!(replay, BeginReply::Completed { remaining, .. } if remaining == Duration::from_secs(1)),
        "{replay:?}"
    );
    assert_eq!(
        bench.ask(&complete("a"), last),
        CompleteReply::Completed { remaining: Duration::from_secs(1) }
    );
    let before = bench.fence();
    let afresh = bench.ask(&begin("b", OnCrash::Rerun), completed.after(RETAIN));
    assert!(matches!(afresh, BeginReply::Claimed { attempt: 1, takeover: false, .. }), "{afresh:?}");
    assert!(bench.fence() > before);
}

/// A clock that is set back lengthens leases; it shortens none, and fences grow on.
#[test]
fn a_clock_that_is_set_back_moves_no_end_back() {
    let mut bench = Bench::default();
    bench.ask(&begin("a", OnCrash::Rerun), START);
    let back = START.before(Duration::from_secs(3600));
    assert_eq!(bench.ask(&keep_alive("a"), back), KeepAliveReply::Kept);
    assert_eq!(bench.phase(START.after(LEASE - Duration::from_micros(1))), Phase::Running);
    let fence = bench.fence();
    bench.ask(&abandon("a", HowAbandoned::Undone), back);
    bench.ask(&begin("b", OnCrash::Rerun), back);
    assert_eq!(bench.fence(), fence + 1);
}

/// Whoever reads a record that lost its expiry gives it one.
#[test]
fn a_record_without_an_expiry_is_repaired() {
    let (mut bench, now) = Bench::in_phase(Phase::Completed, OnCrash::Rerun);
    let OnceCell::Kept(record, expiry) = &mut bench.0 else { panic!("a record") };
    let expected = record.expires_ms();
    *expiry = None;
    bench.ask(&begin("b", OnCrash::Rerun), now);
    assert!(matches!(bench.0, OnceCell::Kept(_, Some(at)) if at == expected));
}
