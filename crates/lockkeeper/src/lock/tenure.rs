//! A tenure: what this keeper has on the server. It goes from holder to holder inside the process without a round
//! trip; what shows on the server is the keeper, which is the truth about who holds.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::lock::{Durability, Fence, Holder, Lease, OwnerToken};
use lockkeeper_core::{Keys, Timestamp, Uptime};
use parking_lot::Mutex;

use super::builder::Lock;
use super::confirmed::Confirmed;
use super::give_back::{Doubt, Dropped, GiveBack};
use super::held::Held;
use super::outcome::LossReason;
use super::queue::{PassedOn, Queue};
use super::tended::Tended;
use crate::background::Slot;
use crate::keeper::Inner;

/// One token on the server. The token is its generation: nothing of an earlier or later one can be mistaken for it.
pub(crate) struct Tenure {
    pub(crate) inner: Arc<Inner>,
    pub(crate) keys: Keys,
    pub(crate) token: OwnerToken,
    pub(crate) lease: Lease,
    /// What every step of it has to reach.
    pub(crate) durability: Durability,
    /// When it was asked for.
    pub(super) sent: Uptime,
    /// Until then, by the server's clock, a second copy of the acquire may arrive there.
    in_doubt_until: Option<Timestamp>,
    /// Microseconds of uptime. Only moves later.
    deadline: AtomicU64,
    confirmed: Confirmed,
    /// The server may have been restarted since it was seen last.
    doubted: AtomicBool,
    pub(crate) renewals: AtomicU32,
    /// Why the last renewal failed, if it did.
    trouble: Mutex<Option<String>>,
    /// The server may still keep the key for it, and nobody has been asked to remove it.
    unreleased: AtomicBool,
    /// Those who wait were told of its end.
    has_told: AtomicBool,
    /// The lease may run for longer than the next holder asked for.
    pub(super) is_stretched: AtomicBool,
    /// What people see beside host and process, if it is not the keeper's.
    label: Option<Arc<str>>,
    seat: Mutex<Seat>,
    /// How many fences were reserved.
    block: u32,
    /// Where the background's timeline has it.
    slot: Mutex<Option<Slot>>,
    /// Those of this keeper who wait for it, once known.
    queue: Mutex<Option<Arc<Queue>>>,
}

/// Who holds now, and which fences are left for the next.
struct Seat {
    holder: Weak<Held>,
    next: u64,
    last: u64,
    /// Somebody sat here.
    taken: bool,
    /// Lost, released, or about to be released: nobody may sit down any more.
    over: bool,
    /// The token is known outside: whoever has it may release, so it serves one holder only.
    shown: bool,
}

/// What a grant says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    /// The first fence.
    pub(super) fence: Fence,
    /// How many numbers were reserved.
    pub(super) block: u32,
    /// When it was asked for.
    pub(super) sent: Uptime,
    /// In which term.
    pub(super) term: u64,
    pub(super) in_doubt_until: Option<Timestamp>,
}

impl Tenure {
    pub(super) fn new(lock: &Lock, token: OwnerToken, lease: Lease, grant: Grant) -> Arc<Self> {
        let first = grant.fence.get();
        // Where there are no fences, everybody in turn gets none.
        let reserved = if grant.fence.is_none() { 0 } else { u64::from(grant.block.max(1)) - 1 };
        let last = first + reserved;
        lock.inner.saw_fence(Fence::new(last));
        Arc::new(Self {
            inner: lock.inner.clone(),
            keys: lock.keys.clone(),
            token,
            lease,
            durability: lock.durability,
            sent: grant.sent,
            in_doubt_until: grant.in_doubt_until,
            deadline: AtomicU64::new(lease.deadline(grant.sent).as_micros()),
            confirmed: Confirmed::new(grant.term),
            doubted: AtomicBool::new(false),
            renewals: AtomicU32::new(0),
            trouble: Mutex::new(None),
            unreleased: AtomicBool::new(true),
            has_told: AtomicBool::new(false),
            is_stretched: AtomicBool::new(false),
            label: lock.label.clone(),
            block: grant.block,
            seat: Mutex::new(Seat {
                holder: Weak::new(),
                next: first,
                last,
                taken: false,
                over: false,
                shown: lock.token.is_some(),
            }),
            slot: Mutex::new(None),
            queue: Mutex::new(None),
        })
    }

    /// Its first holder, whom it was taken for.
    pub(super) fn first_holder(self: &Arc<Self>, lock: &Lock) -> Option<Arc<Held>> {
        let held = self.seated(lock, self.sent)?;
        self.tend_at(self.confirmed.due(self.term(), held.next_due(self.sent)));
        Some(held)
    }

    /// Seats a holder under the next fence of the block. `None`: it is over, or no fence is left.
    fn seated(self: &Arc<Self>, lock: &Lock, since: Uptime) -> Option<Arc<Held>> {
        let mut seat = self.seat.lock();
        if seat.over || seat.next > seat.last {
            return None;
        }
        // One that was shown is for its first holder alone.
        if seat.shown && seat.taken {
            return None;
        }
        let held = Held::new(self.clone(), Fence::new(seat.next), lock, since);
        seat.taken = true;
        if !held.fence.is_none() {
            seat.next += 1;
        }
        seat.holder = Arc::downgrade(&held);
        drop(seat);
        lock.class.held(1);
        Some(held)
    }

