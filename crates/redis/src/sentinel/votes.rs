//! Weighing what the Sentinels say.
//!
//! The answer with the highest configuration epoch wins at once: an epoch grows with every failover, and a majority of
//! Sentinels has agreed to it. Whoever says something else with the same epoch or an earlier one was cut off, or the
//! epochs were reset: that counts only if more than half of all Sentinels, and all that can be heard, say it for a while.
//! One that invents an epoch leads to a server that is no primary, or that nobody reaches: then the others need not wait
//! for it to agree.

use std::time::{Duration, Instant};

use lockkeeper_core::ErrorKind;

use super::Primary;
use crate::error::Failure;
use crate::url::Address;

/// While fewer than half of all Sentinels have answered, the first answer waits so long for others.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// So long must they agree on a primary whose epoch is no later.
const AGREED_FOR: Duration = Duration::from_secs(5);

/// What one Sentinel says.
#[derive(Clone, Debug)]
pub(super) enum Say {
    /// It has not been asked yet.
    Pending,
    /// This is the primary.
    Primary { at: Address, epoch: u64 },
    /// It watches no such service.
    NoService,
    /// It cannot be asked.
    Silent(Failure),
}

/// What they said last, each one.
pub(super) struct Votes {
    says: Vec<Say>,
    chosen: Option<Chosen>,
    first_heard: Option<Instant>,
    /// Another primary that is agreed upon, and since when.
    rival: Option<(Address, Instant)>,
    /// A primary that nobody reached while most named another: counts again when most name it.
    disbelieved: Option<Address>,
}

struct Chosen {
    primary: Primary,
    epoch: u64,
    /// It said that it is the primary before a Sentinel did, so its epoch is not known yet.
    is_early: bool,
    /// The last attempt to connect to it succeeded.
    is_confirmed: bool,
}

impl Votes {
    pub(super) fn new(count: usize) -> Self {
        Self {
            says: vec![Say::Pending; count],
            chosen: None,
            first_heard: None,
            rival: None,
            disbelieved: None,
        }
    }

    pub(super) fn hear(&mut self, from: usize, say: Say) {
        if let Some(place) = self.says.get_mut(from) {
            *place = say;
        }
    }

    pub(super) fn confirm(&mut self, term: u64) {
        self.mark(term, true);
    }

    pub(super) fn doubt(&mut self, term: u64) {
        self.mark(term, false);
    }

    fn mark(&mut self, term: u64, is_confirmed: bool) {
        if let Some(chosen) = self.chosen.as_mut().filter(|chosen| chosen.primary.term == term) {
            chosen.is_confirmed = is_confirmed;
        }
    }

    /// The primary, if it is another one than before.
    pub(super) fn decide(&mut self, now: Instant) -> Option<Primary> {
        let (at, epoch) = self.latest()?;
        self.first_heard.get_or_insert(now);
        match &self.chosen {
            None => self.may_begin(now).then(|| self.choose(at, epoch)),
            Some(chosen) if epoch > chosen.epoch && chosen.is_early && at == chosen.primary.at => {
                self.learn(epoch);
                None
            }
            Some(chosen) if epoch > chosen.epoch => Some(self.choose(at, epoch)),
            Some(_) => {
                let (at, epoch) = self.agreed_otherwise(now)?;
                self.disbelieved = self.chosen.as_ref().map(|chosen| chosen.primary.at.clone());
                Some(self.choose(at, epoch))
            }
        }
    }

    /// Why no primary is known, once all have been asked.
    pub(super) fn trouble(&self, service: &str) -> Option<Failure> {
        let (mut unknown, mut silent) = (0, None);
        for say in &self.says {
            match say {
                Say::Pending | Say::Primary { .. } => return None,
                Say::NoService => unknown += 1,
                Say::Silent(failure) => silent = pick(silent, failure),
            }
        }
        if unknown > 0 {
            let detail = format!(
                "no Sentinel that answers watches a service `{service}` ({unknown} of {})",
                self.says.len()
            );
            // One that cannot be heard may know it.
            let kind = if silent.is_some() { ErrorKind::Unreachable } else { ErrorKind::BadArgument };
            return Some(Failure { kind, detail });
        }
        silent.map(|failure| Failure {
            detail: format!("no Sentinel can be asked: {}", failure.detail),
            ..failure.clone()
        })
    }

    /// A Sentinel has asked this server to become the primary, and it says that it is.
    pub(super) fn promoted(&mut self, at: Address) -> Option<Primary> {
        let epoch = self.chosen.as_ref().filter(|chosen| chosen.primary.at != at)?.epoch;
        let primary = self.choose(at, epoch);
        if let Some(chosen) = &mut self.chosen {
            chosen.is_early = true;
        }
        Some(primary)
    }

