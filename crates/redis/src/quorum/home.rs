//! The thread on which the servers of a majority are looked after, and what was left somewhere is given back: a runtime of
//! the application that is blocked or gone stops neither.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::own_thread;

/// Starts when it is first needed, and ends when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Home {
    /// `None`: the thread did not start.
    started: OnceLock<Option<Handle>>,
    /// Ends the thread with this.
    ends: watch::Sender<()>,
}

impl Home {
    /// Runs `task` there; on the caller's runtime where the thread did not start.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let own = self.started.get_or_init(|| self.start()).clone();
        match own.or_else(|| Handle::try_current().ok()) {
            Some(runtime) => drop(runtime.spawn(task)),
            None => tracing::warn!("a majority is not looked after: no thread could be started"),
        }
    }

    fn start(&self) -> Option<Handle> {
        let mut ends = self.ends.subscribe();
        own_thread::start("lockkeeper-quorum", async move { while ends.changed().await.is_ok() {} }).ok()
    }
}
