//! Shedding load: when a server refuses much of what is sent, part of it is not sent.
//!
//! This is the adaptive throttling of Google's SRE book: of the calls in a window, the share that is shed is
//! `(requests − K × accepts) / (requests + 1)`, or nothing.
//!
//! A call is counted **when it is sent**, and what becomes of it is noted where it was counted, so slow calls do not
//! fall out of the account. Until its answer comes it passes for accepted, or every burst of a new client would look like
//! an outage. A call that is shed counts as a request that was not accepted, as in the book.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::bad_policy::{BadPolicy, within};

/// The window consists of so many buckets, and one more that is being filled: it is never shorter than stated.
const BUCKETS: u64 = 24;
const SLOTS: usize = BUCKETS as usize + 1;
const WINDOWS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_600);

/// When a client sheds load. Counted per origin.
#[derive(Clone, Debug)]
pub struct CircuitPolicy {
    window: Duration,
    ratio: f64,
    min_requests: u32,
    max_shed: f64,
}

impl Default for CircuitPolicy {
    fn default() -> Self {
        Self { window: Duration::from_secs(120), ratio: 2.0, min_requests: 10, max_shed: 0.9 }
    }
}

impl CircuitPolicy {
    /// How far back requests are counted: 1 s to 1 h, default 2 min. Longer than the slowest call, or its failure is
    /// not seen.
    #[must_use]
    pub fn window(self, window: Duration) -> Self {
        Self { window, ..self }
    }

    /// K, the requests that are sent for each accepted one: 1 to 100, default 2. With 2, nothing is shed while half of
    /// the requests are accepted.
    #[must_use]
    pub fn ratio(self, requests_per_accept: f64) -> Self {
        Self { ratio: requests_per_accept, ..self }
    }

    /// With fewer requests than this in the window nothing is shed: 1 to 1,000,000, default 10.
    #[must_use]
    pub fn min_requests(self, requests: u32) -> Self {
        Self { min_requests: requests, ..self }
    }

    /// The largest share that is shed: 0 to 1, default 0.9. One request in ten still goes out, so that everything is sent
    /// again two windows after the end of an outage. With 1, the formula alone decides: at 1,000 requests per second
    /// that takes 17 minutes (simulated).
    #[must_use]
    pub fn max_shed(self, share: f64) -> Self {
        Self { max_shed: share, ..self }
    }

    pub(crate) fn check(&self) -> Result<(), BadPolicy> {
        within("circuit window", self.window, WINDOWS)?;
        within("circuit ratio", self.ratio, 1.0..=100.0)?;
        within("circuit min requests", self.min_requests, 1..=1_000_000)?;
        within("circuit max shed", self.max_shed, 0.0..=1.0)
    }

    fn bucket(&self, uptime: Duration) -> u64 {
        let length = self.window.as_micros() / u128::from(BUCKETS);
        u64::try_from(uptime.as_micros() / length).unwrap_or(u64::MAX)
    }
}

/// The account of one origin.
#[derive(Debug, Default)]
pub(crate) struct Circuit {
    slots: [Bucket; SLOTS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    number: u64,
    requests: u64,
    /// Of these, the ones that were refused, failed or shed.
    not_accepted: u64,
}

/// Where a request was counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted(u64);

impl Circuit {
    /// How likely a request is to be shed at `uptime`.
    pub(crate) fn shed_share(&self, policy: &CircuitPolicy, uptime: Duration) -> f64 {
        let now = policy.bucket(uptime);
        let live = self.slots.iter().filter(|bucket| bucket.number + BUCKETS >= now && bucket.number <= now);
        let (requests, not_accepted) =
            live.fold((0, 0), |sum, bucket| (sum.0 + bucket.requests, sum.1 + bucket.not_accepted));
        if requests < u64::from(policy.min_requests) {
            return 0.0;
        }
        let (requests, accepts) = (requests as f64, requests.saturating_sub(not_accepted) as f64);
        ((requests - policy.ratio * accepts) / (requests + 1.0)).clamp(0.0, policy.max_shed)
    }

    /// A request is sent.
    pub(crate) fn sent(&mut self, policy: &CircuitPolicy, uptime: Duration) -> Counted {
        let number = policy.bucket(uptime);
        let slot = &mut self.slots[slot(number)];
        if slot.number < number {
            *slot = Bucket { number, ..Bucket::default() };
        }
        slot.requests += 1;
        Counted(number)
    }

