//! An attempt that runs: what its handles share, and what the keeper's thread tends.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper_core::idempotency::{Fingerprint, HowAbandoned, Strayed};
use lockkeeper_core::lock::{Fence, OwnerToken};
use lockkeeper_core::{Error, ErrorKind, Keys, Timestamp, Uptime};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::begin::Asked;
use super::builder::Terms;
use super::finish::FINISH_FOR;
use super::line::Line;
use crate::background::{Busy, Slot};
use crate::clock::sleep_until;
use crate::keeper::Inner;
use crate::lock::{Claimed, Confirmed, Doubt, GiveBack, Kind, LossReason, Tended};
use crate::telemetry::OnceClass;
use crate::telemetry::events::OfAttempt;

/// One claimed right to run.
pub(crate) struct HeldAttempt {
    pub(super) inner: Arc<Inner>,
    pub(super) keys: Keys,
    pub(super) token: OwnerToken,
    pub(super) fence: Fence,
    /// Which; the first is one.
    pub(super) number: u64,
    pub(super) takeover: bool,
    pub(super) terms: Terms,
    pub(super) class: OnceClass,
    pub(super) line: Arc<Line>,
    pub(super) fingerprint: Fingerprint,
    /// Until somebody has it: whoever closes the keeper waits for that.
    starting: Mutex<Option<Busy>>,
    /// When it was asked for.
    since: Uptime,
    /// Until then, by the server's clock, a second copy of the begin may arrive there.
    in_doubt_until: Option<Timestamp>,
    /// Microseconds of uptime. Only moves later.
    deadline: AtomicU64,
    confirmed: Confirmed,
    /// Why the last renewal failed, if it did.
    trouble: Mutex<Option<String>>,
    /// Empty while it runs. Set once, then those who wait for it are told.
    ended: OnceLock<LossReason>,
    has_ended: Notify,
    /// Somebody has said how it ends: from then on that is their concern.
    settled: AtomicBool,
    /// Where the background's timeline has it.
    slot: Mutex<Option<Slot>>,
}

/// What the store granted.
pub(super) struct Grant {
    pub(super) claimed: Claimed,
    pub(super) fence: Fence,
    pub(super) attempt: u64,
    pub(super) takeover: bool,
}

impl HeldAttempt {
    pub(super) fn new(asked: Asked<'_>, grant: Grant, busy: Busy) -> Arc<Self> {
        let Grant { claimed: Claimed { token, sent, term, in_doubt_until }, fence, attempt, takeover } =
            grant;
        let (once, terms) = (asked.once, asked.terms);
        once.inner.onces.began();
        once.class.running(1);
        let held = Arc::new(Self {
            inner: once.inner.clone(),
            keys: asked.keys.clone(),
            token,
            fence,
            number: attempt,
            takeover,
            terms,
            class: once.class,
            line: asked.line.clone(),
            fingerprint: asked.fingerprint,
            starting: Mutex::new(Some(busy)),
            since: sent,
            in_doubt_until,
            deadline: AtomicU64::new(terms.lease.deadline(sent).as_micros()),
            confirmed: Confirmed::new(term),
            trouble: Mutex::new(None),
            ended: OnceLock::new(),
            has_ended: Notify::new(),
            settled: AtomicBool::new(false),
            slot: Mutex::new(None),
        });
        held.class.claimed(held.of(), takeover);
        held.tend_next(sent);
        held
    }

    pub(super) fn is_valid(&self) -> bool {
        self.is_running() && self.inner.clock.uptime() < self.deadline()
    }

    /// Neither lost nor ended, as far as anybody noticed.
    pub(super) fn is_running(&self) -> bool {
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
        self.deadline.fetch_max(self.terms.lease.deadline(sent).as_micros(), Ordering::AcqRel);
    }

    /// When the bound on the total running time is reached. What has run, and is being recorded, has none.
    pub(super) fn hold_bound(&self) -> Uptime {
        self.terms
            .max_hold
            .filter(|_| !self.is_settled())
            .map_or(Uptime::MAX, |limit| self.since.after(limit))
    }

    /// When it is renewed next, if the lease was granted for a request sent at `sent`: a third of the lease later, up
    /// to a tenth earlier.
    pub(super) fn next_due(&self, sent: Uptime) -> Uptime {
        let third = (self.terms.lease.as_duration() / 3).mul_f64(rand::random_range(0.9..1.0));
        sent.after(third).min(self.hold_bound())
    }

