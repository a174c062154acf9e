//! Lock classes, and what is counted for them.
//!
//! A label is a declared class, never a key, and classes are bounded: so is the number of time series. All label sets
//! of a class are made once, so that an emission allocates nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use lockkeeper_core::Error;
use metrics::Key;
use parking_lot::Mutex;

use super::emit::{check_name, count, key, observe, shift, show_counter, show_gauge};
use super::reason::Reason;
use super::table::{self, Metric};
use crate::lock::LossReason;

/// The most lock classes of one process, `default` included: each adds its own time series.
pub const MAX_CLASSES: usize = 256;
const DEFAULT_CLASS: &str = "default";
/// Of permits that no class was chosen for.
const PERMITS_CLASS: &str = "permits";

static CLASSES: Mutex<Classes> = Mutex::new(Classes::new());
static DEFAULT: LazyLock<Class> = LazyLock::new(|| CLASSES.lock().keep(DEFAULT_CLASS));
static PERMITS: LazyLock<Class> = LazyLock::new(|| {
    let class = CLASSES.lock().named(PERMITS_CLASS);
    // A program with so many classes counts them with the rest.
    class.inspect(|class| class.begin()).unwrap_or_default()
});
static WAITING_FALLBACK: Key = Key::from_static_name(table::WAITING_FALLBACK.name);

/// What a lock is counted as: a kind of lock that the program declares, such as `order`, never a key.
///
/// Made by [`Keeper::lock_class`](crate::Keeper::lock_class). Locks without a class have the class `default`.
#[derive(Clone, Copy)]
pub struct Class(&'static Prepared);

/// How a lock passed to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Inside this process, without the server.
    Local,
    /// To another waiter of this process, by a swap of the token on the server.
    Swap,
    /// By the server: it was released there, and a waiter took it.
    Server,
    /// From another process that handed it over.
    Process,
}

/// Every key of a class, with its labels. Some 15 KB.
struct Prepared {
    name: &'static str,
    acquire: ByReason,
    release: ByReason,
    extend: ByReason,
    lost: ByReason,
    acquire_seconds: [Key; 2],
    hold_seconds: Key,
    late_releases: Key,
    handovers: [Key; 4],
    degraded: Key,
    waiters: Key,
    held: Key,
}

/// A key for each reason, at its number.
struct ByReason([Key; Reason::ALL.len()]);

impl Class {
    /// The class of this name; declared, if it is new. What it counts begins at zero.
    pub(crate) fn named(name: &str) -> Result<Self, Error> {
        let class = CLASSES.lock().named(name)?;
        class.begin();
        Ok(class)
    }

    /// Of permits, apart from locks.
    pub(crate) fn of_permits() -> Self {
        *PERMITS
    }

