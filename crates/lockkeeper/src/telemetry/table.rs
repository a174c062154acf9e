//! Every name in one table: what documents, dashboards and tests are checked against.

use metrics::{KeyName, SharedString};

/// The target of all events of locks.
pub const TARGET: &str = "lockkeeper::lock";
/// The target of all events of limiters.
pub const LIMIT_TARGET: &str = "lockkeeper::limit";
/// The target of all events of what runs once.
pub const ONCE_TARGET: &str = "lockkeeper::once";

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name, as emitted.
    pub name: &'static str,
    /// What it is.
    pub kind: MetricKind,
    /// What it counts in.
    pub unit: Unit,
    /// Its labels. None of them is ever a key or a subject.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// What a metric counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Seconds.
    Seconds,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Its name: the message of the event.
    pub name: &'static str,
    /// Its target.
    pub target: &'static str,
    /// Its level, in lower case.
    pub level: &'static str,
    /// Its fields. Time and trace come from the subscriber and the surrounding span.
    pub fields: &'static [&'static str],
    /// When it is written.
    pub help: &'static str,
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Counter, unit: Unit::Count, labels, help }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Gauge, unit: Unit::Count, labels: &["class"], help }
}

const fn seconds(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Histogram, unit: Unit::Seconds, labels, help }
}

const RESULT: &[&str] = &["class", "result", "reason"];

pub(super) const ACQUIRE: Metric =
    counter("redis_lock_acquire_total", RESULT, "Acquisitions by result; one per call, waiting included.");
pub(super) const RELEASE: Metric =
    counter("redis_lock_release_total", RESULT, "Releases by what they found.");
pub(super) const EXTEND: Metric =
    counter("redis_lock_watchdog_extend_total", RESULT, "Renewals by the watchdog.");
pub(super) const ACQUIRE_SECONDS: Metric = seconds(
    "redis_lock_acquire_duration_seconds",
    &["class", "result"],
    "From the call to its answer, waiting included.",
);
pub(super) const HOLD_SECONDS: Metric = seconds(
    "redis_lock_hold_seconds",
    &["class"],
    "From the acquisition to the answer of the release, late ones included.",
);
pub(super) const LOST: Metric =
    counter("redis_lock_lost_total", &["class", "reason"], "Locks that ended before they were released.");
pub(super) const LATE_RELEASES: Metric = counter(
    "redis_lock_late_releases_total",
    &["class"],
    "Releases that found the lease ended: the work took longer than the lease.",
);
pub(super) const HANDOVERS: Metric =
    counter("redis_lock_handovers_total", &["class", "way"], "Locks that passed to a waiter, by the way.");
pub(super) const DEGRADED: Metric = counter(
    "redis_lock_degraded_total",
    &["class"],
    "Locks taken inside this process only, because the store was away.",
);
pub(super) const WAITING_FALLBACK: Metric = counter(
    "redis_lock_waiting_fallback_total",
    &[],
    "How often the server refused to announce releases, so that waiting polls only.",
);
pub(super) const WAITERS: Metric =
    gauge("redis_lock_waiters", "Callers of this process that wait for a lock.");
pub(super) const HELD: Metric = gauge("redis_lock_held", "Locks held by this process.");

pub(super) const LIMIT_DECISIONS: Metric = counter(
    "redis_limit_decisions_total",
    &["limit", "result", "source"],
    "Decisions by result and by who decided.",
);
pub(super) const LIMIT_SECONDS: Metric = seconds(
    "redis_limit_decision_duration_seconds",
    &["limit", "source"],
    "From the call to its answer, where it was not decided out of this process's memory.",
);
pub(super) const LIMIT_BATCH: Metric = Metric {
    name: "redis_limit_batch_size",
    kind: MetricKind::Histogram,
    unit: Unit::Count,
    labels: &["limit"],
    help: "Checks that went to the store in one call.",
};
pub(super) const LIMIT_REPAIRS: Metric = counter(
    "redis_limit_repairs_total",
    &["limit"],
    "Keys of limits that were found without an expiry and got one.",
);
pub(super) const LIMIT_CIRCUIT: Metric = counter(
    "redis_limit_circuit_opened_total",
    &[],
    "How often the limiters of a keeper stopped asking a store that did not answer.",
);

const ONCE_RESULT: &[&str] = &["once", "result", "reason"];
const ONCE: &[&str] = &["once"];

