//! What processes that fought for one key saw, put together: did two ever overlap, did fences grow, who waited.

use std::collections::HashMap;

use anyhow::{Context as _, Result, ensure};

use crate::spread::quantile;

/// One critical section. Moments are nanoseconds of the clock that all processes share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Section {
    pub(crate) process: usize,
    waiter: usize,
    /// Before the acquire was called, after it returned; before the release was called.
    began: u64,
    acquired: u64,
    leaving: u64,
    /// Zero where the library has none.
    fence: u64,
}

/// Who waited how long.
#[derive(Clone, Copy, Debug)]
struct Wait {
    process: usize,
    waiter: usize,
    nanoseconds: u64,
}

/// All sections in the order of their acquisition, and all waits.
#[derive(Debug, Default)]
pub(crate) struct History {
    sections: Vec<Section>,
    waits: Vec<Wait>,
}

impl History {
    /// Adds what a process wrote: `S waiter began acquired leaving left [fence]` per section, and `P waiter began` for
    /// a wait that was not over at `end`.
    pub(crate) fn add(&mut self, process: usize, text: &str, end: u64) -> Result<()> {
        for line in text.lines() {
            self.add_line(process, line, end).with_context(|| format!("a process wrote `{line}`"))?;
        }
        self.sections.sort_by_key(|section| section.acquired);
        Ok(())
    }

    fn add_line(&mut self, process: usize, line: &str, end: u64) -> Result<()> {
        let (kind, numbers) = line.split_once(' ').context("there are no numbers")?;
        let numbers: Vec<u64> = numbers.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let (waiter, nanoseconds) = match (kind, &*numbers) {
            ("S", &[waiter, began, acquired, leaving, _left, ref fence @ ..]) => {
                let fence = fence.first().copied().unwrap_or(0);
                let waiter = waiter as usize;
                self.sections.push(Section { process, waiter, began, acquired, leaving, fence });
                (waiter, acquired.saturating_sub(began))
            }
            ("P", &[waiter, began]) => (waiter as usize, end.saturating_sub(began)),
            _ => anyhow::bail!("that is no such line"),
        };
        self.waits.push(Wait { process, waiter, nanoseconds });
        Ok(())
    }

    /// Exclusion, by intervals and by the counter that nothing else protects; and the fences, where there are any.
    pub(crate) fn check(&self, counted: u64) -> Result<()> {
        let sections = &self.sections;
        ensure!(!sections.is_empty(), "nobody ever held the lock");
        ensure!(
            counted == sections.len() as u64,
            "{} sections, but the counter says {counted}",
            sections.len()
        );
        for (one, next) in self.pairs() {
            ensure!(next.acquired >= one.leaving, "two holders at once: {one:?} and {next:?}");
            let grew = next.fence > one.fence || (one.fence == 0 && next.fence == 0);
            ensure!(grew, "the fence did not grow: {one:?}, then {next:?}");
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.sections.len()
    }

    /// From one holder's call of release to the return of the next acquire, whoever's, in nanoseconds.
    pub(crate) fn gaps(&self, counts: impl Fn(&Section, &Section) -> bool) -> Vec<f64> {
        let gap = |(one, next): (&Section, &Section)| (next.acquired - one.leaving) as f64;
        self.pairs().filter(|(one, next)| counts(one, next)).map(gap).collect()
    }

    /// The median time from one acquisition to the next, in nanoseconds: a hold and a gap.
    pub(crate) fn median_period(&self) -> f64 {
        let mut periods: Vec<f64> =
            self.pairs().map(|(one, next)| (next.acquired - one.acquired) as f64).collect();
        quantile(&mut periods, 0.5)
    }

    /// In nanoseconds, of the processes that count; those that were not over at the end are in it.
    pub(crate) fn longest_wait(&self, counts: impl Fn(usize) -> bool) -> f64 {
        let waits = self.waits.iter().filter(|wait| counts(wait.process));
        waits.map(|wait| wait.nanoseconds).max().unwrap_or(0) as f64
    }

    /// How many sections this process had.
    pub(crate) fn sections_of(&self, process: usize) -> usize {
        self.sections.iter().filter(|section| section.process == process).count()
    }

    /// The fewest and the most sections of any waiter.
    pub(crate) fn shares(&self) -> (usize, usize) {
        let waiters = self.waits.iter().map(|wait| ((wait.process, wait.waiter), 0));
        let mut counts: HashMap<_, usize> = waiters.collect();
        for section in &self.sections {
            *counts.entry((section.process, section.waiter)).or_insert(0) += 1;
        }
        (counts.values().min().copied().unwrap_or(0), counts.values().max().copied().unwrap_or(0))
    }

    fn pairs(&self) -> impl Iterator<Item = (&Section, &Section)> {
        self.sections.iter().zip(self.sections.iter().skip(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(one: &str, other: &str) -> History {
        let mut history = History::default();
        history.add(0, one, 100).unwrap();
        history.add(1, other, 100).unwrap();
        history
    }

    #[test]
    fn gaps_and_waits_go_across_processes() {
        let history = history("S 0 1 2 4 5 1\nS 1 2 20 24 25 3", "S 0 1 10 11 12 2\nP 1 30\n");
        history.check(3).unwrap();
        assert_eq!(history.gaps(|_, _| true), [6.0, 9.0]);
        assert!(history.gaps(|one, next| one.process == next.process).is_empty());
        assert_eq!((history.median_period(), history.sections_of(0), history.shares()), (8.0, 2, (0, 1)));
        assert_eq!(
            (history.longest_wait(|process| process == 0), history.longest_wait(|_| true)),
            (18.0, 70.0)
        );
    }

    #[test]
    fn each_kind_of_violation_is_found() {
        let good = history("S 0 1 2 4 5", "S 0 1 4 6 7");
        assert!(good.check(2).is_ok() && good.check(1).unwrap_err().to_string().contains("counter"));
        let overlap = history("S 0 1 2 4 5", "S 0 1 3 6 7").check(2).unwrap_err();
        assert!(overlap.to_string().contains("two holders"));
        let fence = history("S 0 1 2 4 5 7", "S 0 1 4 6 7 7").check(2).unwrap_err();
        assert!(fence.to_string().contains("fence"));
        assert!(History::default().check(0).is_err());
        assert!(History::default().add(0, "S 0 1 2", 1).is_err());
    }
}
