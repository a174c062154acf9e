//! The decisions about permits, checked over every short history of a small world.

use std::time::Duration;

use super::*;
use crate::decision::{Decision, State, TooLate, WrongType, decide_within};
use crate::lock::{Lease, OwnerToken};
use crate::time::Timestamp;

const LEASE: Duration = Duration::from_millis(100);
/// Every history of this length is tried.
const DEPTH: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Act {
    Acquire(u8, u32),
    Renew(u8),
    Release(u8),
    /// Microseconds; negative for a clock that is set back.
    Pass(i64),
}

const ACTS: [Act; 11] = [
    Act::Acquire(0, 1),
    Act::Acquire(0, 2),
    Act::Acquire(1, 1),
    Act::Acquire(1, 2),
    Act::Acquire(2, 2),
    Act::Renew(0),
    Act::Renew(1),
    Act::Release(0),
    Act::Pass(60_000),
    Act::Pass(100_000),
    Act::Pass(-50_000),
];

#[derive(Clone)]
struct World {
    cell: PermitCell,
    now: Timestamp,
}

fn token(number: u8) -> OwnerToken {
    OwnerToken::given([number + 1]).unwrap()
}

fn lease() -> Lease {
    Lease::new(LEASE).unwrap()
}

fn acquire(who: u8, limit: u32) -> AcquirePermit {
    let limit = PermitLimit::new(limit).unwrap();
    AcquirePermit { token: token(who), lease: lease(), limit, not_after: Timestamp::MAX }
}

impl World {
    fn new() -> Self {
        Self { cell: PermitCell::default(), now: Timestamp::from_micros(1_000_000_000) }
    }

    fn decide<D: Decision<State = PermitCell>>(&mut self, decision: &D) -> D::Reply {
        decide_within(decision, std::slice::from_mut(&mut self.cell), self.now).unwrap().unwrap()
    }

    fn permits(&self) -> Permits {
        let mut cell = self.cell.clone();
        cell.expire(self.now);
        match cell {
            PermitCell::Ours(permits) => permits,
            PermitCell::WrongType => panic!("our own type"),
        }
    }

    fn act(&mut self, act: Act) {
        let before = self.permits();
        match act {
            Act::Pass(us) if us < 0 => self.now = self.now.before(Duration::from_micros(us.unsigned_abs())),
            Act::Pass(us) => self.now = self.now.after(Duration::from_micros(us.unsigned_abs())),
            Act::Acquire(who, limit) => {
                let held_before = before.ends(&token(who)).is_some();
                let reply = self.decide(&acquire(who, limit));
                let after = self.permits();
                match reply {
                    AcquirePermitReply::Granted { held } => {
                        assert_eq!(held as usize, after.held());
                        assert!(held_before || held <= limit, "more than the limit were let in");
                        assert!(after.ends(&token(who)).unwrap() >= self.now.after(LEASE).as_micros());
                    }
                    AcquirePermitReply::Full { held, first_end } => {
                        assert!(!held_before && held >= limit && !first_end.is_zero());
                        assert_eq!(before, after, "a refusal changed something");
                    }
                }
            }
            Act::Renew(who) => {
                let held_before = before.ends(&token(who)).is_some();
                let reply = self.decide(&RenewPermit {
                    token: token(who),
                    lease: lease(),
                    not_after: Timestamp::MAX,
                });
                assert_eq!(reply == RenewPermitReply::Renewed, held_before);
                assert_eq!(self.permits().held(), before.held(), "a renewal took or lost a permit");
            }
            Act::Release(who) => {
                let reply = self.decide(&ReleasePermit { token: token(who) });
                let held_before = before.ends(&token(who)).is_some();
                assert_eq!(reply == ReleasePermitReply::Released, held_before);
                assert_eq!(self.permits().held() + usize::from(held_before), before.held());
            }
        }
        let after = self.permits();
        for (ends, token) in before.in_order() {
            if let Some(later) = after.ends(token) {
                assert!(later >= ends, "a lease was shortened by {act:?}");
            }
        }
    }
}

fn explore(world: &World, depth: usize) -> u64 {
    if depth == 0 {
        return 1;
    }
    let mut histories = 0;
    for act in ACTS {
        let mut next = world.clone();
        next.act(act);
        histories += explore(&next, depth - 1);
    }
    histories
}

/// Invariants 4 and 10, and the limit, over all histories of length five.
#[test]
fn every_short_history_keeps_the_promises() {
    assert_eq!(explore(&World::new(), DEPTH), (ACTS.len() as u64).pow(DEPTH as u32));
}

#[test]
fn r35_exactly_as_many_as_the_limit_are_let_in_and_a_lower_limit_evicts_nobody() {
    let mut world = World::new();
    for who in 0..3 {
        assert_eq!(world.decide(&acquire(who, 3)), AcquirePermitReply::Granted { held: u32::from(who) + 1 });
    }
    let full = AcquirePermitReply::Full { held: 3, first_end: LEASE };
    assert_eq!(world.decide(&acquire(9, 3)), full);
    assert_eq!(world.decide(&acquire(9, 1)), full, "nobody is evicted");
    assert_eq!(
        world.decide(&acquire(0, 1)),
        AcquirePermitReply::Granted { held: 3 },
        "a repeat is no taking"
    );
    world.decide(&ReleasePermit { token: token(0) });
    world.decide(&ReleasePermit { token: token(1) });
    assert!(matches!(world.decide(&acquire(9, 1)), AcquirePermitReply::Full { held: 1, .. }));
    world.decide(&ReleasePermit { token: token(2) });
    assert_eq!(world.decide(&acquire(9, 1)), AcquirePermitReply::Granted { held: 1 });
}

#[test]
fn too_late_takes_nothing() {
    let mut world = World::new();
    let not_after = Timestamp::from_micros(world.now.as_micros() - 1);
    let late = AcquirePermit { not_after, ..acquire(0, 1) };
    let verdict = decide_within(&late, std::slice::from_mut(&mut world.cell), world.now).unwrap();
    assert_eq!(verdict, Err(TooLate));
    assert!(world.cell.is_empty());
}

#[test]
fn another_type_is_refused_and_stays() {
    let mut cells = [PermitCell::WrongType];
    let wrong = decide_within(&acquire(0, 1), &mut cells, Timestamp::from_micros(1)).unwrap_err();
    assert_eq!(wrong, WrongType { index: 0, side: false });
    assert_eq!(cells, [PermitCell::WrongType]);
}

#[test]
fn an_end_that_nobody_can_have_asked_for_does_not_hold_for_ever() {
    let mut world = World::new();
    let mut permits = Permits::default();
    permits.put(&token(0), world.now.after(MAX_PERMIT_AHEAD).as_micros());
    permits.put(&token(1), world.now.after(MAX_PERMIT_AHEAD).as_micros() + 1);
    world.cell = PermitCell::Ours(permits);
    assert_eq!(world.decide(&InspectPermits).len(), 1);
    assert_eq!(world.decide(&acquire(2, 2)), AcquirePermitReply::Granted { held: 2 });
}
