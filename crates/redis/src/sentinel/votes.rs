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
mod tests;
