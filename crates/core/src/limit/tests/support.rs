//! One subject under one limit at a time that tests move, and generated limits and histories.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use crate::decision::{Decision, decide_within};
use crate::limit::*;
use crate::time::{Timestamp, micros_of};

/// 2026-01-01T00:00Z: a whole number of days.
pub(super) const START: u64 = 1_767_225_600_000_000;
pub(super) const SECOND: u64 = 1_000_000;

/// A key, its limit, and the server's clock.
#[derive(Clone, Debug)]
pub(super) struct Limited {
    pub(super) quota: Quota,
    pub(super) cell: LimitCell,
    pub(super) now_us: u64,
    /// How many repairs there were.
    pub(super) repaired: usize,
}

impl Limited {
    pub(super) fn new(limit: Result<Limit, crate::Error>) -> Self {
        Self {
            quota: limit.unwrap().quota().unwrap(),
            cell: LimitCell::default(),
            now_us: START,
            repaired: 0,
        }
    }

    pub(super) fn of(limit: &str) -> Self {
        Self::new(limit.parse())
    }

    fn quotas(&self) -> Arc<[Quota]> {
        [self.quota].into()
    }

    fn decide<D: Decision<State = LimitCell>>(&mut self, decision: &D) -> D::Reply {
        let now = Timestamp::from_micros(self.now_us);
        decide_within(decision, std::slice::from_mut(&mut self.cell), now).unwrap().unwrap()
    }

    pub(super) fn batch(&mut self, asks: &[Ask]) -> Vec<Checked> {
        let check = Check { quotas: self.quotas(), asks: asks.into(), not_after: Timestamp::MAX };
        let reply = self.decide(&check);
        self.repaired += reply.repaired;
        reply.checked
    }

    pub(super) fn check(&mut self, ask: Ask) -> Checked {
        self.batch(&[ask]).remove(0)
    }

    /// How much of `cost` was granted: all or nothing.
    pub(super) fn take(&mut self, cost: u64) -> u64 {
        self.check(Ask::whole(cost)).granted()
    }

    /// So many calls of one each; how many passed.
    pub(super) fn calls(&mut self, calls: u64) -> u64 {
        (0..calls).map(|_| self.take(1)).sum()
    }

    pub(super) fn peek(&mut self, ask: Ask) -> Checked {
        let peek = Peek { quotas: self.quotas(), ask };
        self.decide(&peek)
    }

    pub(super) fn standing(&mut self) -> Standing {
        self.peek(Ask::whole(1)).standings[0]
    }

    pub(super) fn remaining(&mut self) -> u64 {
        self.standing().remaining
    }

    pub(super) fn refund(&mut self, cost: u64) -> Standing {
        let refund = Refund { quotas: self.quotas(), cost, not_after: Timestamp::MAX };
        self.decide(&refund).standings[0]
    }

    pub(super) fn reset(&mut self) -> usize {
        let reset = Reset { quotas: self.quotas() };
        self.decide(&reset)
    }

    pub(super) fn pass(&mut self, us: u64) {
        self.now_us += us;
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.pass(micros_of(time));
    }

    pub(super) fn window_us(&self) -> u64 {
        micros_of(self.quota.window())
    }

    pub(super) fn capacity(&self) -> u64 {
        self.quota.capacity()
    }

    /// The cell, without what of a log has left the window.
    pub(super) fn kept(&self) -> LimitCell {
        let mut cell = self.cell.clone();
        cell.expire_at(self.now_us);
        if let Stored::Log(times) = &mut cell.stored {
            times.retain(|time| time + self.window_us() > self.now_us);
            if times.is_empty() {
                return LimitCell::default();
            }
        }
        cell
    }
}

impl LimitCell {
    fn expire_at(&mut self, now_us: u64) {
        crate::decision::State::expire(self, Timestamp::from_micros(now_us));
    }
}

/// Small limits of every algorithm, so that histories reach their ends.
pub(super) fn limits() -> impl Strategy<Value = Limit> {
    let count = 1u64..12;
    let window = prop_oneof![
        Just(1u64),
        Just(2),
        Just(7),
        Just(10),
        1u64..100,
        Just(1_000),
        Just(SECOND),
        Just(10 * SECOND)
    ];
    (0..5, count, window, 1u64..12).prop_map(|(kind, count, window_us, capacity)| {
        let window = Duration::from_micros(window_us);
        match kind {
            0 => Limit::fixed_window(count, window),
            1 => Limit::fixed_window_from_first(count, window),
            2 => Limit::sliding_log(count, window),
            3 => Limit::sliding_counter(count, window),
            _ => Limit::token_bucket(capacity).refill(count, window),
        }
        .unwrap()
    })
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A call, perhaps of more than there can ever be.
    Ask(Ask),
    /// Undoing.
    Refund(u64),
    /// Time passes: so many hundredths of a window, and microseconds more or less.
    Pass(u64, i64),
    /// To the end of the aligned window, and microseconds more or less.
    ToEnd(i64),
    /// Somebody sets the clock back.
    Back(u64, i64),
}

pub(super) fn asks() -> impl Strategy<Value = Ask> {
    prop_oneof![
        4 => Just(Ask::whole(1)),
        2 => (1u64..14).prop_map(Ask::whole),
        2 => (1u64..14).prop_map(Ask::up_to),
    ]
}

fn passing() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0u64..120, -2i64..3).prop_map(|(parts, more)| Step::Pass(parts, more)),
        1 => (prop::sample::select(vec![100u64, 200, 300]), -2i64..3).prop_map(|(parts, more)| Step::Pass(parts, more)),
        2 => (-2i64..3).prop_map(Step::ToEnd),
    ]
}

/// Calls and time.
pub(super) fn calls() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(prop_oneof![3 => asks().prop_map(Step::Ask), 2 => passing()], 1..60)
}

/// Calls, refunds and time.
pub(super) fn dealings() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => asks().prop_map(Step::Ask),
        1 => (1u64..14).prop_map(Step::Refund),
        2 => passing(),
    ];
    prop::collection::vec(step, 1..40)
}

/// Calls and time, on a clock that is also set back by up to three windows, or by hours.
pub(super) fn unsteady() -> impl Strategy<Value = Vec<Step>> {
    let back = prop_oneof![4 => 0u64..300, 1 => Just(1_000_000)];
    let step = prop_oneof![
        6 => asks().prop_map(Step::Ask),
        4 => passing(),
        2 => (back, -2i64..3).prop_map(|(parts, more)| Step::Back(parts, more)),
        1 => Just(Step::Pass(1_000_000, 0)),
    ];
    prop::collection::vec(step, 1..80)
}

impl Limited {
    pub(super) fn play(&mut self, steps: Vec<Step>) {
        for step in steps {
            self.step(step);
        }
    }

    /// Does it; answers how much was granted.
    pub(super) fn step(&mut self, step: Step) -> u64 {
        let window_us = self.window_us();
        let parts = |parts: u64| window_us * parts / 100;
        match step {
            Step::Ask(ask) => return self.check(ask).granted(),
            Step::Refund(cost) => drop(self.refund(cost)),
            Step::Pass(hundredths, more) => self.pass((parts(hundredths)).saturating_add_signed(more)),
            Step::ToEnd(more) => {
                let left = window_us - self.now_us % window_us;
                self.pass(left.saturating_add_signed(more));
            }
            Step::Back(hundredths, more) => self.now_us -= parts(hundredths).saturating_add_signed(more),
        }
        0
    }
}
