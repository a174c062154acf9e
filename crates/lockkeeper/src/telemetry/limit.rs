//! What is counted for limiters.

use std::time::Duration;

use lockkeeper_core::Error;

use super::class::Class;
use crate::limit::Verdict;

/// A limiter's name as a label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitClass(Class);

impl LimitClass {
    pub(crate) fn named(name: &str) -> Result<Self, Error> {
        Class::named(name).map(Self)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.0.name()
    }

    /// A verdict was given.
    pub(crate) fn decided(&self, _verdict: &Verdict, _took: Duration) {}

    /// No verdict was given.
    pub(crate) fn failed(&self, _error: &Error, _took: Duration) {}

    /// The store answered so many checks at once, and repaired so many keys.
    pub(crate) fn answered(&self, _batch: usize, _repaired: usize) {}

    /// So many verdicts were given out of leased tokens.
    pub(crate) fn spent(&self, _verdicts: u64) {}
}
