//! Limits: how fast something may happen.

mod away;
mod batch;
mod calls;
mod checker;
mod circuit;
mod denials;
mod joint;
mod leased;
mod limiter;
mod plan;
mod pot;
mod purse;
mod ready;
mod returned;
mod share;
mod verdict;

pub use away::WhenAway;
pub(crate) use circuit::Circuits;
pub use joint::Joint;
pub(crate) use leased::Purses;
pub use leased::{DEFAULT_LEASE_AGE, LeasedLimiter};
pub use limiter::{DEFAULT_DECIDE_WITHIN, Limiter};
pub(crate) use returned::Returned;
pub use verdict::{Detail, LimitState, Source, Verdict};
