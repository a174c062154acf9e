//! Limits: how fast something may happen. Quotas, their exact arithmetic, and the decisions on them.
//!
//! Four algorithms, all on whole microseconds of the server's clock and without rounding of rates. What each lets through
//! within *any* interval is stated at its constructor in [`Limit`] and asserted by `tests.rs`.

mod ask;
mod bucket;
mod cell;
mod check;
mod counter;
mod evaluate;
mod level;
mod limits;
mod log;
mod peek;
mod quota;
mod refund;
mod reset;
mod standing;
mod subject;
mod text;
mod window;

#[cfg(test)]
mod tests;

pub use ask::{Ask, Asks};
pub use bucket::{Bucket, FullAt};
pub use cell::{LimitCell, Stored};
pub(crate) use check::{Cell, check_one};
pub use check::{Check, CheckReply};
pub use counter::Counter;
pub use evaluate::evaluate;
pub use level::Level;
pub use limits::{IntoLimits, MAX_LIMITS};
pub use log::{Log, Times};
pub use peek::Peek;
pub use quota::{
    Algorithm, Limit, MAX_COUNT, MAX_LOG_COUNT, MAX_WINDOW, Quota, TokenBucketBuilder, WindowStart,
};
pub use refund::{Refund, Refunded};
pub use reset::Reset;
pub use standing::{Checked, Outcome, Standing, Standings};
pub use subject::{IntoSubject, MAX_KIND_BYTES, MAX_SUBJECT_BYTES, MAX_VALUE_BYTES, Subject};
pub use window::Window;