pub(super) const ONCE_BEGIN: Metric = counter(
    "redis_once_begin_total",
    ONCE_RESULT,
    "Callers by what they were answered; one per call, waiting included.",
);
pub(super) const ONCE_TAKEOVERS: Metric = counter(
    "redis_once_takeovers_total",
    ONCE,
    "Attempts that began after one that had gone away without an end.",
);
pub(super) const ONCE_COMPLETE: Metric =
    counter("redis_once_complete_total", ONCE_RESULT, "Results that were to be recorded.");
pub(super) const ONCE_ABANDONED: Metric =
    counter("redis_once_abandoned_total", &["once", "how"], "Attempts that ended without a result.");
pub(super) const ONCE_LOST: Metric =
    counter("redis_once_lost_total", &["once", "reason"], "Attempts whose claim was lost while they ran.");
pub(super) const ONCE_EXTEND: Metric =
    counter("redis_once_watchdog_extend_total", ONCE_RESULT, "Renewals of attempts by the watchdog.");
pub(super) const ONCE_RUN_SECONDS: Metric =
    seconds("redis_once_run_duration_seconds", ONCE, "From the claim to the end of the attempt.");
pub(super) const ONCE_RUNNING: Metric =
    Metric { labels: ONCE, ..gauge("redis_once_running", "Attempts that run in this process.") };
pub(super) const ONCE_WAITERS: Metric = Metric {
    labels: ONCE,
    ..gauge("redis_once_waiters", "Callers of this process that wait for the end of an attempt.")
};

/// Every metric.
pub const METRICS: &[Metric] = &[
    ACQUIRE,
    ACQUIRE_SECONDS,
    RELEASE,
    HOLD_SECONDS,
    LATE_RELEASES,
    EXTEND,
    LOST,
    WAITERS,
    HELD,
    HANDOVERS,
    DEGRADED,
    WAITING_FALLBACK,
    LIMIT_DECISIONS,
    LIMIT_SECONDS,
    LIMIT_BATCH,
    LIMIT_REPAIRS,
    LIMIT_CIRCUIT,
    ONCE_BEGIN,
    ONCE_TAKEOVERS,
    ONCE_COMPLETE,
    ONCE_ABANDONED,
    ONCE_LOST,
    ONCE_EXTEND,
    ONCE_RUN_SECONDS,
    ONCE_RUNNING,
    ONCE_WAITERS,
];

