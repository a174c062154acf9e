//! Remembering that a signal asked us to end, also while signals go to the child.

use tokio::sync::watch;

/// Whether a signal has asked us to end since [`Signals::install`](super::Signals::install): SIGHUP, SIGINT,
/// SIGQUIT or SIGTERM.
#[derive(Clone, Debug)]
pub struct AskedToEnd(watch::Receiver<bool>);

impl AskedToEnd {
    /// The pair: who hears the signals sets it.
    pub(super) fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Returns when one has. Cancel safe.
    pub async fn wait(&mut self) {
        if self.0.wait_for(|asked| *asked).await.is_err() {
            // Nobody listens for signals any more, or ever did.
            std::future::pending::<()>().await;
        }
    }
}
