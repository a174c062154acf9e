//! Limiters' names, and what is counted for them.
//!
//! A label is the name of a limiter, never a subject. The names are bounded, and apart from the classes of locks: a
//! limiter `order` and a lock class `order` have nothing in common.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use lockkeeper_core::{Error, Uptime};
use metrics::Key;
use parking_lot::Mutex;

use super::emit::{check_name, count, count_many, key, observe, record, show_counter};
use super::events;
use super::seldom::{Outage, Seldom};
use super::table;
use crate::limit::{Source, Verdict};

/// The most names of limiters in one process: each adds its own time series.
pub const MAX_LIMITERS: usize = 256;

static LIMITERS: Mutex<Limiters> = Mutex::new(Limiters::new());
static CIRCUIT: Key = Key::from_static_name(table::LIMIT_CIRCUIT.name);

/// What the label `result` says of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    Allowed,
    Denied,
    Never,
}

/// A limiter's name as a label.
#[derive(Clone, Copy)]
pub(crate) struct LimitClass(&'static Prepared);

/// Every key of a name, with its labels, and what was said of it lately. Some 4 KB.
struct Prepared {
    name: &'static str,
    /// By result and source.
    decisions: [[Key; SOURCES.len()]; RESULTS.len()],
    failed: Key,
    /// By source.
    seconds: [Key; SOURCES.len()],
    failed_seconds: Key,
    batch: Key,
    repairs: Key,
    outage: Outage,
    repaired: Seldom,
}

const RESULTS: [&str; 3] = ["allowed", "denied", "never"];
/// In the order of [`Source`].
const SOURCES: [&str; 6] = ["store", "remembered", "leased", "share", "unchecked", "constant"];
/// What is shown at zero: what every limiter may count, and what an alert waits for.
const USUAL: [(Decided, Source); 7] = [
    (Decided::Allowed, Source::Store),
    (Decided::Denied, Source::Store),
    (Decided::Denied, Source::Remembered),
    (Decided::Never, Source::Store),
    (Decided::Allowed, Source::Share),
    (Decided::Denied, Source::Share),
    (Decided::Allowed, Source::Unchecked),
];

impl LimitClass {
    /// The label of this name; what it counts begins at zero.
    pub(crate) fn named(name: &str) -> Result<Self, Error> {
        let class = LIMITERS.lock().named(name)?;
        class.begin();
        Ok(class)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.0.name
    }

    /// An increase from nothing to one is none that a dashboard could see.
    fn begin(self) {
        let usual = USUAL.map(|(decided, source)| self.decision(decided, source));
        usual.into_iter().chain([&self.0.failed, &self.0.repairs]).for_each(show_counter);
    }

    fn decision(self, decided: Decided, source: Source) -> &'static Key {
        &self.0.decisions[decided as usize][source as usize]
    }

    /// A verdict was given. The time is asked for where it says something: not of what this process decides out of its
    /// memory.
    pub(crate) fn decided(&self, verdict: &Verdict, took: impl FnOnce() -> Duration) {
        let source = verdict.detail().source();
        count(self.decision(Decided::from(verdict), source));
        if is_of_memory(source) {
            return;
        }
        observe(&self.0.seconds[source as usize], took());
        if source == Source::Store {
            self.0.outage.ended();
        }
    }

    /// So many verdicts of the same kind were given, each out of this process's memory.
    pub(crate) fn decided_many(&self, decided: Decided, source: Source, so_many: u64) {
        if so_many > 0 {
            count_many(self.decision(decided, source), so_many);
        }
    }

    /// No verdict was given.
    pub(crate) fn failed(&self, took: Duration) {
        count(&self.0.failed);
        observe(&self.0.failed_seconds, took);
    }

    /// The store answered so many checks at once.
    pub(crate) fn answered(&self, batch: usize) {
        record(&self.0.batch, batch as f64);
    }

    /// So many keys, at least one, had lost their expiry.
    pub(crate) fn repaired(&self, keys: usize, now: Uptime) {
        count_many(&self.0.repairs, keys as u64);
        if self.0.repaired.may(now) {
            events::limit_repaired(self.name(), keys);
        }
    }

    /// The policy decides, because of this error.
    pub(crate) fn degraded(&self, error: &Error, now: Uptime) {
        if self.0.outage.is_news(now) {
            events::limit_degraded(self.name(), error);
        }
    }
}

/// Who decided, as a word.
pub(super) fn word(source: Source) -> &'static str {
    SOURCES[source as usize]
}

/// Decided here without waiting for anything, in well under a microsecond.
fn is_of_memory(source: Source) -> bool {
    matches!(source, Source::Remembered | Source::Leased | Source::Constant)
}

impl From<&Verdict> for Decided {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Allowed { .. } => Self::Allowed,
            Verdict::Denied { .. } => Self::Denied,
            Verdict::Never { .. } => Self::Never,
        }
    }
}

impl fmt::Debug for LimitClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LimitClass({})", self.name())
    }
}

impl Prepared {
    fn new(name: &'static str) -> Self {
        let by_source = |result| SOURCES.map(|source| key(table::LIMIT_DECISIONS, [name, result, source]));
        Self {
            name,
            decisions: RESULTS.map(by_source),
            failed: key(table::LIMIT_DECISIONS, [name, "failed", "none"]),
            seconds: SOURCES.map(|source| key(table::LIMIT_SECONDS, [name, source])),
            failed_seconds: key(table::LIMIT_SECONDS, [name, "none"]),
            batch: key(table::LIMIT_BATCH, [name]),
            repairs: key(table::LIMIT_REPAIRS, [name]),
            outage: Outage::default(),
            repaired: Seldom::default(),
        }
    }
}

/// The limiters of a keeper stop asking its store.
pub(crate) fn circuit_opened(server: &str, error: &Error) {
    count(&CIRCUIT);
    events::limit_circuit_opened(server, error);
}

/// They ask it again.
pub(crate) fn circuit_closed(server: &str) {
    events::limit_circuit_closed(server);
}

/// What belongs to no name, and every name so far, at zero.
pub(super) fn begin_all() {
    show_counter(&CIRCUIT);
    let named: Vec<LimitClass> = LIMITERS.lock().0.values().copied().collect();
    named.into_iter().for_each(LimitClass::begin);
}

/// The names of a process. What is in here stays: bounded by [`MAX_LIMITERS`].
pub(super) struct Limiters(BTreeMap<&'static str, LimitClass>);

impl Limiters {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn named(&mut self, name: &str) -> Result<LimitClass, Error> {
        const OPERATION: &str = "limiter";
        if let Some(class) = self.0.get(name) {
            return Ok(*class);
        }
        check_name(OPERATION, "name of a limiter", name)?;
        if self.0.len() >= MAX_LIMITERS {
            let detail = format!(
                "`{name}` would be one too many: a process has at most {MAX_LIMITERS} names of limiters; a limiter is \
                 for a kind of thing, and tells subjects apart by itself"
            );
            return Err(Error::bad_argument(OPERATION, detail));
        }
        let name: &'static str = name.to_owned().leak();
        let class = LimitClass(Box::leak(Box::new(Prepared::new(name))));
        self.0.insert(name, class);
        Ok(class)
    }
}
