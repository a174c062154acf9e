//! The task that makes a link's connections, from the first use until one stands.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{About, OwnLink, State, Up, Wire};
use crate::config::{MAX_RECONNECT_PAUSE, MIN_RECONNECT_PAUSE, SHORTEST_WANTED_PAUSE};
use crate::connect::{Ears, Made};
use crate::error::Failure;
use crate::sentinel::SEEK_PAUSE;

/// The connecting task. When its runtime dies with it, the link is idle again and the next caller starts another.
pub(super) struct ConnectTask {
    pub(super) link: Weak<OwnLink>,
    pub(super) id: u64,
}

impl ConnectTask {
    pub(super) async fn run(self, first_pause: Option<Duration>) {
        if let Some(pause) = first_pause {
            self.pause(pause).await;
        }
        let mut pause = MIN_RECONNECT_PAUSE;
        while self.set_state(State::Connecting) {
            let parts = self.link.upgrade().map(|link| (link.connector.clone(), link.ears));
            let Some((connector, ears)) = parts else { return };
            let failure = match connector.connect(ears).await {
                Ok(made) => return self.set_up(made),
                Err(failure) => failure,
            };
            self.note(&failure);
            tracing::debug!(address = %connector.name(), error = %failure.detail, "redis connection failed");
            if let Some(lookout) = connector.lookout().filter(|_| failure.may_pass()) {
                // A primary may appear at any moment: whoever has the time waits for it.
                let term = lookout.term();
                let pause = pause.min(SEEK_PAUSE).mul_f64(rand::random_range(0.5..1.0));
                let _ = timeout(pause, lookout.left(term)).await;
            } else {
                self.set_state(State::Pausing(failure));
                self.pause(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            }
            pause = (pause * 2).min(MAX_RECONNECT_PAUSE);
        }
    }

    /// Changes the state, unless the link is gone or this task was given up.
    fn change(&self, to: impl FnOnce(&OwnLink, &State) -> Option<State>) -> bool {
        let Some(link) = self.link.upgrade() else { return false };
        let mut is_current = false;
        link.state.send_if_modified(|state| {
            is_current = link.task.load(Ordering::Acquire) == self.id;
            let next = if is_current { to(&link, state) } else { None };
            let is_changed = next.is_some();
            if let Some(next) = next {
                *link.stirred.lock() = Instant::now();
                *state = next;
            }
            is_changed
        });
        is_current
    }

    fn set_state(&self, state: State) -> bool {
        self.change(|_, _| Some(state))
    }

    /// Remembers why there is no connection, for those whose time ends while they wait.
    fn note(&self, failure: &Failure) {
        if let Some(link) = self.link.upgrade() {
            *link.trouble.lock() = Some(failure.detail.clone());
        }
    }

    fn set_up(&self, made: Made) {
        let Made { connection, info, term } = made;
        // Ends with the connection's last user, or with this runtime, which the other end notices.
        let (home, ends) = oneshot::channel::<()>();
        drop(tokio::spawn(ends));
        self.change(|link, _| {
            let generation = link.next_generation.fetch_add(1, Ordering::Relaxed);
            link.generations.send_replace(generation);
            link.connector.note_run(&info.run_id, generation > 1 && link.ears == Ears::Closed);
            *link.trouble.lock() = None;
            let about = About::new(Arc::new(info), generation, term, Some(home));
            Some(State::Up(Up { wire: Wire::Own(connection), about: Arc::new(about) }))
        });
    }

    /// Pauses; a caller cuts a long pause short, so that renewals of short leases do not wait for it.
    async fn pause(&self, pause: Duration) {
        tokio::time::sleep(pause.min(SHORTEST_WANTED_PAUSE)).await;
        let Some(link) = self.link.upgrade() else { return };
        tokio::select! {
            () = tokio::time::sleep(pause.saturating_sub(SHORTEST_WANTED_PAUSE)) => {}
            () = link.wanted.notified() => {}
        }
    }
}

impl Drop for ConnectTask {
    fn drop(&mut self) {
        self.change(|_, state| matches!(state, State::Connecting | State::Pausing(_)).then_some(State::Idle));
    }
}