    /// Seats one who waited, if the tenure is as good to them as one of their own. `None`: it has to be swapped.
    pub(super) fn seat_next(self: &Arc<Self>, lock: &Lock, lease: Lease, now: Uptime) -> Option<Arc<Held>> {
        if !self.suits(lock, lease, now) {
            return None;
        }
        let held = self.seated(lock, now)?;
        // Nobody may have tended it so far, or the one before may not have renewed it; and a bound on holding may
        // come before the next renewal.
        let latest = held.latest_due();
        if self.is_tended_after(latest) {
            self.tend_at(latest.max(now));
        }
        Some(held)
    }

    /// The same lease, renewed, half of it left, as durable, under the same label, with no token of the caller's own,
    /// and known to the server that is the primary now.
    fn suits(&self, lock: &Lock, lease: Lease, now: Uptime) -> bool {
        let is_renewed = lock.terms.renew && self.has_been_renewed_well();
        let is_plain = lock.token.is_none() && lock.label == self.label;
        let is_alike = lease == self.lease && lock.durability == self.durability;
        let is_long = self.deadline().since(now) >= lease.as_duration() / 2;
        is_renewed && is_plain && is_alike && is_long && !self.is_of_an_earlier_term()
    }

    fn has_been_renewed_well(&self) -> bool {
        !self.is_stretched.load(Ordering::Acquire) && self.trouble.lock().is_none()
    }

    /// It may be passed on: nobody outside knows its token, it is not over, and its lease runs.
    pub(super) fn can_be_passed(&self, now: Uptime) -> bool {
        let seat = self.seat.lock();
        !seat.shown && !seat.over && now < self.deadline()
    }

    /// The token goes outside, if `held` is the last who sat here. Else it is somebody else's secret.
    pub(super) fn show_to(&self, held: &Held) -> bool {
        let mut seat = self.seat.lock();
        let is_theirs = std::ptr::eq(seat.holder.as_ptr(), held);
        seat.shown |= is_theirs;
        is_theirs
    }

    /// Who holds it now.
    pub(crate) fn holder(&self) -> Option<Arc<Held>> {
        self.seat.lock().holder.upgrade()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.seat.lock().over
    }

    /// Invariant 6: before this, by this process's own clock, nobody else can have been let in.
    pub(crate) fn deadline(&self) -> Uptime {
        Uptime::from_micros(self.deadline.load(Ordering::Acquire))
    }

    /// The primary's number now.
    pub(crate) fn term(&self) -> u64 {
        self.inner.backend.term(&self.keys)
    }

    /// It was seen on the primary of `term`.
    pub(crate) fn confirm(&self, term: u64) {
        self.confirmed.again(term);
    }

    /// Another server has become the primary since it was seen last.
    pub(crate) fn is_of_an_earlier_term(&self) -> bool {
        !self.confirmed.is_in(self.term())
    }

    /// The server may have been restarted, and not know it.
    pub(crate) fn doubt(&self) {
        self.doubted.store(true, Ordering::Release);
    }

    /// Whoever asks the server begins with this, so that what comes meanwhile counts.
    pub(crate) fn trust(&self) {
        self.doubted.store(false, Ordering::Release);
    }

