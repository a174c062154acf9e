//! Requests that go on without whoever sent them, counted.

use std::sync::Arc;

use tokio::sync::watch;

/// How many run.
#[derive(Clone, Debug)]
pub(super) struct Detached(Arc<watch::Sender<usize>>);

/// One that runs.
#[derive(Debug)]
pub(super) struct Running(Detached);

impl Detached {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    pub(super) fn one_more(&self) -> Running {
        self.0.send_modify(|count| *count += 1);
        Running(self.clone())
    }

    /// Waits until none runs.
    pub(super) async fn none(&self) {
        // Its sender is this one, so it does not end without an answer.
        _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
