//! What all buyers saw.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::click::Answer;
use super::crowd::Progress;
use super::report::{Latency, Report};

/// More reasons than this are counted as one: servers invent them.
const MAX_REASONS: usize = 64;
const OTHERS: &str = "others";
const NO_ANSWER: &str = "no-answer";
const LEFT: &str = "left-before-the-answer";

#[derive(Default)]
pub(super) struct Notes {
    finished: AtomicU32,
    requests: AtomicU64,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    answers: BTreeMap<String, u64>,
    ends: BTreeMap<String, u64>,
    latencies: Vec<Duration>,
    tickets: HashMap<u32, String>,
    contradictions: u64,
}

impl Notes {
    pub(super) fn answer(&self, buyer: u32, answer: &Answer, took: Duration) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut seen = self.seen.lock();
        let name = match answer {
            Answer::Bought { ticket, is_first } => {
                seen.ticket(buyer, ticket);
                if *is_first { "accepted" } else { "already-bought" }
            }
            Answer::NotNow { reason, .. } | Answer::Never { reason } => reason,
            Answer::None => NO_ANSWER,
        };
        count(&mut seen.answers, name);
        if *answer != Answer::None {
            seen.latencies.push(took);
        }
    }

    pub(super) fn left(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        count(&mut self.seen.lock().answers, LEFT);
    }

    pub(super) fn end(&self, how: &str) {
        count(&mut self.seen.lock().ends, how);
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn progress(&self, buyers: u32) -> Progress {
        let (finished, requests) =
            (self.finished.load(Ordering::Relaxed), self.requests.load(Ordering::Relaxed));
        Progress { buyers, finished, requests, tickets: self.seen.lock().tickets.len() as u64 }
    }

    /// Buyers who were still at it when the time was up are counted as `unfinished`.
    pub(super) fn report(&self, buyers: u32, took: Duration) -> Report {
        let mut seen = self.seen.lock();
        let requests = self.requests.load(Ordering::Relaxed);
        let unfinished = buyers.saturating_sub(self.finished.load(Ordering::Relaxed));
        if unfinished > 0 {
            *seen.ends.entry("unfinished".to_owned()).or_default() += u64::from(unfinished);
        }
        Report {
            buyers,
            seconds: took.as_secs_f64(),
            requests,
            answers_per_second: seen.latencies.len() as f64 / took.as_secs_f64().max(f64::EPSILON),
            answers: seen.answers.clone(),
            ends: seen.ends.clone(),
            tickets: seen.tickets.len() as u64,
            distinct_tickets: seen.tickets.values().collect::<std::collections::HashSet<_>>().len() as u64,
            contradictions: seen.contradictions,
            latency: Latency::of(&mut seen.latencies),
        }
    }
}

impl Seen {
    fn ticket(&mut self, buyer: u32, ticket: &str) {
        let first = self.tickets.entry(buyer).or_insert_with(|| ticket.to_owned());
        self.contradictions += u64::from(first != ticket);
    }
}

fn count(counts: &mut BTreeMap<String, u64>, name: &str) {
    let name = if counts.len() < MAX_REASONS || counts.contains_key(name) { name } else { OTHERS };
    match counts.get_mut(name) {
        Some(count) => *count += 1,
        None => drop(counts.insert(name.to_owned(), 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bought(ticket: &str) -> Answer {
        Answer::Bought { ticket: ticket.to_owned(), is_first: true }
    }

    #[test]
    fn two_tickets_for_one_buyer_and_one_for_two_are_noticed() {
        let notes = Notes::default();
        for (buyer, ticket) in [(1, "a"), (1, "a"), (1, "b"), (2, "a")] {
            notes.answer(buyer, &bought(ticket), Duration::ZERO);
        }
        let report = notes.report(2, Duration::from_secs(1));
        assert_eq!((report.tickets, report.distinct_tickets, report.contradictions), (2, 1, 1));
        assert_eq!((report.requests, report.ends["unfinished"]), (4, 2));
    }

    #[test]
    fn invented_reasons_do_not_grow_without_end() {
        let notes = Notes::default();
        (0..1000).for_each(|n| notes.end(&n.to_string()));
        let report = notes.report(1000, Duration::from_secs(1));
        assert_eq!(report.ends.len(), MAX_REASONS + 1);
        assert_eq!(report.ends.values().sum::<u64>(), 1000);
    }
}
