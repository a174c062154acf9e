//! A held permit: what its handles share, and what the keeper's thread tends.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper_core::lock::{Durability, Lease, OwnerToken};
use lockkeeper_core::{Keys, Timestamp, Uptime};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::concurrency::Concurrency;
use super::line::Line;
use crate::background::Slot;
use crate::clock::sleep_until;
use crate::keeper::Inner;
use crate::lock::claim::Claimed;
use crate::lock::confirmed::Confirmed;
use crate::lock::give_back::{Doubt, Dropped, GiveBack, Kind};
use crate::lock::outcome::LossReason;
use crate::lock::tended::Tended;
use crate::telemetry::{Class, Reason};

/// One holder.
pub(crate) struct HeldPermit {
    pub(super) inner: Arc<Inner>,
    pub(super) keys: Keys,
    pub(super) token: OwnerToken,
    pub(super) lease: Lease,
    pub(super) durability: Durability,
    max_hold: Option<Duration>,
    pub(super) class: Class,
    /// When it was asked for.
    since: Uptime,
    /// Until then, by the server's clock, a second copy of the acquire may arrive there.
    in_doubt_until: Option<Timestamp>,
    /// Microseconds of uptime. Only moves later.
    deadline: AtomicU64,
    confirmed: Confirmed,
    /// Why the last renewal failed, if it did.
    trouble: Mutex<Option<String>>,
    /// Empty while held. Set once, then those who wait for it are told.
    ended: OnceLock<LossReason>,
    has_ended: Notify,
    /// The server may still keep it, and nobody has been asked to remove it.
    unreleased: AtomicBool,
    /// Where the background's timeline has it.
    slot: Mutex<Option<Slot>>,
    line: Arc<Line>,
}

impl HeldPermit {
    pub(super) fn new(wanted: &Concurrency, lease: Lease, claimed: Claimed, line: Arc<Line>) -> Arc<Self> {
        let Claimed { token, sent, term, in_doubt_until } = claimed;
        wanted.inner.permits.took();
        wanted.class.held(1);
        let held = Arc::new(Self {
            inner: wanted.inner.clone(),
            keys: wanted.keys.clone(),
            token,
            lease,
            durability: wanted.durability,
            max_hold: wanted.max_hold,
            class: wanted.class,
            since: sent,
            in_doubt_until,
            deadline: AtomicU64::new(lease.deadline(sent).as_micros()),
            confirmed: Confirmed::new(term),
            trouble: Mutex::new(None),
            ended: OnceLock::new(),
            has_ended: Notify::new(),
            unreleased: AtomicBool::new(true),
            slot: Mutex::new(None),
            line,
        });
        held.tend_next(sent);
        held
    }

    pub(super) fn is_valid(&self) -> bool {
        self.is_held() && self.inner.clock.uptime() < self.deadline()
    }

    /// Neither lost nor released, as far as anybody noticed.
    pub(super) fn is_held(&self) -> bool {
        self.ended.get().is_none()
    }

    /// Invariant 6: before this, by this process's own clock, nobody else can have been let in for it.
    pub(super) fn deadline(&self) -> Uptime {
        Uptime::from_micros(self.deadline.load(Ordering::Acquire))
    }

    /// The primary's number now.
    pub(super) fn term(&self) -> u64 {
        self.inner.backend.term(&self.keys)
    }

    /// Another server has become the primary since it was seen last.
    pub(crate) fn is_of_an_earlier_term(&self) -> bool {
        !self.confirmed.is_in(self.term())
    }

    /// The lease was granted again for a request sent at `sent`, in `term`.
    pub(super) fn prolong(&self, sent: Uptime, term: u64) {
        self.confirmed.again(term);
        self.deadline.fetch_max(self.lease.deadline(sent).as_micros(), Ordering::AcqRel);
    }

    /// When the bound on the total holding time is reached.
    pub(super) fn hold_bound(&self) -> Uptime {
        self.max_hold.map_or(Uptime::MAX, |limit| self.since.after(limit))
    }

    /// When it is renewed next, if the lease was granted for a request sent at `sent`: a third of the lease later, up
    /// to a tenth earlier.
    pub(super) fn next_due(&self, sent: Uptime) -> Uptime {
        let third = (self.lease.as_duration() / 3).mul_f64(rand::random_range(0.9..1.0));
        sent.after(third).min(self.hold_bound())
    }

