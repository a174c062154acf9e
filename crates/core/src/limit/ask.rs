//! What a caller asks of limits.

use smallvec::SmallVec;

/// One call: how much it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// How much; at least one.
    pub cost: u64,
    /// Less will do: grant as much of it as there is.
    pub partial: bool,
}

/// Several calls, in the order in which they are decided.
pub type Asks = SmallVec<[Ask; 1]>;

impl Ask {
    /// All of it or nothing.
    pub const fn whole(cost: u64) -> Self {
        Self { cost, partial: false }
    }

    /// As much of it as there is.
    pub const fn up_to(most: u64) -> Self {
        Self { cost: most, partial: true }
    }

    /// The smallest grant that it would take.
    pub const fn least(self) -> u64 {
        if self.partial { 1 } else { self.cost }
    }
}
