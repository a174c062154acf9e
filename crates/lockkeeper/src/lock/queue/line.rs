//! The state of one line: who waits, whose turn it is, and what the racer has to know.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::{Error, Uptime};

use super::place::Place;
use crate::lock::outcome::Busy;
use crate::lock::tenure::Tenure;

/// While others wait, a keeper passes the lock on among its own callers for this long.
pub(super) const TURN: Duration = Duration::from_millis(5);
/// Then it releases, and lets others try first for this long.
pub(super) const STAND_BACK: Duration = Duration::from_millis(2);
/// Who was given the lock and does not come for it for so long is passed over.
const CLAIM: Duration = Duration::from_millis(250);

#[derive(Default)]
pub(super) struct Line {
    places: VecDeque<Arc<Place>>,
    /// A racer runs.
    is_raced: bool,
    /// Taken out of the registry: another line may stand for the same keys.
    is_retired: bool,
    /// What this keeper has, if the line knows of it.
    tenure: Weak<Tenure>,
    /// Who was given it last, and until when they have to come for it.
    given: Option<(Weak<Place>, Uptime)>,
    /// Passed on since the racer last looked.
    was_passed: bool,
    /// Another keeper waits, as far as is known.
    others_wait: bool,
    turn_ends: Uptime,
    stands_back_until: Uptime,
    /// The release that ends the turn is under way; standing back begins when it is answered.
    is_yielding: bool,
    /// Who or what was in the way when it was last looked at.
    last: Option<Obstacle>,
    /// The racer sleeps until then.
    racer_wakes_at: Uptime,
}

/// Why it was not taken.
#[derive(Clone, Debug)]
pub(super) enum Obstacle {
    Busy(Busy),
    Trouble(Error),
}

/// What follows from joining.
pub(super) struct Joined {
    pub(super) starts_race: bool,
    pub(super) stirs: bool,
}

/// Who gets the tenure next.
pub(super) enum Next {
    Place {
        place: Arc<Place>,
        wakes_racer: bool,
    },
    Nobody,
    /// Another line may stand for the same keys.
    Retired,
}

/// What the racer sees.
pub(super) struct View {
    pub(super) front: Option<Arc<Place>>,
    pub(super) waiting: u32,
    /// This keeper has the lock, as far as is known.
    pub(super) is_ours: bool,
    pub(super) was_passed: bool,
    pub(super) others_wait: bool,
    pub(super) turn_ends: Uptime,
    pub(super) stands_back_until: Uptime,
    /// When the first patience ends, or somebody is passed over.
    pub(super) first_limit: Uptime,
    /// Somebody was given the lock and has not come for it yet.
    pub(super) is_unclaimed: bool,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_occupied(&self, now: impl Fn() -> Uptime) -> bool {
        !self.places.is_empty() || self.is_ours() || now() < self.stands_back_until
    }

    fn is_ours(&self) -> bool {
        self.tenure.upgrade().is_some_and(|tenure| !tenure.is_over())
    }

    pub(super) fn join(&mut self, place: Arc<Place>, seen: Option<Busy>, at_front: bool) -> Joined {
        let limit = place.until.unwrap_or(Uptime::MAX);
        if let Some(busy) = seen {
            self.last = Some(Obstacle::Busy(busy));
        }
        if at_front {
            self.places.push_front(place);
        } else {
            self.places.push_back(place);
        }
        let starts_race = !std::mem::replace(&mut self.is_raced, true);
        // A racer that lingers behind an empty line goes on; one that sleeps for too long is woken.
        Joined {
            starts_race,
            stirs: limit < self.racer_wakes_at || (self.places.len() == 1 && !self.is_ours()),
        }
    }

    pub(super) fn leave(&mut self, place: &Arc<Place>) {
        if let Some(at) = self.places.iter().position(|other| Arc::ptr_eq(other, place)) {
            self.places.remove(at);
        }
    }

    /// Who gets `tenure` from its last holder. When others wait and this keeper's turn is over: nobody here.
    pub(super) fn next_for(&mut self, tenure: &Arc<Tenure>, now: Uptime) -> Next {
        if self.is_retired {
            return Next::Retired;
        }
        if self.others_wait && now >= self.turn_ends && !self.places.is_empty() {
            self.others_wait = false;
            (self.is_yielding, self.stands_back_until) = (true, now.after(STAND_BACK));
            return Next::Nobody;
        }
        if self.has_later(tenure) {
            return Next::Nobody;
        }
        let Some(place) = self.take_front(now) else { return Next::Nobody };
        if !std::ptr::eq(self.tenure.as_ptr(), Arc::as_ptr(tenure)) {
            // Taken by somebody who did not wait; its turn begins with the first who did.
            self.tenure = Arc::downgrade(tenure);
            self.turn_ends = now.after(TURN);
        }
        let wakes_racer = !std::mem::replace(&mut self.was_passed, true);
        Next::Place { place, wakes_racer }
    }

