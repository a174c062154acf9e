//! A held lock: what guards share, and what the watchdog works on.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper_core::lock::{Fence, Lease, OwnerToken};
use lockkeeper_core::{Keys, Timestamp, Uptime};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::builder::Terms;
use super::give_back::{Doubt, GiveBack};
use super::outcome::LossReason;
use crate::background::Slot;
use crate::clock::sleep_until;
use crate::keeper::Inner;

/// One acquisition. Its token is its generation: nothing of an earlier or later one can be mistaken for it.
pub(crate) struct Held {
    pub(crate) inner: Arc<Inner>,
    pub(crate) keys: Keys,
    pub(crate) token: OwnerToken,
    pub(crate) fence: Fence,
    pub(crate) lease: Lease,
    pub(crate) terms: Terms,
    pub(crate) acquired: Uptime,
    /// Until then, by the server's clock, a second copy of the acquire may arrive there.
    in_doubt_until: Option<Timestamp>,
    /// Microseconds of uptime. Only moves later.
    deadline: AtomicU64,
    pub(crate) renewals: AtomicU32,
    /// Why the last renewal failed, if it did.
    trouble: Mutex<Option<String>>,
    /// The server may still keep the key for it, and nobody has been asked to remove it.
    unreleased: AtomicBool,
    /// Empty while held. Set once, then those who wait for it are told.
    ended: OnceLock<LossReason>,
    has_ended: Notify,
    /// Where the background's timeline has it.
    slot: Mutex<Option<Slot>>,
}

impl Held {
    #[expect(clippy::too_many_arguments, reason = "one call, which knows all of it")]
    pub(super) fn new(
        inner: Arc<Inner>,
        keys: Keys,
        token: OwnerToken,
        fence: Fence,
        lease: Lease,
        terms: Terms,
        sent: Uptime,
        in_doubt_until: Option<Timestamp>,
    ) -> Arc<Self> {
        let held = Arc::new(Self {
            inner,
            keys,
            token,
            fence,
            lease,
            terms,
            acquired: sent,
            in_doubt_until,
            deadline: AtomicU64::new(lease.deadline(sent).as_micros()),
            renewals: AtomicU32::new(0),
            trouble: Mutex::new(None),
            unreleased: AtomicBool::new(true),
            ended: OnceLock::new(),
            has_ended: Notify::new(),
            slot: Mutex::new(None),
        });
        held.inner.held_count.fetch_add(1, Ordering::Relaxed);
        let due = if held.may_renew() { held.next_renewal(sent) } else { held.deadline() };
        held.tend_at(due);
        held
    }

    /// Invariant 6: before this, by this process's own clock, nobody else can have been let in.
    pub(crate) fn deadline(&self) -> Uptime {
        Uptime::from_micros(self.deadline.load(Ordering::Acquire))
    }

    /// A lease of `lease` was granted for a request sent at `sent`.
    pub(crate) fn prolong(&self, lease: Lease, sent: Uptime) {
        self.deadline.fetch_max(lease.deadline(sent).as_micros(), Ordering::AcqRel);
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.is_held() && self.inner.clock.uptime() < self.deadline()
    }

    /// Neither lost nor released, as far as anybody noticed.
    pub(crate) fn is_held(&self) -> bool {
        self.ended.get().is_none()
    }

