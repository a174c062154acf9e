//! The decisions, checked over every short history of a small world.

use std::time::Duration;

use super::*;
use crate::decision::{Decision, TooLate, WrongType, decide_within};
use crate::time::Timestamp;

const LEASE: Duration = Duration::from_millis(100);
/// Every history of this length is tried.
const DEPTH: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Act {
    Acquire(u8),
    Renew(u8),
    Release(u8),
    Swap(u8, u8),
    Force(u8),
    Pass(u64),
}

const ACTS: [Act; 11] = [
    Act::Acquire(0),
    Act::Acquire(1),
    Act::Renew(0),
    Act::Renew(1),
    Act::Release(0),
    Act::Release(1),
    Act::Swap(0, 1),
    Act::Force(0),
    Act::Pass(0),
    Act::Pass(50),
    Act::Pass(101),
];

#[derive(Clone)]
struct World {
    cell: LockCell,
    now: Timestamp,
    highest: u64,
}

fn token(number: u8) -> OwnerToken {
    OwnerToken::given([number + 1]).unwrap()
}

fn lease() -> Lease {
    Lease::new(LEASE).unwrap()
}

impl World {
    fn new() -> Self {
        Self { cell: LockCell::default(), now: Timestamp::from_micros(1_000_000_000), highest: 0 }
    }

    fn decide<D: Decision<State = LockCell>>(&mut self, decision: &D) -> D::Reply {
        decide_within(decision, std::slice::from_mut(&mut self.cell), self.now).unwrap().unwrap()
    }

    fn holder(&self) -> Option<Occupant> {
        let mut cell = self.cell.clone();
        crate::State::expire(&mut cell, self.now);
        cell.occupant().cloned()
    }

    /// Does one thing and checks what must hold whatever came before.
    fn act(&mut self, act: Act) {
        let (before, cell_before) = (self.holder(), self.cell.clone());
        let held_by = |number: u8| before.as_ref().is_some_and(|occupant| occupant.token == token(number));
        match act {
            Act::Pass(ms) => self.now = self.now.after(Duration::from_millis(ms)),
            Act::Acquire(who) => {
                let acquire = Acquire {
                    token: token(who),
                    lease: lease(),
                    fences: FenceRequest::default(),
                    not_after: Timestamp::MAX,
                };
                match self.decide(&acquire) {
                    AcquireReply::Granted(fence) => {
                        assert!(before.is_none() || held_by(who), "two holders");
                        assert!(fence.get() > self.highest || held_by(who), "the fence did not grow");
                        assert!(fence.get() >= self.highest, "the fence went back");
                        self.highest = fence.get();
                    }
                    AcquireReply::Busy(busy) => {
                        assert!(before.is_some() && !held_by(who));
                        assert_eq!(busy.holder, before.as_ref().unwrap().holder());
                        assert_eq!(self.holder(), before, "a refusal changed something");
                    }
                }
            }
            Act::Renew(who) => {
                let reply =
                    self.decide(&Renew { token: token(who), lease: lease(), not_after: Timestamp::MAX });
                assert_eq!(reply == RenewReply::Renewed, held_by(who));
                assert_eq!(self.holder().is_some(), before.is_some(), "a renewal created or removed a key");
            }
            Act::Release(who) => {
                let reply = self.decide(&Release { token: token(who) });
                assert_eq!(reply == ReleaseReply::Released, held_by(who));
                assert!(self.holder().is_none() || !held_by(who), "not released");
                assert!(held_by(who) || self.holder() == before, "somebody else's was touched");
            }
            Act::Swap(from, to) => {
                let swap = Swap {
                    from: token(from),
                    to: token(to),
                    lease: lease(),
                    fences: FenceRequest::default(),
                    not_after: Timestamp::MAX,
                };
                match self.decide(&swap) {
                    SwapReply::Swapped(fence) => {
                        assert!(held_by(from) || held_by(to));
                        assert!(fence.get() > self.highest || held_by(to));
                        self.highest = self.highest.max(fence.get());
                        assert_eq!(self.holder().unwrap().token, token(to));
                    }
                    _ => assert_eq!(self.holder(), before, "a refusal changed something"),
                }
            }
            Act::Force(who) => {
                let reply = self.decide(&ForceRelease {
                    shown: token(who).holder(),
                    seen: 0,
                    not_after: Timestamp::MAX,
                });
                if let ForceReleaseReply::Released(fence) = reply {
                    assert!(held_by(who) && self.holder().is_none() && fence.get() > self.highest);
                    self.highest = fence.get();
                } else {
                    assert!(!held_by(who));
                    assert_eq!(self.holder(), before);
                }
            }
        }
        if let (Some(old), Some(new)) = (before, self.holder()) {
            assert!(
                old.token != new.token || new.expires_ms >= old.expires_ms,
                "a lease was shortened: {cell_before:?}"
            );
        }
    }
}

