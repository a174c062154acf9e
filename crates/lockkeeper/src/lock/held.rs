//! A held lock: what guards share. It sits on a [`Tenure`], alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper_core::Uptime;
use lockkeeper_core::lock::Fence;
use tokio::sync::Notify;

use super::builder::{Lock, Terms};
use super::give_back::Dropped;
use super::outcome::LossReason;
use super::tenure::Tenure;
use crate::clock::sleep_until;
use crate::keeper::Inner;
use crate::telemetry::events::{self, Of};
use crate::telemetry::{Class, Reason};

/// One holder.
pub(crate) struct Held {
    pub(crate) tenure: Arc<Tenure>,
    pub(crate) fence: Fence,
    pub(crate) terms: Terms,
    pub(crate) since: Uptime,
    pub(crate) class: Class,
    /// How often the tenure had been renewed before.
    renewals_before: u32,
    /// Empty while held. Set once, then those who wait for it are told.
    ended: OnceLock<LossReason>,
    has_ended: Notify,
    /// What becomes of the tenure is no longer this holder's concern.
    settled: AtomicBool,
}

impl Held {
    pub(super) fn new(tenure: Arc<Tenure>, fence: Fence, lock: &Lock, since: Uptime) -> Arc<Self> {
        tenure.inner.held_count.fetch_add(1, Ordering::Relaxed);
        lock.class.held(1);
        Arc::new(Self {
            renewals_before: tenure.renewals.load(Ordering::Relaxed),
            tenure,
            fence,
            terms: lock.terms,
            since,
            class: lock.class,
            ended: OnceLock::new(),
            has_ended: Notify::new(),
            settled: AtomicBool::new(false),
        })
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.tenure.inner
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.is_held() && self.inner().clock.uptime() < self.tenure.deadline()
    }

    /// Neither lost nor released, as far as anybody noticed.
    pub(crate) fn is_held(&self) -> bool {
        self.ended.get().is_none()
    }

    /// Ends it; only the first reason counts. True if this was it.
    pub(super) fn end(&self, reason: LossReason) -> bool {
        let first = self.ended.set(reason).is_ok();
        if let Some(reason) = self.ended.get().filter(|_| first) {
            self.has_ended.notify_waiters();
            self.inner().held_count.fetch_sub(1, Ordering::Relaxed);
            self.class.held(-1);
            self.class.lost(reason);
            events::lost(self.of(), reason, self.held_for());
        }
        first
    }

    /// As events name it.
    pub(super) fn of(&self) -> Of<'_> {
        Of { keys: &self.tenure.keys, token: &self.tenure.token, fence: self.fence }
    }

    /// It was released, or the release failed: the answer that counts.
    pub(super) fn report_release(&self, outcome: Reason) {
        let held_for = self.held_for();
        self.class.released(outcome, held_for);
        events::released(self.of(), outcome, held_for);
    }

    /// The reason, once there is one. It has a timer of its own, in case that the keeper's thread is not there to see
    /// the deadline pass.
    pub(crate) async fn ended(&self) -> LossReason {
        loop {
            // Made before the look: whoever ends it wakes what was made before, polled or not.
            let told = self.has_ended.notified();
            if let Some(reason) = self.ended.get() {
                return reason.clone();
            }
            let clock = &*self.inner().clock;
            tokio::select! {
                () = told => {}
                () = sleep_until(clock, self.tenure.deadline()) => {
                    if clock.uptime() >= self.tenure.deadline() {
                        self.tenure.lapse();
                    }
                }
            }
        }
    }

    pub(crate) fn reason(&self) -> Option<LossReason> {
        self.ended.get().cloned()
    }

    /// It is to be renewed, and was not renewed too often.
    pub(crate) fn may_renew(&self) -> bool {
        let renewals = || self.tenure.renewals.load(Ordering::Relaxed).wrapping_sub(self.renewals_before);
        self.terms.renew && self.terms.max_renewals.is_none_or(|most| renewals() < most)
    }

    /// When the watchdog looks after it next, if the lease was granted for a request sent at `sent`: a third of the
    /// lease later, up to a tenth earlier, and no later than the bound on holding; at its end if it is not renewed.
    pub(crate) fn next_due(&self, sent: Uptime) -> Uptime {
        if !self.may_renew() {
            return self.tenure.deadline();
        }
        let third = (self.tenure.lease.as_duration() / 3).mul_f64(rand::random_range(0.9..1.0));
        let due = sent.after(third);
        self.hold_bound().map_or(due, |bound| due.min(bound))
    }

    /// When the bound on the total holding time is reached.
    pub(crate) fn hold_bound(&self) -> Option<Uptime> {
        self.terms.max_hold.filter(|_| self.terms.renew).map(|limit| self.since.after(limit))
    }

    /// Takes over the care for the tenure: for exactly one caller it is true.
    pub(super) fn settle(&self) -> bool {
        !self.settled.swap(true, Ordering::AcqRel)
    }

    fn held_for(&self) -> Duration {
        self.inner().clock.uptime().since(self.since)
    }
}

impl Drop for Held {
    /// Invariant 8: dropping the last guard passes the lock on or releases it in the background, never blocks, never
    /// panics.
    fn drop(&mut self) {
        let was_held = self.end(LossReason::Released);
        if !self.settle() {
            return;
        }
        if was_held && self.tenure.pass_on() {
            self.report_release(Reason::None);
        } else {
            self.tenure.give_back_of(Some(Dropped { class: self.class, held_for: self.held_for() }));
        }
    }
}
