//! What a client knows of each server it talks to: until when that wants to be left alone, and how it fares.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::circuit::{Circuit, CircuitPolicy, Counted};
use super::message::Origin;

/// The origins seen last; bounded.
#[derive(Debug)]
pub(crate) struct Origins {
    places: Mutex<HashMap<Origin, Arc<Place>>>,
    max: usize,
    circuit: Option<CircuitPolicy>,
    started: Instant,
}

/// One origin.
#[derive(Debug)]
pub(crate) struct Place {
    state: Mutex<State>,
    circuit: Option<CircuitPolicy>,
    started: Instant,
}

#[derive(Debug)]
struct State {
    hold: Option<Hold>,
    circuit: Circuit,
    used: Instant,
}

/// The origin wants no requests before `until`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) until: Instant,
    /// How long that was when it was told; what jitter is measured by.
    pub(crate) told: Duration,
}

/// What happens to a request that is ready to go.
pub(crate) enum Departure {
    Sent(Sent),
    HeldBack,
    Shed,
}

impl Origins {
    pub(crate) fn new(max: usize, circuit: Option<CircuitPolicy>, now: Instant) -> Self {
        Self { places: Mutex::default(), max, circuit, started: now }
    }

    pub(crate) fn place(&self, origin: Origin, now: Instant) -> Arc<Place> {
        let mut places = self.places.lock();
        if let Some(place) = places.get(&origin) {
            place.state.lock().used = now;
            return place.clone();
        }
        if places.len() >= self.max {
            forget_one(&mut places, now);
        }
        let state = State { hold: None, circuit: Circuit::default(), used: now };
        let place = Place { state: Mutex::new(state), circuit: self.circuit.clone(), started: self.started };
        places.entry(origin).or_insert(Arc::new(place)).clone()
    }
}

/// Rather one that holds nothing back; of these the one that was used longest ago.
fn forget_one(places: &mut HashMap<Origin, Arc<Place>>, now: Instant) {
    let rank = |place: &Place| {
        let state = place.state.lock();
        (state.hold_at(now).map(|hold| hold.until), state.used)
    };
    if let Some(least) = places.iter().min_by_key(|(_, place)| rank(place)).map(|(origin, _)| origin.clone())
    {
        places.remove(&least);
    }
}

impl State {
    fn hold_at(&self, now: Instant) -> Option<Hold> {
        self.hold.filter(|hold| hold.until > now)
    }
}

impl Place {
    /// The origin said when to come back; an earlier word that is later stays.
    pub(crate) fn hold(&self, told: Duration, now: Instant) {
        let (mut state, until) = (self.state.lock(), now + told);
        if state.hold.is_none_or(|hold| hold.until < until) {
            state.hold = Some(Hold { until, told });
        }
    }

    pub(crate) fn hold_at(&self, now: Instant) -> Option<Hold> {
        self.state.lock().hold_at(now)
    }

    /// Sends, unless it must not be; the lot is from 0 to 1, and `None` when it was drawn before.
    pub(crate) fn depart(self: &Arc<Self>, now: Instant, lot: Option<f64>) -> Departure {
        let mut state = self.state.lock();
        if state.hold_at(now).is_some() {
            return Departure::HeldBack;
        }
        if lot.is_some_and(|lot| self.shed_in(&mut state, now, lot)) {
            return Departure::Shed;
        }
        let counted = self.circuit.as_ref().map(|policy| state.circuit.sent(policy, self.uptime(now)));
        Departure::Sent(Sent { place: self.clone(), counted })
    }

    /// Whether a retry is shed.
    pub(crate) fn sheds(&self, now: Instant, lot: f64) -> bool {
        self.shed_in(&mut self.state.lock(), now, lot)
    }

    fn shed_in(&self, state: &mut State, now: Instant, lot: f64) -> bool {
        let (Some(policy), uptime) = (&self.circuit, self.uptime(now)) else { return false };
        let shed = lot < state.circuit.shed_share(policy, uptime);
        if shed {
            state.circuit.shed(policy, uptime);
        }
        shed
    }

    fn uptime(&self, now: Instant) -> Duration {
        now.duration_since(self.started)
    }
}

/// A request under way. Dropped without a verdict, it says nothing about the server.
#[must_use]
pub(crate) struct Sent {
    place: Arc<Place>,
    counted: Option<Counted>,
}

impl Sent {
    pub(crate) fn judge(mut self, accepted: bool) {
        if let Some(counted) = self.counted.take()
            && !accepted
        {
            self.place.state.lock().circuit.not_accepted(counted);
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Some(counted) = self.counted.take() {
            self.place.state.lock().circuit.withdrawn(counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(number: u64) -> Origin {
        Origin::new("http", &format!("host{number}"), None)
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_hold_ends_when_told_and_is_never_shortened() {
        let (start, origins) = (Instant::now(), Origins::new(4, None, Instant::now()));
        let place = origins.place(origin(1), start);
        place.hold(secs(10), start);
        place.hold(secs(5), start + secs(1));
        assert_eq!(place.hold_at(start + secs(9)).unwrap().until, start + secs(10));
        assert!(place.hold_at(start + secs(10)).is_none());
        assert!(matches!(place.depart(start + secs(9), None), Departure::HeldBack));
        assert!(origins.place(origin(2), start).hold_at(start).is_none(), "another origin is not held back");
    }

    #[test]
    fn the_number_of_origins_is_bounded_and_holds_are_forgotten_last() {
        let (start, origins) = (Instant::now(), Origins::new(3, None, Instant::now()));
        origins.place(origin(0), start).hold(secs(3_000), start);
        for number in 1..1_000 {
            origins.place(origin(number), start + secs(number));
        }
        let now = start + secs(1_000);
        assert_eq!(origins.places.lock().len(), 3);
        assert!(origins.place(origin(0), now).hold_at(now).is_some());
        assert!(origins.places.lock().contains_key(&origin(999)), "the last one used stays");
    }

    #[test]
    fn where_all_hold_back_the_hold_that_ends_first_is_forgotten() {
        let (start, origins) = (Instant::now(), Origins::new(2, None, Instant::now()));
        origins.place(origin(1), start).hold(secs(50), start);
        origins.place(origin(2), start).hold(secs(20), start);
        origins.place(origin(3), start);
        assert!(origins.place(origin(1), start).hold_at(start).is_some());
    }
}