    /// Ends it for its holder; only the first reason counts. True if this was it. The server keeps it until it is
    /// dropped or its lease ends: whoever lost it may still be at work.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        let is_first = self.end(reason);
        if let Some(reason) = self.ended.get().filter(|reason| is_first && !reason.is_wanted()) {
            tracing::warn!(key = %self.keys, client_id = %self.token.holder(), %reason, "a permit was lost");
        }
        is_first
    }

    pub(super) fn end(&self, reason: LossReason) -> bool {
        let is_first = self.ended.set(reason).is_ok();
        if let Some(reason) = self.ended.get().filter(|_| is_first) {
            self.has_ended.notify_waiters();
            self.inner.permits.lost();
            self.class.held(-1);
            self.class.lost(reason);
            let slot = self.slot.lock().take();
            if let Some(slot) = slot {
                self.inner.background.unschedule(slot);
            }
        }
        is_first
    }

    /// Its deadline has passed.
    pub(super) fn lapse(&self) {
        let trouble = self.trouble.lock().clone();
        self.lose(trouble.map_or(LossReason::Expired, LossReason::NotRenewed));
    }

    /// The server knows nothing of it.
    pub(super) fn lose_as_absent(&self) {
        if self.inner.clock.uptime() < self.deadline() {
            self.lose(self.confirmed.loss(self.term(), LossReason::KeyGone));
        } else {
            self.lapse();
        }
    }

    pub(super) fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock() = trouble;
    }

    /// Puts it on the background's timeline, unless it has ended meanwhile.
    pub(super) fn tend_at(self: &Arc<Self>, due: Uptime) {
        let mut slot = self.slot.lock();
        if !self.is_held() {
            return;
        }
        if let Some(earlier) = slot.take() {
            self.inner.background.unschedule(earlier);
        }
        *slot = self.inner.background.schedule(due, Tended::Permit(Arc::downgrade(self)));
        let is_closed = slot.is_none();
        drop(slot);
        if is_closed {
            self.lose(LossReason::KeeperClosed);
        }
    }

    /// The same for the next renewal, if the lease was granted for a request sent at `sent`; at once if another server
    /// has become the primary meanwhile.
    pub(super) fn tend_next(self: &Arc<Self>, sent: Uptime) {
        self.tend_at(self.confirmed.due(self.term(), self.next_due(sent)));
    }

    pub(super) fn reason(&self) -> Option<LossReason> {
        self.ended.get().cloned()
    }

    /// The reason, once there is one. It has a timer of its own, in case that the keeper's thread is not there to see
    /// the deadline pass.
    pub(super) async fn ended(&self) -> LossReason {
        loop {
            // Made before the look: whoever ends it wakes what was made before, polled or not.
            let told = self.has_ended.notified();
            if let Some(reason) = self.ended.get() {
                return reason.clone();
            }
            let clock = &*self.inner.clock;
            tokio::select! {
                () = told => {}
                () = sleep_until(clock, self.deadline()) => {
                    if clock.uptime() >= self.deadline() {
                        self.lapse();
                    }
                }
            }
        }
    }

    /// The server has answered a release.
    pub(super) fn was_released(&self) {
        self.unreleased.store(false, Ordering::Release);
        self.line.freed();
        if self.in_doubt_until.is_some() {
            // A second copy of the acquire may come after the release.
            self.hand_to_background(None);
        }
    }

    /// A release was answered, or failed.
    pub(super) fn report_release(&self, outcome: Reason) {
        self.class.released(outcome, self.held_for());
    }

    fn held_for(&self) -> Duration {
        self.inner.clock.uptime().since(self.since)
    }

    /// A release that nobody waits for; once.
    pub(super) fn give_back(&self) {
        self.give_back_of(None);
    }

    fn give_back_of(&self, dropped: Option<Dropped>) {
        if self.unreleased.swap(false, Ordering::AcqRel) {
            self.hand_to_background(dropped);
        }
    }

    fn hand_to_background(&self, dropped: Option<Dropped>) {
        let lease = self.lease.as_duration();
        let mut ends = self.deadline().after(Duration::from_secs(1)).after(lease / 50);
        let doubt = self.in_doubt_until.map_or(Doubt::None, Doubt::Until);
        if doubt != Doubt::None {
            ends = ends.max(self.inner.clock.uptime().after(self.inner.response_timeout).after(lease));
        }
        let what = GiveBack::new(self.keys.clone(), self.token.clone(), doubt, ends);
        self.inner.give_back(what.of(Kind::Permit(self.line.clone())).counted_for(dropped));
    }
}

impl Drop for HeldPermit {
    /// Invariant 8: dropping the last handle releases in the background, never blocks, never panics.
    fn drop(&mut self) {
        // What was released, or lost and released, has been counted.
        self.end(LossReason::Released);
        self.give_back_of(Some(Dropped { class: self.class, held_for: self.held_for() }));
    }
}