    /// It is not known whether the server that is the primary now knows it.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubted.load(Ordering::Acquire) || self.is_of_an_earlier_term()
    }

    /// A lease of `lease` was granted for a request sent at `sent`, in `term`.
    pub(crate) fn prolong(&self, lease: Lease, sent: Uptime, term: u64) {
        self.confirm(term);
        self.deadline.fetch_max(lease.deadline(sent).as_micros(), Ordering::AcqRel);
    }

    /// Ends it for whoever holds it; who waits goes back to the race. True if somebody held it until now.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        self.close();
        self.holder().is_some_and(|held| held.end(reason))
    }

    /// Nobody holds the key any more.
    pub(crate) fn lose_as_absent(&self) {
        if self.inner.clock.uptime() < self.deadline() {
            self.lose(self.confirmed.loss(self.term(), LossReason::KeyGone));
        } else {
            self.lapse();
        }
    }

    /// Somebody else holds the key.
    pub(crate) fn lose_to(&self, other: Holder) {
        let reason = LossReason::HeldByAnother(other);
        let has_lapsed = self.inner.clock.uptime() >= self.deadline();
        self.lose(if has_lapsed { reason } else { self.confirmed.loss(self.term(), reason) });
    }

    /// Its deadline has passed.
    pub(crate) fn lapse(&self) {
        let trouble = self.trouble.lock().clone();
        let is_used_up = self.holder().is_some_and(|held| held.terms.renew && !held.may_renew());
        self.lose(match trouble {
            Some(error) => LossReason::NotRenewed(error),
            None if is_used_up => LossReason::MaxRenewals,
            None => LossReason::Expired,
        });
    }

    /// It is over, and those who wait are told.
    pub(super) fn close(&self) {
        self.retire();
        if self.has_told.swap(true, Ordering::AcqRel) {
            return;
        }
        let known = self.queue.lock().take();
        // A line that was never passed it may have come to stand for it.
        let find = || if self.inner.queues.is_empty() { None } else { self.inner.queues.find(&self.keys) };
        if let Some(queue) = known.or_else(find) {
            queue.tenure_ended(self);
        }
    }

    /// Nobody may sit down any more; nothing is tended.
    pub(super) fn retire(&self) {
        let was_over = std::mem::replace(&mut self.seat.lock().over, true);
        let slot = if was_over { None } else { self.slot.lock().take() };
        if let Some(slot) = slot {
            self.inner.background.unschedule(slot);
        }
    }

    /// It was swapped for `next`: nothing is left of it on the server, and who waits now waits for the other.
    pub(super) fn was_swapped(&self, next: &Arc<Self>) {
        self.was_released();
        self.retire();
        self.has_told.store(true, Ordering::Release);
        let queue = self.queue.lock().take();
        if let Some(queue) = queue {
            queue.swapped(next);
        }
    }

    /// When it was asked for.
    pub(super) fn sent(&self) -> Uptime {
        self.sent
    }

    /// Until then a second copy of its acquire may arrive.
    pub(super) fn in_doubt_until(&self) -> Option<Timestamp> {
        self.in_doubt_until
    }

    /// Somebody outside has the token, and the care for it. Its lease runs on.
    pub(super) fn let_go(&self) {
        self.unreleased.store(false, Ordering::Release);
        self.close();
    }

    /// How many fences were reserved.
    pub(super) fn block(&self) -> u32 {
        self.block
    }

    /// Gives it to whoever waits longest in this process; true if somebody has it now.
    pub(super) fn pass_on(self: &Arc<Self>, now: Uptime) -> bool {
        if self.inner.queues.is_empty() {
            return false;
        }
        let known = self.queue.lock().clone();
        match known.map(|queue| queue.pass_on(self, now)) {
            Some(PassedOn::To) => true,
            Some(PassedOn::Nobody) => false,
            // It came from no line, or that one is gone; another one may stand for the same keys.
            None | Some(PassedOn::Retired) => {
                let found = self.inner.queues.find(&self.keys);
                found.is_some_and(|queue| queue.pass_on(self, now) == PassedOn::To)
            }
        }
    }

    /// Whom to tell when it ends.
    pub(super) fn belongs_to(&self, queue: &Arc<Queue>) {
        let mut known = self.queue.lock();
        if !known.as_ref().is_some_and(|known| Arc::ptr_eq(known, queue)) {
            *known = Some(queue.clone());
        }
    }

    /// Notes how the last renewal went; true if the one before it had failed.
    pub(crate) fn set_trouble(&self, trouble: Option<String>) -> bool {
        std::mem::replace(&mut *self.trouble.lock(), trouble).is_some()
    }

    /// Puts it on the background's timeline, unless it has ended meanwhile.
    pub(crate) fn tend_at(self: &Arc<Self>, due: Uptime) {
        self.tend_when(|| due);
    }

    /// The same for whoever holds it by now, if the lease was granted for a request sent at `sent`. On its way from one
    /// holder to the next it is looked at soon: somebody may sit down at any moment.
    pub(crate) fn tend_next(self: &Arc<Self>, sent: Uptime) {
        self.tend_when(|| match self.holder().filter(|held| held.is_held()) {
            Some(held) => self.confirmed.due(self.term(), held.next_due(sent)),
            None => sent.after(self.lease.as_duration() / 20).min(self.deadline()),
        });
    }

    /// Asks when while the place on the timeline is locked, so that nobody sits down between the two.
    fn tend_when(self: &Arc<Self>, due: impl FnOnce() -> Uptime) {
        let mut slot = self.slot.lock();
        if self.is_over() {
            return;
        }
        let due = due();
        if let Some(earlier) = slot.take() {
            self.inner.background.unschedule(earlier);
        }
        *slot = self.inner.background.schedule(due, Tended::Lock(Arc::downgrade(self)));
        let is_closed = slot.is_none();
        drop(slot);
        if is_closed {
            self.lose(LossReason::KeeperClosed);
        }
    }

    fn is_tended_after(&self, moment: Uptime) -> bool {
        self.slot.lock().is_none_or(|slot| slot.due() > moment)
    }

    /// The server has answered a release, or somebody else has the key by our own doing: nothing is left to do.
    pub(super) fn was_released(&self) {
        self.unreleased.store(false, Ordering::Release);
        if self.in_doubt_until.is_some() {
            // A second copy of the acquire may come after the release.
            self.hand_to_background(None);
        }
    }

    /// A release that nobody waits for; once.
    pub(super) fn give_back(&self) {
        self.give_back_of(None);
    }

    /// The same for a holder that went away.
    pub(super) fn give_back_of(&self, dropped: Option<Dropped>) {
        self.close();
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
        self.inner.give_back(what.counted_for(dropped));
    }
}

impl Drop for Tenure {
    /// A grant that nobody sat down on.
    fn drop(&mut self) {
        self.give_back();
    }
}
