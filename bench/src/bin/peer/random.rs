//! Numbers that look random, the same in each run.

/// Marsaglia's xorshift.
pub(crate) struct Random(u64);

impl Random {
    /// Another sequence for each number.
    pub(crate) fn new(number: u64) -> Self {
        Self((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Below `most`, which is not zero.
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}
