//! Telemetry: every metric and event by name, what counts them, and what writes them.
//!
//! Metrics go through the [`metrics`](https://docs.rs/metrics) facade, events through
//! [`tracing`](https://docs.rs/tracing); install a recorder and a subscriber of your choice. The
//! [guide](crate::guide::telemetry) explains each name.

mod class;
mod emit;
pub(crate) mod events;
mod limit;
mod once;
mod reason;
mod seldom;
mod table;

pub use class::{Class, MAX_CLASSES};
pub(crate) use class::{Way, waiting_fell_back};
pub use limit::MAX_LIMITERS;
pub(crate) use limit::{Decided, LimitClass, circuit_closed, circuit_opened};
pub use once::MAX_ONCES;
pub(crate) use once::OnceClass;
pub(crate) use reason::Reason;
pub use table::{
    EVENTS, Event, LIMIT_TARGET, METRICS, Metric, MetricKind, ONCE_TARGET, TARGET, Unit, describe,
};

#[cfg(test)]
mod tests;
