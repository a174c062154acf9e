//! What changes a state, and what must not.

use proptest::prelude::*;

use super::support::*;
use crate::limit::*;

struct Here<'a>(&'a mut LimitCell, crate::Timestamp);

impl Cell for Here<'_> {
    fn change<R>(self, change: impl FnOnce(&mut LimitCell, crate::Timestamp) -> R) -> R {
        change(self.0, self.1)
    }
}

fn after(limit: Limit, steps: Vec<Step>) -> Limited {
    let mut subject = Limited::new(Ok(limit));
    subject.play(steps);
    subject
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn r28_a_refusal_changes_nothing(limit in limits(), steps in dealings(), cost in 1u64..20) {
        let mut subject = after(limit, steps);
        let before = subject.kept();
        if subject.take(cost) == 0 {
            prop_assert_eq!(&subject.kept(), &before);
            prop_assert_eq!(subject.take(subject.capacity() + 1), 0);
            prop_assert_eq!(subject.kept(), before);
        }
    }

    #[test]
    fn peeking_changes_nothing_and_says_what_a_check_then_answers(
        limit in limits(), steps in unsteady(), ask in asks(),
    ) {
        let mut subject = after(limit, steps);
        subject.peek(ask);
        let before = subject.cell.clone();
        let peeked = subject.peek(ask);
        prop_assert_eq!(&subject.cell, &before);
        let checked = subject.check(ask);
        prop_assert_eq!(peeked.outcome, checked.outcome);
        if checked.granted() == 0 {
            prop_assert_eq!(peeked, checked);
        }
    }

    #[test]
    fn r50_r74_what_is_granted_is_what_is_charged(limit in limits(), steps in dealings(), most in 1u64..20) {
        let mut subject = after(limit, steps);
        let before = subject.remaining();
        let checked = subject.check(Ask::up_to(most));
        prop_assert_eq!(checked.granted(), before.min(most));
        prop_assert_eq!(checked.standings[0].remaining, before - checked.granted());
        prop_assert_eq!(subject.remaining(), before - checked.granted());
    }

    #[test]
    fn a_batch_is_the_same_as_one_by_one(
        limit in limits(), steps in unsteady(), batch in prop::collection::vec(asks(), 1..12),
    ) {
        let mut together = after(limit, steps);
        let mut apart = together.clone();
        let answers: Vec<Checked> = batch.iter().map(|ask| apart.check(*ask)).collect();
        prop_assert_eq!(together.batch(&batch), answers);
        prop_assert_eq!(together.kept(), apart.kept());
    }

    #[test]
    fn the_short_way_of_one_limit_is_the_same(limit in limits(), steps in unsteady(), ask in asks()) {
        let mut long = after(limit, steps);
        let mut short = long.clone();
        let now = crate::Timestamp::from_micros(short.now_us);
        let answer = check_one(short.quota, ask, Here(&mut short.cell, now)).unwrap();
        prop_assert_eq!(answer, long.check(ask));
        prop_assert_eq!(short.cell, long.cell);
    }

    #[test]
    fn r8_a_refund_gives_back_no_more_than_was_used_and_moves_no_window(
        limit in limits(), steps in dealings(), cost in 1u64..20,
    ) {
        let mut subject = after(limit, steps);
        let (before, kept) = (subject.remaining(), subject.kept());
        let mut with_one_more = subject.clone();
        if with_one_more.take(1) == 1 {
            prop_assert_eq!(with_one_more.refund(1).remaining, before);
        }
        let after = subject.refund(cost);
        prop_assert!(before <= after.remaining && after.remaining <= (before + cost).min(subject.capacity()));
        match (kept.stored, &subject.cell.stored) {
            (Stored::Window(start, used), Stored::Window(now, left)) => {
                prop_assert_eq!((*now, *left), (start, used.saturating_sub(cost)));
                prop_assert_eq!(subject.cell.expires_ms, kept.expires_ms);
            }
            // Unless the window has ended since.
            (Stored::Counter(start, previous, current), Stored::Counter(now, same, left)) if start == *now => {
                prop_assert_eq!((*same, *left), (previous, current.saturating_sub(cost)));
            }
            _ => {}
        }
    }

    #[test]
    fn resetting_is_as_if_nobody_had_called(limit in limits(), steps in unsteady()) {
        let mut subject = after(limit, steps);
        let was_there = usize::from(subject.cell != LimitCell::default());
        let mut expired = subject.clone();
        expired.peek(Ask::whole(1));
        let is_there = usize::from(expired.cell != LimitCell::default());
        prop_assert!(is_there <= was_there);
        prop_assert_eq!(subject.reset(), is_there);
        prop_assert_eq!(subject.reset(), 0);
        prop_assert_eq!(&subject.cell, &LimitCell::default());
        prop_assert_eq!(subject.remaining(), subject.capacity());
    }
}