    /// Shows what this class counts before it happens, as zero: an increase from nothing to one is none that a
    /// dashboard could see. Failures have many reasons and are left out, except for *busy* and those of losses.
    fn begin(self) {
        let Prepared { acquire, release, extend, lost, handovers, .. } = self.0;
        let usual = [acquire, release, extend].map(|results| results.of(Reason::None));
        let plain = [acquire.of(Reason::Busy), &self.0.late_releases, &self.0.degraded];
        let losses = Reason::LOSSES.iter().map(|reason| lost.of(*reason));
        usual.into_iter().chain(plain).chain(losses).chain(handovers).for_each(show_counter);
        [&self.0.waiters, &self.0.held].into_iter().for_each(show_gauge);
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// An acquisition succeeded, this long after the call.
    pub(crate) fn acquired(&self, took: Duration) {
        self.acquisition(Reason::None, took);
    }

    /// An acquisition did not succeed: busy, or an error.
    pub(crate) fn refused(&self, reason: Reason, took: Duration) {
        self.acquisition(reason, took);
    }

    fn acquisition(&self, reason: Reason, took: Duration) {
        count(self.0.acquire.of(reason));
        observe(&self.0.acquire_seconds[usize::from(reason != Reason::None)], took);
    }

    /// A release was answered, or failed; also counts late ones.
    pub(crate) fn released(&self, outcome: Reason, held_for: Duration) {
        count(self.0.release.of(outcome));
        observe(&self.0.hold_seconds, held_for);
        if outcome.is_late() {
            count(&self.0.late_releases);
        }
    }

    /// A held lock ended; a wanted release is no loss.
    pub(crate) fn lost(&self, reason: &LossReason) {
        if let Some(reason) = Reason::of_loss(reason) {
            count(self.0.lost.of(reason));
        }
    }

    /// The watchdog renewed.
    pub(crate) fn renewed(&self) {
        count(self.0.extend.of(Reason::None));
    }

    /// The watchdog could not renew.
    pub(crate) fn renewal_failed(&self, reason: Reason) {
        count(self.0.extend.of(reason));
    }

    /// So many more (fewer, if negative) wait.
    pub(crate) fn waiting(&self, change: i32) {
        shift(&self.0.waiters, change);
    }

    /// So many more (fewer, if negative) are held.
    pub(crate) fn held(&self, change: i32) {
        shift(&self.0.held, change);
    }

    /// A lock passed to a waiter.
    pub(crate) fn handed_over(&self, way: Way) {
        count(&self.0.handovers[way as usize]);
    }

    /// A lock was taken inside this process only.
    pub(crate) fn degraded(&self) {
        count(&self.0.degraded);
    }
}

impl Default for Class {
    fn default() -> Self {
        *DEFAULT
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Class({})", self.0.name)
    }
}

/// The server announces no releases: waiting polls only.
pub(crate) fn waiting_fell_back() {
    count(&WAITING_FALLBACK);
}

/// As [`Class::begin`], for what belongs to no class and for every class declared so far.
pub(super) fn begin_all() {
    show_counter(&WAITING_FALLBACK);
    let declared: Vec<Class> = CLASSES.lock().declared().collect();
    declared.into_iter().for_each(Class::begin);
}

/// The classes of a process. What is in here stays: bounded by [`MAX_CLASSES`].
pub(super) struct Classes(BTreeMap<&'static str, Class>);

impl Classes {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn named(&mut self, name: &str) -> Result<Class, Error> {
        if let Some(class) = self.0.get(name) {
            return Ok(*class);
        }
        check_name("lock class", "class", name)?;
        // One place is kept for `default`, which may be made last.
        let others = self.0.keys().filter(|known| **known != DEFAULT_CLASS).count();
        if name != DEFAULT_CLASS && others + 1 >= MAX_CLASSES {
            let detail = format!(
                "`{name}` would be one too many: a process has at most {MAX_CLASSES} lock classes, \
                 `{DEFAULT_CLASS}` included; a class is a kind of lock, never a key"
            );
            return Err(Error::bad_argument("lock class", detail));
        }
        Ok(self.keep(name))
    }

    /// All but `default`, which nobody has to declare.
    fn declared(&self) -> impl Iterator<Item = Class> {
        self.0.values().copied().filter(|class| class.name() != DEFAULT_CLASS)
    }

    fn keep(&mut self, name: &str) -> Class {
        if let Some(class) = self.0.get(name) {
            return *class;
        }
        let name: &'static str = name.to_owned().leak();
        let class = Class(Box::leak(Box::new(Prepared::new(name))));
        self.0.insert(name, class);
        class
    }
}

impl Prepared {
    fn new(class: &'static str) -> Self {
        let plain = |metric: Metric| key(metric, [class]);
        Self {
            name: class,
            acquire: ByReason::new(table::ACQUIRE, class),
            release: ByReason::new(table::RELEASE, class),
            extend: ByReason::new(table::EXTEND, class),
            lost: ByReason(Reason::ALL.map(|reason| key(table::LOST, [class, reason.word()]))),
            acquire_seconds: ["success", "failed"].map(|result| key(table::ACQUIRE_SECONDS, [class, result])),
            hold_seconds: plain(table::HOLD_SECONDS),
            late_releases: plain(table::LATE_RELEASES),
            handovers: ["local", "swap", "server", "process"].map(|way| key(table::HANDOVERS, [class, way])),
            degraded: plain(table::DEGRADED),
            waiters: plain(table::WAITERS),
            held: plain(table::HELD),
        }
    }
}

impl ByReason {
    fn new(metric: Metric, class: &'static str) -> Self {
        Self(Reason::ALL.map(|reason| key(metric, [class, reason.result(), reason.word()])))
    }

    fn of(&self, reason: Reason) -> &Key {
        &self.0[reason as usize]
    }
}