    /// Ends it for whoever runs it; only the first reason counts. True if this was it. The server keeps the claim until it is
    /// dropped or its lease ends: whoever lost it may still be at work.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        let is_first = self.ended.set(reason).is_ok();
        if let Some(reason) = self.ended.get().filter(|_| is_first) {
            self.has_ended.notify_waiters();
            self.inner.onces.ended();
            self.class.running(-1);
            self.class.lost(self.of(), reason, self.ran_for());
            let slot = self.slot.lock().take();
            if let Some(slot) = slot {
                self.inner.background.unschedule(slot);
            }
        }
        is_first
    }

    /// It ended on purpose: nothing renews it any more (invariant 10).
    pub(super) fn end(&self) {
        self.lose(LossReason::Released);
    }

    /// Its deadline has passed.
    pub(super) fn lapse(&self) {
        let trouble = self.trouble.lock().clone();
        self.lose(trouble.map_or(LossReason::Expired, LossReason::NotRenewed));
    }

    /// The store says that it is not this attempt's any more.
    pub(super) fn stray(&self, strayed: &Strayed) {
        let runs = self.inner.clock.uptime() < self.deadline();
        let reason = match strayed {
            Strayed::TakenOver(holder) => LossReason::HeldByAnother(holder.clone()),
            Strayed::Gone if runs => LossReason::KeyGone,
            Strayed::Gone | Strayed::Lapsed => return self.lapse(),
            Strayed::Settled => return self.end(),
        };
        self.lose(if runs { self.confirmed.loss(self.term(), reason) } else { reason });
    }

    pub(super) fn set_trouble(&self, trouble: Option<String>) -> bool {
        std::mem::replace(&mut *self.trouble.lock(), trouble).is_some()
    }

    /// Puts it on the background's timeline, unless it has ended meanwhile.
    pub(super) fn tend_at(self: &Arc<Self>, due: Uptime) {
        let mut slot = self.slot.lock();
        if !self.is_running() {
            return;
        }
        if let Some(earlier) = slot.take() {
            self.inner.background.unschedule(earlier);
        }
        *slot = self.inner.background.schedule(due, Tended::Attempt(Arc::downgrade(self)));
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

    /// See [`Attempt::started`](super::Attempt::started).
    pub(super) fn started(&self) {
        *self.starting.lock() = None;
    }

    /// Takes over the care for its end: for exactly one caller it is true.
    pub(super) fn settle(&self) -> bool {
        !self.settled.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// A clone of the handle was quicker.
    pub(super) fn settled_already(&self, operation: &'static str) -> Error {
        Error::new(ErrorKind::Lost, operation, "the attempt has been ended already").with_key(&self.keys)
    }

    pub(super) fn ran_for(&self) -> Duration {
        self.inner.clock.uptime().since(self.since)
    }

    /// As events name it.
    pub(super) fn of(&self) -> OfAttempt<'_> {
        let Self { keys, token, fence, number, class, .. } = self;
        OfAttempt { once: class.name(), keys, token, fence: *fence, attempt: *number }
    }

    /// Its end was answered, and who waits is told. A second copy of the begin may come after it: what that claims is given back.
    pub(super) fn has_been_ended(&self, how: HowAbandoned) {
        self.line.ended();
        if self.in_doubt_until.is_some() {
            self.give_back(how);
        }
    }

    /// Has it abandoned in the background.
    pub(super) fn give_back(&self, how: HowAbandoned) {
        let (now, lease) = (self.inner.clock.uptime(), self.terms.lease.as_duration());
        let mut give_up = self.deadline().after(Duration::from_secs(1)).after(lease / 50);
        let doubt = self.in_doubt_until.map_or(Doubt::None, Doubt::Until);
        if doubt != Doubt::None {
            give_up = give_up.max(now.after(self.inner.response_timeout).after(lease));
        }
        if how == HowAbandoned::Undone {
            give_up = give_up.max(now.after(FINISH_FOR));
        }
        let kind = Kind::Once(self.line.clone(), how);
        self.inner.give_back(GiveBack::new(self.keys.clone(), self.token.clone(), doubt, give_up).of(kind));
    }
}

impl Drop for HeldAttempt {
    /// Invariant 8: dropping the last handle ends the attempt in the background, never blocks, never panics. Without a word
    /// about its end, it may have had its effect.
    fn drop(&mut self) {
        self.end();
        if self.settle() {
            // Work that was never polled had no effect.
            let has_begun = self.starting.get_mut().is_none();
            let how = if has_begun { HowAbandoned::Crashed } else { HowAbandoned::Undone };
            self.class.abandoned(self.of(), how, self.ran_for());
            self.give_back(how);
        }
    }
}