/// The window began, whatever came of it.
#[test]
fn r8_a_refund_in_the_microsecond_of_the_first_call_keeps_the_window() {
    for pause in [0, 1] {
        let mut subject = Limited::of("5/10s fixed-window-from-first");
        subject.take(1);
        subject.pass(pause);
        subject.refund(1);
        assert_eq!(subject.cell.stored, Stored::Window(START, 0));
        subject.pass(10 * SECOND - 1 - pause);
        assert_eq!(subject.calls(9), 5);
        subject.pass(1);
        assert_eq!(subject.calls(9), 5);
    }
}

#[test]
fn a_refund_of_nothing_leaves_nothing() {
    for limit in [
        "5/10s",
        "5/10s fixed-window",
        "5/10s fixed-window-from-first",
        "5/10s sliding-log",
        "5/10s sliding-counter",
    ] {
        let mut subject = Limited::of(limit);
        assert_eq!(subject.refund(3).remaining, 5);
        assert_eq!(subject.cell, LimitCell::default(), "{limit}");
    }
}

#[test]
fn r2_r5_a_key_without_expiry_gets_one_also_where_a_call_is_refused() {
    for limit in [
        "2/10s",
        "2/10s fixed-window",
        "2/10s fixed-window-from-first",
        "2/10s sliding-log",
        "2/10s sliding-counter",
    ] {
        let mut subject = Limited::of(limit);
        subject.calls(2);
        let kept = subject.cell.expires_ms.take();
        assert_eq!((subject.take(1), subject.repaired), (0, 1), "{limit}");
        assert_eq!(subject.cell.expires_ms, kept);
        assert_eq!((subject.take(1), subject.repaired), (0, 1), "{limit}");
        // Its time is over: nothing of it counts.
        subject.cell.expires_ms = None;
        subject.pass(30 * SECOND);
        assert_eq!((subject.calls(3), subject.repaired), (2, 2), "{limit}");
        assert!(subject.cell.expires_ms.is_some());
    }
}

#[test]
fn all_of_several_limits_or_none() {
    let quotas: std::sync::Arc<[Quota]> = ["2/s fixed-window", "3/1min sliding-log"]
        .map(|text| text.parse::<Limit>().unwrap().quota().unwrap())
        .into();
    let mut cells = [LimitCell::default(), LimitCell::default()];
    let mut check = |now_us: u64, cost: u64| {
        let check = Check {
            quotas: quotas.clone(),
            asks: [Ask::whole(cost)].into(),
            not_after: crate::Timestamp::MAX,
        };
        let now = crate::Timestamp::from_micros(now_us);
        let reply = crate::decide_within(&check, &mut cells, now).unwrap().unwrap();
        (reply.checked[0].outcome, reply.checked[0].standings[1].remaining)
    };
    assert_eq!(check(START, 2), (Outcome::Allowed { granted: 2 }, 1));
    // The first refuses, and takes nothing of the second.
    assert_eq!(check(START, 1), (Outcome::Denied { by: 0 }, 1));
    assert_eq!(check(START + SECOND, 1), (Outcome::Allowed { granted: 1 }, 0));
    // The one that refuses for longest is named.
    assert_eq!(check(START + SECOND, 2), (Outcome::Denied { by: 1 }, 0));
    assert_eq!(check(START + 2 * SECOND, 3), (Outcome::Never { by: 0 }, 0));
}

#[test]
fn one_foreign_key_and_no_key_changes() {
    let quotas: std::sync::Arc<[Quota]> =
        ["2/s sliding-log", "3/1min"].map(|text| text.parse::<Limit>().unwrap().quota().unwrap()).into();
    let log = Stored::Log([START, START].into());
    let mut cells = [
        LimitCell { stored: log, expires_ms: Some(START / 1_000 + 9_000) },
        LimitCell { stored: Stored::Foreign, expires_ms: None },
    ];
    let before = cells.clone();
    let check = Check { quotas, asks: [Ask::whole(1)].into(), not_after: crate::Timestamp::MAX };
    let wrong = crate::decide_within(&check, &mut cells, crate::Timestamp::from_micros(START)).unwrap_err();
    assert_eq!((wrong.index, cells), (1, before));
}