    /// Ends it; only the first reason counts. True if this was it.
    pub(crate) fn end(&self, reason: LossReason) -> bool {
        let lost = (reason != LossReason::Released).then(|| reason.to_string());
        let first = self.ended.set(reason).is_ok();
        if first {
            self.has_ended.notify_waiters();
            self.inner.held_count.fetch_sub(1, Ordering::Relaxed);
            self.leave_timeline();
            if let Some(reason) = lost {
                let holder = self.token.holder();
                tracing::warn!(key = %self.keys, %holder, fence = self.fence.get(), %reason, "lock lost");
            }
        }
        first
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
            tokio::select! {
                () = told => {}
                () = sleep_until(&*self.inner.clock, self.deadline()) => {
                    if self.inner.clock.uptime() >= self.deadline() {
                        self.lapse();
                    }
                }
            }
        }
    }

    /// Nobody holds the key any more.
    pub(crate) fn end_as_absent(&self) {
        if self.inner.clock.uptime() < self.deadline() {
            self.end(LossReason::KeyGone);
        } else {
            self.lapse();
        }
    }

    /// Its deadline has passed.
    pub(crate) fn lapse(&self) {
        let trouble = self.trouble.lock().clone();
        self.end(match trouble {
            Some(error) => LossReason::NotRenewed(error),
            None if self.terms.renew && !self.may_renew() => LossReason::MaxRenewals,
            None => LossReason::Expired,
        });
    }

    /// Notes how the last renewal went; true if the one before it had failed.
    pub(crate) fn set_trouble(&self, trouble: Option<String>) -> bool {
        std::mem::replace(&mut *self.trouble.lock(), trouble).is_some()
    }

    /// It is to be renewed, and was not renewed too often.
    pub(crate) fn may_renew(&self) -> bool {
        let used_up = |most| self.renewals.load(Ordering::Relaxed) >= most;
        self.terms.renew && !self.terms.max_renewals.is_some_and(used_up)
    }

    pub(crate) fn reason(&self) -> Option<LossReason> {
        self.ended.get().cloned()
    }

    /// A third of the lease after `sent`, up to a tenth earlier, and no later than the bound on holding.
    pub(crate) fn next_renewal(&self, sent: Uptime) -> Uptime {
        let third = (self.lease.as_duration() / 3).mul_f64(rand::random_range(0.9..1.0));
        let due = sent.after(third);
        self.hold_bound().map_or(due, |bound| due.min(bound))
    }

    /// When the bound on the total holding time is reached.
    pub(crate) fn hold_bound(&self) -> Option<Uptime> {
        self.terms.max_hold.filter(|_| self.terms.renew).map(|limit| self.acquired.after(limit))
    }

    /// Puts it on the background's timeline, unless it has ended meanwhile.
    pub(crate) fn tend_at(self: &Arc<Self>, due: Uptime) {
        let mut slot = self.slot.lock();
        if !self.is_held() {
            return;
        }
        if let Some(earlier) = slot.take() {
            self.inner.background.unschedule(earlier);
        }
        *slot = self.inner.background.schedule(due, Arc::downgrade(self));
        let is_closed = slot.is_none();
        drop(slot);
        if is_closed {
            self.end(LossReason::KeeperClosed);
        }
    }

    /// The server has answered a release: nothing is left to do.
    pub(crate) fn was_released(&self) {
        self.unreleased.store(false, Ordering::Release);
        if self.in_doubt_until.is_some() {
            // A second copy of the acquire may come after the release.
            self.hand_to_background();
        }
    }

    /// A release that nobody waits for; once.
    pub(crate) fn give_back(&self) {
        if self.unreleased.swap(false, Ordering::AcqRel) {
            self.hand_to_background();
        }
    }

    fn hand_to_background(&self) {
        let lease = self.lease.as_duration();
        let mut ends = self.deadline().after(Duration::from_secs(1)).after(lease / 50);
        let doubt = self.in_doubt_until.map_or(Doubt::None, Doubt::Until);
        if doubt != Doubt::None {
            ends = ends.max(self.inner.clock.uptime().after(self.inner.response_timeout).after(lease));
        }
        self.inner.give_back(GiveBack::new(self.keys.clone(), self.token.clone(), doubt, ends));
    }

    fn leave_timeline(&self) {
        if let Some(slot) = self.slot.lock().take() {
            self.inner.background.unschedule(slot);
        }
    }
}

impl Drop for Held {
    /// Invariant 8: dropping the last guard releases in the background, never blocks, never panics.
    fn drop(&mut self) {
        self.end(LossReason::Released);
        self.give_back();
    }
}
