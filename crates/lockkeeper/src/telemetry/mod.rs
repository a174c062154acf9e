//! Telemetry: every metric and event by name, what counts them, and what writes them.
//!
//! Metrics go through the [`metrics`](https://docs.rs/metrics) facade, events through
//! [`tracing`](https://docs.rs/tracing); install a recorder and a subscriber of your choice. The
//! [guide](crate::guide::telemetry) explains each name.

mod class;
pub(crate) mod events;
mod limit;
mod reason;
mod table;

pub use class::{Class, MAX_CLASSES};
pub(crate) use class::{Way, waiting_fell_back};
pub(crate) use limit::LimitClass;
pub(crate) use reason::Reason;
pub use table::{EVENTS, Event, METRICS, Metric, MetricKind, TARGET, Unit, describe};

#[cfg(test)]
mod tests;