const fn debug(name: &'static str, fields: &'static [&'static str], help: &'static str) -> Event {
    Event { name, target: TARGET, level: "debug", fields, help }
}

const fn warn(name: &'static str, fields: &'static [&'static str], help: &'static str) -> Event {
    Event { name, target: TARGET, level: "warn", fields, help }
}

const fn of_limits(event: Event) -> Event {
    Event { target: LIMIT_TARGET, ..event }
}

const fn of_once(event: Event) -> Event {
    Event { target: ONCE_TARGET, ..event }
}

pub(super) const ACQUIRE_START: Event =
    debug("lock_acquire_start", &["lock_key", "client_id"], "An acquisition begins.");
pub(super) const ACQUIRE_SUCCESS: Event = debug(
    "lock_acquire_success",
    &["lock_key", "client_id", "fence", "acquire_time_ms", "ttl_seconds"],
    "It is held.",
);
pub(super) const ACQUIRE_REFUSED: Event = debug(
    "lock_acquire_refused",
    &["lock_key", "client_id", "holder", "remaining_ms", "reason", "waited_ms"],
    "Somebody else has it.",
);
pub(super) const ACQUIRE_FAILED: Event =
    debug("lock_acquire_failed", &["lock_key", "error", "reason", "waited_ms"], "It ended with an error.");
pub(super) const RENEW_FAILED: Event = warn(
    "lock_renew_failed",
    &["lock_key", "client_id", "fence", "error", "reason"],
    "A renewal failed and is tried again; repeated failures are written at debug.",
);
pub(super) const LOCK_LOST: Event = warn(
    "lock_lost",
    &["lock_key", "client_id", "fence", "reason", "held_ms"],
    "A held lock ended before it was released.",
);
pub(super) const RELEASED: Event = debug(
    "lock_released",
    &["lock_key", "client_id", "fence", "held_ms", "outcome"],
    "A release was answered.",
);
pub(super) const LATE_RELEASE: Event = warn(
    "lock_late_release",
    &["lock_key", "client_id", "fence", "held_ms", "outcome"],
    "A release found the lease ended.",
);
pub(super) const LOCK_DEGRADED: Event = warn(
    "lock_degraded",
    &["lock_key", "error", "reason"],
    "The store is away, so the lock was taken inside this process only.",
);

pub(super) const LIMIT_DENIED: Event = of_limits(debug(
    "limit_denied",
    &["limit", "limit_key", "cost", "retry_after_ms", "source"],
    "A call was refused.",
));
pub(super) const LIMIT_REFUND_FAILED: Event = of_limits(debug(
    "limit_refund_failed",
    &["limit", "cost", "error"],
    "What nobody needs any more could not be given back, and stays charged.",
));
pub(super) const LIMIT_DEGRADED: Event = of_limits(warn(
    "limit_degraded",
    &["limit", "error", "reason"],
    "The store is away, so the limiter's policy decides; once per outage.",
));
pub(super) const LIMIT_REPAIRED: Event = of_limits(warn(
    "limit_repaired",
    &["limit", "repaired"],
    "Keys of ours were found without an expiry and got one.",
));
pub(super) const LIMIT_CIRCUIT_OPENED: Event = of_limits(warn(
    "limit_circuit_opened",
    &["server", "error", "reason"],
    "The store did not answer three times in a row: limiters stop asking it.",
));
pub(super) const LIMIT_CIRCUIT_CLOSED: Event = of_limits(Event {
    level: "info",
    ..debug("limit_circuit_closed", &["server"], "The store answers again: limiters ask it again.")
});

pub(super) const ONCE_CLAIMED: Event = of_once(debug(
    "once_claimed",
    &["once", "once_key", "client_id", "attempt", "fence", "takeover"],
    "An attempt begins.",
));
pub(super) const ONCE_TAKEN_OVER: Event = of_once(warn(
    "once_taken_over",
    &["once", "once_key", "client_id", "attempt", "fence"],
    "The attempt before went away without an end, and another begins.",
));
pub(super) const ONCE_REPLAYED: Event = of_once(debug(
    "once_replayed",
    &["once", "once_key", "fence", "remaining_ms"],
    "A caller was answered a result that was kept.",
));
pub(super) const ONCE_REFUSED: Event = of_once(debug(
    "once_refused",
    &["once", "once_key", "result", "holder"],
    "It runs, it belongs to a different request, or nobody knows whether it had its effect.",
));
pub(super) const ONCE_FAILED: Event =
    of_once(debug("once_failed", &["once", "error", "reason"], "A begin ended with an error."));
pub(super) const ONCE_RENEW_FAILED: Event = of_once(warn(
    "once_renew_failed",
    &["once", "once_key", "client_id", "attempt", "fence", "error", "reason"],
    "A renewal failed and is tried again; repeated failures are written at debug.",
));
pub(super) const ONCE_LOST_EVENT: Event = of_once(warn(
    "once_lost",
    &["once", "once_key", "client_id", "attempt", "fence", "reason", "ran_ms"],
    "The claim of a running attempt was lost.",
));
pub(super) const ONCE_COMPLETED: Event = of_once(debug(
    "once_completed",
    &["once", "once_key", "client_id", "attempt", "fence", "ran_ms", "bytes", "whole"],
    "A result was recorded.",
));
pub(super) const ONCE_NOT_RECORDED: Event = of_once(warn(
    "once_not_recorded",
    &["once", "once_key", "client_id", "attempt", "fence", "ran_ms", "reason"],
    "It has run, and its result could not be recorded: whoever comes later may run it again.",
));
pub(super) const ONCE_ABANDONED_EVENT: Event = of_once(debug(
    "once_abandoned",
    &["once", "once_key", "client_id", "attempt", "fence", "ran_ms", "how"],
    "An attempt ended without a result.",
));
pub(super) const ONCE_RESOLVED: Event = of_once(warn(
    "once_resolved",
    &["once", "once_key", "client_id", "fence", "resolution", "outcome"],
    "An operator said what became of an attempt that went away.",
));
pub(super) const ONCE_MAY_BE_EVICTED: Event = of_once(warn(
    "once_may_be_evicted",
    &["policy"],
    "The server may remove records to make room, so that operations run again; once for each keeper.",
));

/// Every event.
pub const EVENTS: &[Event] = &[
    ACQUIRE_START,
    ACQUIRE_SUCCESS,
    ACQUIRE_REFUSED,
    ACQUIRE_FAILED,
    RENEW_FAILED,
    LOCK_LOST,
    RELEASED,
    LATE_RELEASE,
    LOCK_DEGRADED,
    LIMIT_DENIED,
    LIMIT_REFUND_FAILED,
    LIMIT_DEGRADED,
    LIMIT_REPAIRED,
    LIMIT_CIRCUIT_OPENED,
    LIMIT_CIRCUIT_CLOSED,
    ONCE_CLAIMED,
    ONCE_TAKEN_OVER,
    ONCE_REPLAYED,
    ONCE_REFUSED,
    ONCE_FAILED,
    ONCE_RENEW_FAILED,
    ONCE_LOST_EVENT,
    ONCE_COMPLETED,
    ONCE_NOT_RECORDED,
    ONCE_ABANDONED_EVENT,
    ONCE_RESOLVED,
    ONCE_MAY_BE_EVICTED,
];

/// Tells the recorder what each metric means, and shows counters at zero (see the
/// [guide](crate::guide::telemetry)). Every new keeper does it; call it yourself where the recorder is installed after the
/// keeper was made.
pub fn describe() {
    super::class::begin_all();
    super::limit::begin_all();
    super::once::begin_all();
    metrics::with_recorder(|recorder| {
        for metric in METRICS {
            let (name, help) = (KeyName::from_const_str(metric.name), SharedString::const_str(metric.help));
            let unit = Some(metric.unit.as_metrics());
            match metric.kind {
                MetricKind::Counter => recorder.describe_counter(name, unit, help),
                MetricKind::Gauge => recorder.describe_gauge(name, unit, help),
                MetricKind::Histogram => recorder.describe_histogram(name, unit, help),
            }
        }
    });
}

impl Unit {
    fn as_metrics(self) -> metrics::Unit {
        match self {
            Self::Count => metrics::Unit::Count,
            Self::Seconds => metrics::Unit::Seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PAGE: &str = include_str!("../guide/telemetry.md");

    /// What the page says in code marks and begins like a name of ours, and is no field.
    fn named_in_the_page() -> BTreeSet<&'static str> {
        let is_name = |word: &&str| {
            let starts = ["redis_lock_", "redis_limit_", "redis_once_", "lock_", "limit_", "once_"];
            starts.iter().any(|start| word.starts_with(start))
        };
        let code = PAGE.split('`').skip(1).step_by(2);
        code.map(|code| code.split('{').next().unwrap_or(code))
            .filter(is_name)
            .filter(|word| !["lock_key", "limit_key", "once_key"].contains(word))
            .collect()
    }

    #[test]
    fn the_page_names_what_is_in_the_table_and_nothing_else() {
        let names = METRICS.iter().map(|metric| metric.name).chain(EVENTS.iter().map(|event| event.name));
        assert_eq!(named_in_the_page(), names.collect::<BTreeSet<_>>());
    }

    #[test]
    fn the_page_names_labels_fields_and_levels() {
        for metric in METRICS {
            let shown = match metric.labels {
                [] => format!("| `{}` |", metric.name),
                labels => format!("| `{}{{{}}}` |", metric.name, labels.join(",")),
            };
            assert!(PAGE.contains(&shown), "{shown}");
        }
        for event in EVENTS {
            let shown = format!("| `{}` | {} | {} |", event.name, event.level, event.fields.join(", "));
            assert!(PAGE.contains(&shown), "{shown}");
            assert_eq!(event.target == LIMIT_TARGET, event.name.starts_with("limit_"), "{}", event.name);
            assert_eq!(event.target == ONCE_TARGET, event.name.starts_with("once_"), "{}", event.name);
        }
    }

    #[test]
    fn names_are_unique_and_of_the_kept_form() {
        let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        let is_of_class = |metric: &Metric| metric.name.starts_with("redis_lock_");
        let is_of_limit = |metric: &Metric| metric.name.starts_with("redis_limit_");
        let is_of_once = |metric: &Metric| metric.name.starts_with("redis_once_");
        let is_named = |metric: &Metric| is_of_class(metric) || is_of_limit(metric) || is_of_once(metric);
        assert!(METRICS.iter().all(is_named));
        let label = |metric: &Metric| match metric {
            metric if is_of_class(metric) => "class",
            metric if is_of_limit(metric) => "limit",
            _ => "once",
        };
        let mixed = |metric: &&Metric| metric.labels[0] != label(metric);
        assert_eq!(METRICS.iter().filter(|metric| !metric.labels.is_empty()).find(mixed), None);
        let totals = METRICS.iter().filter(|metric| metric.name.ends_with("_total"));
        assert!(totals.clone().count() > 0);
        assert!(totals.into_iter().all(|metric| metric.kind == MetricKind::Counter));
    }
}
