//! Answers: what was decided, and how each limit stands.

use std::time::Duration;

use smallvec::SmallVec;

/// What was decided for one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The decision.
    pub outcome: Outcome,
    /// How each limit stands after it, in the order of the limits.
    pub standings: Standings,
}

/// One for each limit.
pub type Standings = SmallVec<[Standing; 1]>;

/// The decision for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Granted: the cost, or for [`up_to`](super::Ask::up_to) what there was of it.
    Allowed {
        /// How much was charged.
        granted: u64,
    },
    /// Not now. Nothing was charged.
    Denied {
        /// The limit that refuses for longest.
        by: usize,
    },
    /// Never: it costs more than this limit can ever hold. Nothing was charged.
    Never {
        /// The limit.
        by: usize,
    },
}

/// How one limit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The most that can be there: the count of a window, the capacity of a bucket.
    pub limit: u64,
    /// What a call right after this one could take at once.
    pub remaining: u64,
    /// When the same call would be granted by this limit if nobody else came; zero where it was, or would be now.
    /// Exact to the microsecond and rounded up. A call that never fits has none.
    pub retry_after: Option<Duration>,
    /// When everything is there again, if nobody came; zero where it is.
    pub reset: Duration,
}
