//! What each call to the store tells the circuit and the telemetry, however many checks it carried.

use std::sync::Arc;

use lockkeeper_core::limit::CheckReply;
use lockkeeper_core::{Error, ErrorKind, Keys, Uptime};
use lockkeeper_redis::Lane;

use super::away::is_silent;
use super::circuit::{Circuit, Way};
use crate::backend::Backend;
use crate::keeper::Inner;
use crate::telemetry::{LimitClass, circuit_closed, circuit_opened};

/// A limiter's view of its calls.
pub(super) struct Calls {
    pub(super) inner: Arc<Inner>,
    pub(super) class: LimitClass,
}

impl Calls {
    /// Whether to ask the store at all. Whoever is to probe does it in the background and does not wait.
    pub(super) fn may_ask(&self, keys: &Keys, now: Uptime) -> Result<(), Error> {
        let circuit = self.circuit(keys);
        match circuit.way(now) {
            Way::Closed => return Ok(()),
            Way::Open => {}
            Way::Probe => self.probe(keys, circuit),
        }
        let detail = "the store has not answered lately; it is being probed in the background";
        Err(Error::new(ErrorKind::Unreachable, "check", detail).with_key(keys))
    }

    /// A call came back, or did not.
    pub(super) fn note(&self, keys: &Keys, result: &Result<CheckReply, Error>) {
        let circuit = self.circuit(keys);
        match result {
            Ok(reply) => {
                self.answered(&circuit);
                self.class.answered(reply.checked.len());
                if reply.repaired > 0 {
                    self.class.repaired(reply.repaired, self.inner.clock.uptime());
                }
            }
            Err(error) if is_silent(error) => {
                if circuit.was_silent(self.inner.clock.uptime()) {
                    circuit_opened(&self.inner.address, error);
                }
            }
            Err(_answered) => self.answered(&circuit),
        }
    }

    /// That of the server that keeps these keys.
    fn circuit(&self, keys: &Keys) -> Arc<Circuit> {
        self.inner.circuits.of(self.inner.backend.server_of(keys))
    }

    fn answered(&self, circuit: &Circuit) {
        if circuit.answered() {
            circuit_closed(&self.inner.address);
        }
    }

    fn probe(&self, keys: &Keys, circuit: Arc<Circuit>) {
        let (Backend::Redis(lanes), Ok(runtime)) =
            (&self.inner.backend, tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let (store, within) = (lanes.on(Lane::Command).clone(), self.inner.response_timeout);
        let (keys, server) = (keys.clone(), self.inner.address.clone());
        runtime.spawn(async move {
            if circuit.probe(store.heartbeat_at(&keys, within)).await {
                circuit_closed(&server);
            }
        });
    }
}
