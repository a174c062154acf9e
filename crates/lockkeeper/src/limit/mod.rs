//! Limits: how fast something may happen.

mod away;
mod batch;
mod checker;
mod circuit;
mod denials;
mod joint;
mod limiter;
mod plan;
mod ready;
mod share;
mod verdict;

pub use away::WhenAway;
pub(crate) use circuit::Circuit;
pub use joint::Joint;
pub use limiter::{DEFAULT_DECIDE_WITHIN, Limiter};
pub use verdict::{Detail, LimitState, Source, Verdict};