    /// The server gave this keeper the lock again since: what it had before was gone, removed by somebody else, and is
    /// nobody's to pass on.
    fn has_later(&self, tenure: &Arc<Tenure>) -> bool {
        let later = |known: &Arc<Tenure>| !known.is_over() && known.sent() > tenure.sent();
        self.tenure.upgrade().is_some_and(|known| later(&known))
    }

    /// The one to be given the lock.
    pub(super) fn take_front(&mut self, now: Uptime) -> Option<Arc<Place>> {
        let place = self.places.pop_front()?;
        self.given = Some((Arc::downgrade(&place), now.after(CLAIM)));
        Some(place)
    }

    /// Who was given the lock and has not come for it yet, and until when they may.
    pub(super) fn unclaimed(&self) -> Option<(Arc<Place>, Uptime)> {
        let (place, until) = self.given.as_ref()?;
        Some((place.upgrade().filter(|place| place.is_unclaimed())?, *until))
    }

    /// Begins a turn; returns what this keeper had before.
    pub(super) fn start_turn(
        &mut self,
        tenure: &Arc<Tenure>,
        others_wait: bool,
        now: Uptime,
    ) -> Option<Arc<Tenure>> {
        let before = std::mem::replace(&mut self.tenure, Arc::downgrade(tenure));
        (self.others_wait, self.turn_ends) = (others_wait, now.after(TURN));
        self.last = None;
        before.upgrade()
    }

    /// A tenure was swapped for another one of this keeper: the turn goes on.
    pub(super) fn swapped(&mut self, tenure: &Arc<Tenure>) {
        self.tenure = Arc::downgrade(tenure);
    }

    pub(super) fn tenure_ended(&mut self, tenure: &Tenure, now: Uptime) {
        if std::ptr::eq(self.tenure.as_ptr(), tenure) {
            self.tenure = Weak::new();
        }
        if std::mem::take(&mut self.is_yielding) {
            self.stands_back_until = now.after(STAND_BACK);
        }
    }

    pub(super) fn set_others_wait(&mut self, others_wait: bool) {
        self.others_wait = others_wait;
    }

    pub(super) fn set_last(&mut self, last: Obstacle) {
        self.last = Some(last);
    }

    /// Who or what is in the way: this keeper's own holder, if there is one.
    pub(super) fn obstacle(&self, now: Uptime) -> Option<Obstacle> {
        let ours = self.tenure.upgrade().filter(|tenure| !tenure.is_over()).map(|tenure| {
            let (key, holder) = (tenure.keys.at(0).clone(), tenure.token.holder());
            Obstacle::Busy(Busy { key, holder, remaining: Some(tenure.deadline().since(now)) })
        });
        ours.or_else(|| self.last.clone())
    }

    /// Takes those out whose patience has ended.
    pub(super) fn take_late(&mut self, now: Uptime) -> Vec<Arc<Place>> {
        let is_late = |place: &Arc<Place>| place.until.is_some_and(|until| now >= until);
        if !self.places.iter().any(is_late) {
            return Vec::new();
        }
        let (late, left) = std::mem::take(&mut self.places).into_iter().partition(is_late);
        self.places = left;
        Vec::from(late)
    }

    /// What the racer has to know; it will sleep until `wakes_at` at most.
    pub(super) fn view(&mut self) -> View {
        // Whoever joins from here on wakes it.
        self.racer_wakes_at = Uptime::MAX;
        let limits = self.places.iter().filter_map(|place| place.until);
        let unclaimed = self.unclaimed().map(|(_, until)| until);
        View {
            front: self.places.front().cloned(),
            waiting: u32::try_from(self.places.len()).unwrap_or(u32::MAX),
            is_ours: self.is_ours(),
            was_passed: self.was_passed,
            others_wait: self.others_wait,
            turn_ends: self.turn_ends,
            stands_back_until: self.stands_back_until,
            first_limit: limits.chain(unclaimed).min().unwrap_or(Uptime::MAX),
            is_unclaimed: unclaimed.is_some(),
        }
    }

    pub(super) fn has_asked(&mut self) {
        self.was_passed = false;
    }

    pub(super) fn racer_sleeps_until(&mut self, at: Uptime) {
        self.racer_wakes_at = at;
    }

    /// Nobody waits: it may be taken away.
    pub(super) fn retire(&mut self) -> bool {
        if self.places.is_empty() {
            (self.is_retired, self.is_raced) = (true, false);
        }
        self.is_retired
    }

    pub(super) fn abandon(&mut self, for_good: bool) -> Vec<Arc<Place>> {
        if for_good {
            (self.is_retired, self.is_raced) = (true, false);
        }
        Vec::from(std::mem::take(&mut self.places))
    }
}