    /// What the Sentinels say by now about a primary that was early.
    fn learn(&mut self, epoch: u64) {
        if let Some(chosen) = &mut self.chosen {
            (chosen.epoch, chosen.is_early) = (epoch, false);
        }
        self.rival = None;
    }

    fn choose(&mut self, at: Address, epoch: u64) -> Primary {
        let term = self.chosen.as_ref().map_or(0, |chosen| chosen.primary.term) + 1;
        let primary = Primary { at, term };
        self.chosen = Some(Chosen { primary: primary.clone(), epoch, is_early: false, is_confirmed: false });
        self.rival = None;
        primary
    }

    /// More than half have answered, or nobody is left to be waited for, or it was waited long enough.
    fn may_begin(&self, now: Instant) -> bool {
        let is_over = self.first_heard.is_some_and(|first| now.duration_since(first) >= FIRST_WAIT);
        let is_pending = self.says.iter().any(|say| matches!(say, Say::Pending));
        self.is_majority(self.named().count()) || !is_pending || is_over
    }

    /// The primary that has been agreed upon for long enough, if it is another than the chosen one.
    fn agreed_otherwise(&mut self, now: Instant) -> Option<(Address, u64)> {
        let Some((at, epoch)) = self.rival() else {
            self.rival = None;
            return None;
        };
        match &self.rival {
            Some((before, since)) if *before == at => {
                (now.duration_since(*since) >= AGREED_FOR).then_some((at, epoch))
            }
            _ => {
                self.rival = Some((at, now));
                None
            }
        }
    }

    /// Another primary than the chosen one, named by enough Sentinels.
    fn rival(&self) -> Option<(Address, u64)> {
        let chosen = self.chosen.as_ref()?;
        let others = || self.named().filter(|(at, _)| **at != chosen.primary.at);
        let (at, epoch) = others().max_by_key(|(at, epoch)| (self.votes_for(at), *epoch))?;
        let (votes, audible) = (self.votes_for(at), self.named().count());
        let is_enough = self.is_majority(votes) && (votes == audible || !chosen.is_confirmed);
        is_enough.then(|| (at.clone(), epoch))
    }

    /// The answer with the highest epoch; of several, the one that most give.
    fn latest(&self) -> Option<(Address, u64)> {
        let is_believed =
            |at: &Address| self.disbelieved.as_ref() != Some(at) || self.is_majority(self.votes_for(at));
        let latest = self
            .named()
            .filter(|(at, _)| is_believed(at))
            .max_by_key(|(at, epoch)| (*epoch, self.votes_for(at)));
        latest.map(|(at, epoch)| (at.clone(), epoch))
    }

    fn named(&self) -> impl Iterator<Item = (&Address, u64)> {
        self.says.iter().filter_map(|say| match say {
            Say::Primary { at, epoch } => Some((at, *epoch)),
            _ => None,
        })
    }

    fn votes_for(&self, at: &Address) -> usize {
        self.named().filter(|(named, _)| *named == at).count()
    }

    fn is_majority(&self, count: usize) -> bool {
        count * 2 > self.says.len()
    }
}

