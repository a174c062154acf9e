//! The circuit breaker: while the store is silent, nobody waits for it. On a cluster each server has one of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::{Error, Uptime};
use parking_lot::Mutex;

use super::away::is_silent;

/// So many calls in a row without an answer open it.
const OPENS_AFTER: u32 = 3;
/// While it is open, the store is asked for a sign of life so often.
const PROBE_EVERY: Duration = Duration::from_millis(100);

/// Closed: calls go to the store. Open: they are answered here, and one sign of life is asked for in the background.
#[derive(Debug, Default)]
pub(crate) struct Circuit {
    silent: AtomicU32,
    is_open: AtomicBool,
    /// Microseconds of uptime.
    next_probe: AtomicU64,
}

/// So many servers of a cluster have one at most; then all begin anew.
const MAX_CIRCUITS: usize = 4096;

/// One circuit, or one for each server of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Circuits {
    one: Arc<Circuit>,
    of_servers: Mutex<HashMap<u16, Arc<Circuit>>>,
}

impl Circuits {
    /// That of a cluster's server, or the only one.
    pub(super) fn of(&self, server: Option<u16>) -> Arc<Circuit> {
        let Some(server) = server else { return self.one.clone() };
        let mut circuits = self.of_servers.lock();
        if circuits.len() >= MAX_CIRCUITS && !circuits.contains_key(&server) {
            circuits.clear();
        }
        circuits.entry(server).or_default().clone()
    }
}

/// What a caller is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Ask the store.
    Closed,
    /// Do not ask.
    Open,
    /// Do not ask, but see whether it is back.
    Probe,
}

impl Circuit {
    /// Costs two atomic reads.
    pub(super) fn way(&self, now: Uptime) -> Way {
        if !self.is_open.load(Ordering::Acquire) {
            return Way::Closed;
        }
        let due = self.next_probe.load(Ordering::Acquire);
        let next = now.after(PROBE_EVERY).as_micros();
        let is_mine = now.as_micros() >= due
            && self.next_probe.compare_exchange(due, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if is_mine { Way::Probe } else { Way::Open }
    }

    /// The store answered. True: this closed the circuit.
    pub(super) fn answered(&self) -> bool {
        if self.silent.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.silent.store(0, Ordering::Relaxed);
        self.is_open.swap(false, Ordering::AcqRel)
    }

    /// It did not. True: this opened the circuit.
    pub(super) fn was_silent(&self, now: Uptime) -> bool {
        let silent = self.silent.fetch_add(1, Ordering::Relaxed) + 1;
        if silent < OPENS_AFTER || self.is_open.load(Ordering::Acquire) {
            return false;
        }
        self.next_probe.store(now.after(PROBE_EVERY).as_micros(), Ordering::Release);
        !self.is_open.swap(true, Ordering::AcqRel)
    }

    /// Closed when the answer to `sign_of_life` comes, also where it is an error: a server that refuses is to be heard.
    /// True: by this one.
    pub(super) async fn probe<T>(&self, sign_of_life: impl Future<Output = Result<T, Error>>) -> bool {
        let is_answer = sign_of_life.await.map_or_else(|error| !is_silent(&error), |_| true);
        is_answer && self.answered()
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{ErrorKind, Refusal};

    use super::*;

    #[tokio::test]
    async fn a_server_that_refuses_is_there_and_one_that_is_silent_is_not() {
        let circuit = Circuit::default();
        assert!((0..3).any(|_| circuit.was_silent(at(0))));
        for silent in [ErrorKind::Unreachable, ErrorKind::OutcomeUnknown { not_after: None }] {
            assert!(!circuit.probe(async { Err::<(), _>(Error::new(silent, "heartbeat", "")) }).await);
            assert_eq!(circuit.way(at(0)), Way::Open);
        }
        let refused = ErrorKind::Refused(Refusal::NotAuthenticated);
        assert!(circuit.probe(async { Err::<(), _>(Error::new(refused, "heartbeat", "")) }).await);
        assert_eq!(circuit.way(at(0)), Way::Closed);
    }

    fn at(ms: u64) -> Uptime {
        Uptime::from_micros(ms * 1000)
    }

    #[test]
    fn it_opens_after_three_silent_calls_in_a_row_and_lets_one_caller_probe() {
        let circuit = Circuit::default();
        assert!(!circuit.was_silent(at(0)) && !circuit.was_silent(at(0)));
        assert!(!circuit.answered(), "it was not open");
        assert!(!circuit.was_silent(at(0)) && !circuit.was_silent(at(0)));
        assert_eq!(circuit.way(at(0)), Way::Closed);
        assert!(circuit.was_silent(at(0)));
        assert_eq!(circuit.way(at(99)), Way::Open);
        assert_eq!((circuit.way(at(100)), circuit.way(at(100))), (Way::Probe, Way::Open));
        assert!(circuit.answered() && !circuit.answered(), "it closes once");
        assert_eq!(circuit.way(at(101)), Way::Closed);
    }
}
