//! Records: the whole table of phases and decisions, and every short history.

mod histories;
mod phases;
mod text;

use std::time::Duration;

use super::*;
use crate::decision::{Decision, State};
use crate::lock::{Lease, OwnerToken};
use crate::time::Timestamp;

/// 2026-01-01T00:00:00Z.
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const LEASE: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_secs(60);
const RETAIN: Duration = Duration::from_secs(3600);

fn token(name: &str) -> OwnerToken {
    OwnerToken::given(name).unwrap()
}

fn print(of: u8) -> Fingerprint {
    Fingerprint::new([of; 32])
}

fn retain() -> Retention {
    Retention::new(RETAIN).unwrap()
}

fn result(text: &str) -> Stored {
    Stored::whole(text.as_bytes()).unwrap()
}

fn begin(name: &str, on_crash: OnCrash) -> Begin {
    let lease = Lease::new(LEASE).unwrap();
    let (token, retain, fingerprint) = (token(name), retain(), print(1));
    Begin { token, lease, on_crash, retain, fingerprint, seen: 0, not_after: Timestamp::MAX }
}

fn keep_alive(name: &str) -> KeepAlive {
    KeepAlive { token: token(name), lease: Lease::new(LEASE).unwrap(), not_after: Timestamp::MAX }
}

fn complete(name: &str) -> Complete {
    Complete { token: token(name), stored: result(name), retain: retain() }
}

fn abandon(name: &str, how: HowAbandoned) -> Abandon {
    Abandon { token: token(name), how }
}

fn resolve(fence: u64, resolution: Resolution) -> Resolve {
    let fence = crate::lock::Fence::new(fence);
    Resolve { fence, token: token("operator"), resolution, retain: retain(), not_after: Timestamp::MAX }
}

/// One key under a clock that is an argument.
#[derive(Clone, Debug, Default)]
struct Bench(OnceCell);

impl Bench {
    fn ask<D: Decision<State = OnceCell>>(&mut self, decision: &D, now: Timestamp) -> D::Reply {
        self.0.expire(now);
        decision.decide(std::slice::from_mut(&mut self.0), now).unwrap()
    }

    fn phase(&self, now: Timestamp) -> Phase {
        self.0.live(now).map_or(Phase::Absent, |(_, phase)| phase)
    }

    fn fence(&self) -> u64 {
        self.0.last_fence()
    }

    /// A key that `a` brought into `phase`, and the moment for the next decision.
    fn in_phase(phase: Phase, on_crash: OnCrash) -> (Self, Timestamp) {
        let mut bench = Self::default();
        if phase != Phase::Absent {
            bench.ask(&begin("a", on_crash), START);
        }
        let later = START.after(Duration::from_secs(1));
        let lapsed = START.after(LEASE);
        let now = match phase {
            Phase::Absent | Phase::Running => later,
            Phase::Unknown => lapsed,
            Phase::Lapsed => lapsed.after(if on_crash == OnCrash::Rerun { Duration::ZERO } else { HOLD }),
            Phase::Completed => {
                bench.ask(&complete("a"), later);
                later
            }
            Phase::Open => {
                bench.ask(&abandon("a", HowAbandoned::Undone), later);
                later
            }
        };
        assert_eq!(bench.phase(now), phase);
        (bench, now)
    }
}
