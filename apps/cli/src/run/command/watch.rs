//! Watching lease and command: the command ends before the lease does.
//!
//! A guard says that it is lost when its deadline has come. That is too late to ask a command to end, so we look at
//! what is left: as long as renewals succeed, that is more than two thirds of the lease. Once it is no more than the
//! grace period, the command gets SIGTERM; at the guard's deadline, which lies before the server's, SIGKILL.

use std::time::{Duration, Instant};

use lockkeeper::{Extended, LockGuard, LossReason};

use super::options::Plan;
use crate::common::rounded;
use crate::exit::say;
use crate::run::{Ended, Event, Question, Supervisor};

/// Timers do not count the time that the machine was suspended, so we look at the clock at least this often.
const LONGEST_NAP: Duration = Duration::from_secs(1);
const SHORTEST_NAP: Duration = Duration::from_millis(1);

pub(super) struct Watch<'a> {
    plan: &'a Plan,
    guard: &'a LockGuard,
    supervisor: Supervisor,
    acquired: Instant,
    /// We have told the command to end.
    is_stopping: bool,
    /// The guard has told us that it is lost.
    is_lost: bool,
}

/// How the command ended.
pub(super) struct Watched {
    pub(super) ended: Ended,
    /// It ended because we told it to.
    pub(super) was_stopped: bool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        guard: &'a LockGuard,
        supervisor: Supervisor,
        acquired: Instant,
    ) -> Self {
        Self { plan, guard, supervisor, acquired, is_stopping: false, is_lost: false }
    }

    /// Watches until the command has ended.
    pub(super) async fn run(mut self) -> Watched {
        loop {
            let nap = self.nap();
            tokio::select! {
                biased;
                event = self.supervisor.event() => match event {
                    Event::Ended(ended) => return Watched { ended, was_stopped: self.is_stopping },
                    Event::Resumed(question) => self.answer(question).await,
                },
                reason = self.guard.lost(), if !self.is_lost => self.on_lost(&reason),
                () = tokio::time::sleep(nap), if !self.is_stopping => self.look(),
            }
        }
    }

    /// How long nothing can become due.
    fn nap(&self) -> Duration {
        let lease = self.guard.remaining().saturating_sub(self.plan.grace);
        let hold =
            self.plan.max_hold.map_or(Duration::MAX, |limit| limit.saturating_sub(self.acquired.elapsed()));
        lease.min(hold).clamp(SHORTEST_NAP, LONGEST_NAP)
    }

    fn look(&mut self) {
        let remaining = self.guard.remaining();
        if remaining <= self.plan.grace {
            let left = rounded(remaining);
            self.stop(remaining, &format!("it could not be renewed; its lease ends in {left}"));
        } else if let Some(limit) = self.plan.max_hold.filter(|limit| self.acquired.elapsed() >= *limit) {
            self.stop(self.plan.grace, &format!("it was held for {}, which is the limit", rounded(limit)));
        }
    }

    fn on_lost(&mut self, reason: &LossReason) {
        self.is_lost = true;
        self.stop(Duration::ZERO, &format!("it is lost: {reason}"));
    }

    /// Ends the command within `limit`. Repeated with a shorter limit, it shortens what is left.
    fn stop(&mut self, limit: Duration, why: &str) {
        self.supervisor.stop_by(Instant::now() + limit);
        if !self.is_stopping {
            self.is_stopping = true;
            say(&format!("{}: {why}; ending the command", self.guard.key()));
        }
    }

    /// After a stop (Ctrl-Z) during which nobody renewed the lease: the command goes on if the server says that the
    /// lock is still ours. If the server does not answer, our own clock decides, as it always does.
    async fn answer(&mut self, question: Question) {
        match self.guard.extend(self.plan.lease).await {
            Ok(Extended::Extended) => {}
            // Then the guard knows that it is lost.
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(key = self.guard.key(), %error, "no answer whether the lock is still held");
            }
        }
        let remaining = self.guard.remaining();
        if remaining > self.plan.grace {
            question.go_on();
        } else {
            self.stop(remaining, "its lease ended, or is about to end, while the command was stopped");
            question.stop_by(Instant::now() + remaining);
        }
    }
}