    /// A request is shed.
    pub(crate) fn shed(&mut self, policy: &CircuitPolicy, uptime: Duration) {
        let counted = self.sent(policy, uptime);
        self.not_accepted(counted);
    }

    /// The request was refused, or failed.
    pub(crate) fn not_accepted(&mut self, counted: Counted) {
        if let Some(bucket) = self.live(counted) {
            bucket.not_accepted += 1;
        }
    }

    /// The caller went away before the answer: it says nothing.
    pub(crate) fn withdrawn(&mut self, counted: Counted) {
        if let Some(bucket) = self.live(counted) {
            bucket.requests = bucket.requests.saturating_sub(1);
        }
    }

    /// `None` once the slot serves a later bucket.
    fn live(&mut self, Counted(number): Counted) -> Option<&mut Bucket> {
        Some(&mut self.slots[slot(number)]).filter(|bucket| bucket.number == number)
    }
}

fn slot(number: u64) -> usize {
    (number % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Duration = Duration::from_secs(1_000);

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// So many requests, of which so many are refused at once.
    fn history(requests: u64, refused: u64) -> (Circuit, CircuitPolicy) {
        let (mut circuit, policy) = (Circuit::default(), CircuitPolicy::default());
        for number in 0..requests {
            let counted = circuit.sent(&policy, T0);
            if number < refused {
                circuit.not_accepted(counted);
            }
        }
        (circuit, policy)
    }

    #[test]
    fn what_is_shed_follows_the_formula() {
        for (requests, refused, share) in
            [(100, 0, 0.0), (100, 50, 0.0), (100, 75, 50.0 / 101.0), (100, 90, 80.0 / 101.0), (100, 100, 0.9)]
        {
            let (circuit, policy) = history(requests, refused);
            assert_eq!(circuit.shed_share(&policy, T0), share, "{refused} of {requests}");
        }
        let (circuit, policy) = history(100, 100);
        assert_eq!(circuit.shed_share(&policy.max_shed(1.0), T0), 100.0 / 101.0);
    }

    #[test]
    fn a_few_failures_shed_nothing() {
        let (circuit, policy) = history(9, 9);
        assert_eq!(circuit.shed_share(&policy, T0), 0.0);
        let (circuit, policy) = history(10, 10);
        assert!(circuit.shed_share(&policy, T0) > 0.8);
    }

    #[test]
    fn r169_a_request_counts_when_it_is_sent_and_is_judged_there() {
        let (mut circuit, policy) = (Circuit::default(), CircuitPolicy::default());
        let slow: Vec<Counted> = (0..20).map(|_| circuit.sent(&policy, T0)).collect();
        assert_eq!(circuit.slots[slot(200)].requests, 20, "counted before the answer");
        // 15 s later all of them have failed, which is within the window.
        slow.iter().for_each(|counted| circuit.not_accepted(*counted));
        assert!(circuit.shed_share(&policy, T0 + secs(15)) > 0.85);
        assert!(circuit.shed_share(&policy, T0 + secs(120)) > 0.85, "the window is no shorter than stated");
        assert_eq!(circuit.shed_share(&policy, T0 + secs(125)), 0.0, "they were sent before the window");
    }

    #[test]
    fn an_answer_after_the_window_changes_no_later_bucket() {
        let (mut circuit, policy) = (Circuit::default(), CircuitPolicy::default());
        let late = circuit.sent(&policy, T0);
        let same_slot = T0 + secs(5 * SLOTS as u64);
        circuit.sent(&policy, same_slot);
        circuit.not_accepted(late);
        circuit.withdrawn(late);
        let bucket = circuit.slots[slot(200)];
        assert_eq!((bucket.requests, bucket.not_accepted), (1, 0));
    }

    #[test]
    fn shed_requests_count_and_withdrawn_ones_do_not() {
        let (mut circuit, policy) = history(20, 10);
        assert_eq!(circuit.shed_share(&policy, T0), 0.0);
        (0..20).for_each(|_| circuit.shed(&policy, T0));
        assert_eq!(circuit.shed_share(&policy, T0), 20.0 / 41.0);
        let (mut circuit, policy) = history(10, 10);
        let counted = circuit.sent(&policy, T0);
        circuit.withdrawn(counted);
        assert_eq!(circuit.shed_share(&policy.max_shed(1.0), T0), 10.0 / 11.0);
    }
}