/// Of two failures the one that somebody has to do something about.
fn pick<'a>(before: Option<&'a Failure>, next: &'a Failure) -> Option<&'a Failure> {
    match before {
        Some(before) if !before.may_pass() || next.may_pass() => Some(before),
        _ => Some(next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Address {
        Address::Tcp { host: "h".to_owned(), port, tls: false }
    }

    fn says(port: u16, epoch: u64) -> Say {
        Say::Primary { at: at(port), epoch }
    }

    fn silent() -> Say {
        Say::Silent(Failure::unreachable("gone"))
    }

    /// Three Sentinels that agree on server 1 at epoch 1, confirmed.
    fn agreed(now: Instant) -> Votes {
        let mut votes = Votes::new(3);
        (0..3).for_each(|from| votes.hear(from, says(1, 1)));
        assert_eq!(votes.decide(now), Some(Primary { at: at(1), term: 1 }));
        votes.confirm(1);
        votes
    }

    #[test]
    fn the_first_answer_waits_for_a_majority_and_not_for_the_dead() {
        let now = Instant::now();
        let mut votes = Votes::new(3);
        votes.hear(0, says(1, 1));
        assert_eq!(votes.decide(now), None, "it may be one that was cut off");
        votes.hear(1, says(2, 2));
        assert_eq!(votes.decide(now), Some(Primary { at: at(2), term: 1 }));

        let mut votes = Votes::new(3);
        votes.hear(0, says(1, 1));
        assert_eq!(votes.decide(now), None);
        assert!(votes.decide(now + FIRST_WAIT).is_some(), "the others are black holes");

        let mut votes = Votes::new(3);
        votes.hear(1, silent());
        votes.hear(2, silent());
        votes.hear(0, says(1, 1));
        assert!(votes.decide(now).is_some(), "nobody else is there");
    }

    #[test]
    fn a_later_epoch_wins_at_once() {
        let now = Instant::now();
        let mut votes = agreed(now);
        votes.hear(2, says(2, 2));
        assert_eq!(votes.decide(now), Some(Primary { at: at(2), term: 2 }));
        assert_eq!(votes.decide(now + AGREED_FOR * 2), None, "the two that lag do not lead back");
    }

    #[test]
    fn there_and_back_between_two_looks_is_another_term() {
        let now = Instant::now();
        let mut votes = agreed(now);
        votes.hear(0, says(1, 3));
        assert_eq!(votes.decide(now), Some(Primary { at: at(1), term: 2 }));
    }

    #[test]
    fn an_earlier_epoch_counts_only_if_all_that_are_heard_agree_for_a_while() {
        let now = Instant::now();
        let mut votes = agreed(now);
        votes.hear(0, says(2, 0));
        votes.hear(1, says(2, 0));
        assert_eq!(votes.decide(now), None);
        assert_eq!(votes.decide(now + AGREED_FOR), None, "one disagrees");
        votes.hear(2, silent());
        let later = now + AGREED_FOR;
        assert_eq!(votes.decide(later), None, "not for long");
        assert_eq!(votes.decide(later + AGREED_FOR), Some(Primary { at: at(2), term: 2 }));

        let mut votes = agreed(now);
        votes.hear(0, says(2, 1));
        votes.hear(1, silent());
        votes.hear(2, silent());
        assert_eq!(votes.decide(now), None);
        assert_eq!(votes.decide(now + AGREED_FOR * 2), None, "one of three is no majority");
    }

    #[test]
    fn a_server_that_was_asked_to_be_the_primary_is_believed_before_the_sentinels_say_so() {
        let now = Instant::now();
        let mut votes = agreed(now);
        assert_eq!(votes.promoted(at(1)), None);
        assert_eq!(votes.promoted(at(2)), Some(Primary { at: at(2), term: 2 }));
        votes.confirm(2);
        assert_eq!(votes.decide(now), None, "what they still say does not lead back");
        votes.hear(0, says(2, 2));
        assert_eq!(votes.decide(now + AGREED_FOR), None, "it is the same term");
        votes.hear(0, says(1, 3));
        assert_eq!(
            votes.decide(now + AGREED_FOR),
            Some(Primary { at: at(1), term: 3 }),
            "that was the one after"
        );
    }

    #[test]
    fn a_failover_that_was_given_up_leads_back_after_a_while() {
        let now = Instant::now();
        let mut votes = agreed(now);
        assert!(votes.promoted(at(2)).is_some());
        votes.confirm(2);
        assert_eq!(votes.decide(now), None);
        assert_eq!(votes.decide(now + AGREED_FOR), Some(Primary { at: at(1), term: 3 }));
    }

    #[test]
    fn an_agreement_that_is_interrupted_begins_anew() {
        let now = Instant::now();
        let mut votes = agreed(now);
        (0..3).for_each(|from| votes.hear(from, says(2, 1)));
        assert_eq!(votes.decide(now), None);
        votes.hear(0, says(1, 1));
        assert_eq!(votes.decide(now + AGREED_FOR / 2), None);
        votes.hear(0, says(2, 1));
        assert_eq!(votes.decide(now + AGREED_FOR), None);
        assert!(votes.decide(now + AGREED_FOR * 2).is_some());
    }

    #[test]
    fn an_invented_epoch_does_not_keep_the_truth_away() {
        let now = Instant::now();
        let mut votes = agreed(now);
        votes.hear(2, says(66, u64::MAX));
        assert_eq!(votes.decide(now), Some(Primary { at: at(66), term: 2 }));
        assert_eq!(votes.decide(now), None);
        assert_eq!(votes.decide(now + AGREED_FOR), Some(Primary { at: at(1), term: 3 }), "nobody is there");
        assert_eq!(votes.decide(now + AGREED_FOR), None, "and not back again");
        votes.hear(0, says(66, 7));
        votes.hear(2, says(66, 7));
        assert_eq!(votes.decide(now + AGREED_FOR), Some(Primary { at: at(66), term: 4 }), "most say so now");
    }

    #[test]
    fn trouble_is_told_when_all_have_been_asked() {
        let mut votes = Votes::new(2);
        votes.hear(0, Say::NoService);
        assert!(votes.trouble("s").is_none());
        votes.hear(1, Say::NoService);
        let trouble = votes.trouble("s").unwrap();
        assert!(
            trouble.kind == ErrorKind::BadArgument && trouble.detail.contains("`s` (2 of 2)"),
            "{trouble:?}"
        );
        votes.hear(1, silent());
        assert_eq!(votes.trouble("s").unwrap().kind, ErrorKind::Unreachable, "that one may know it");
    }
}