fn explore(world: &World, depth: usize, history: &mut Vec<Act>) -> u64 {
    if depth == 0 {
        return 1;
    }
    let mut histories = 0;
    for act in ACTS {
        history.push(act);
        let mut next = world.clone();
        next.act(act);
        histories += explore(&next, depth - 1, history);
        history.pop();
    }
    histories
}

/// Invariants 4 and 10, exclusion and fence order, over all histories of length five.
#[test]
fn every_short_history_keeps_the_promises() {
    let histories = explore(&World::new(), DEPTH, &mut Vec::new());
    assert_eq!(histories, (ACTS.len() as u64).pow(DEPTH as u32));
}

#[test]
fn too_late_takes_nothing() {
    let mut world = World::new();
    let not_after = Timestamp::from_micros(world.now.as_micros() - 1);
    let acquire = Acquire { token: token(0), lease: lease(), fences: FenceRequest::default(), not_after };
    let verdict = decide_within(&acquire, std::slice::from_mut(&mut world.cell), world.now).unwrap();
    assert_eq!(verdict, Err(TooLate));
    assert_eq!(world.cell, LockCell::default());
    let at_its_last_moment = Acquire { not_after: world.now, ..acquire };
    assert!(
        decide_within(&at_its_last_moment, std::slice::from_mut(&mut world.cell), world.now).unwrap().is_ok()
    );
}

#[test]
fn a_backward_step_of_the_servers_clock_does_not_take_the_fence_back() {
    let mut world = World::new();
    world.act(Act::Acquire(0));
    world.act(Act::Release(0));
    world.now = Timestamp::from_micros(1);
    world.act(Act::Acquire(1));
}

#[test]
fn a_wrong_type_refuses_all_and_changes_nothing() {
    let mut cells = [LockCell::default(), LockCell { main: Main::WrongType, ..LockCell::default() }];
    let before = cells.clone();
    let acquire = Acquire {
        token: token(0),
        lease: lease(),
        fences: FenceRequest::default(),
        not_after: Timestamp::MAX,
    };
    let wrong = decide_within(&acquire, &mut cells, Timestamp::from_micros(1)).unwrap_err();
    assert_eq!(wrong, WrongType { index: 1, side: false });
    assert_eq!(cells, before);
}

/// L104 without a server: a million names used once leave nothing in the memory store after their time.
#[test]
fn l104_a_store_forgets_names_that_are_used_once() {
    use std::sync::Arc;
    let clock = Arc::new(crate::ManualClock::default());
    let store = crate::MemoryStore::new(clock.clone());
    let prefix = crate::Prefix::new("lock:").unwrap();
    let once = |name: u32| {
        let at = crate::Keys::from(crate::Key::new(&prefix, name.to_string()).unwrap());
        let acquire = Acquire {
            token: token(0),
            lease: lease(),
            fences: FenceRequest::default(),
            not_after: Timestamp::MAX,
        };
        store.apply_now(&at, acquire, LEASE).unwrap();
    };
    (0..20_000).for_each(once);
    assert_eq!(store.len(), 20_000);
    clock.advance(FENCE_RETENTION + Duration::from_secs(1));
    (20_000..20_100).for_each(once);
    assert_eq!(store.len(), 100);
}
