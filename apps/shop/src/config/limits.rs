//! How fast the shop lets people in.

use lockkeeper::{Error, Limit};

/// On one sale, over all buyers: a token bucket of 100 that gains 20 per second.
pub const SALE_LIMIT: &str = "20/s token-bucket burst=100";
/// On one buyer in one sale, in any ten seconds.
pub const BUYER_LIMIT: &str = "5/10s sliding-log";
/// On the orders of one account.
pub const ORDER_LIMIT: &str = "20/s token-bucket";

/// The shop's limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// On one sale, over all buyers; [`SALE_LIMIT`] unless said otherwise.
    pub sale: Limit,
    /// On one buyer in one sale; [`BUYER_LIMIT`] unless said otherwise.
    pub buyer: Limit,
    /// On the orders of one account; [`ORDER_LIMIT`] unless said otherwise.
    pub orders: Limit,
}

impl Limits {
    /// Those that count unless said otherwise.
    ///
    /// # Errors
    /// None: they are valid, and a test says so.
    pub fn standard() -> Result<Self, Error> {
        Ok(Self { sale: SALE_LIMIT.parse()?, buyer: BUYER_LIMIT.parse()?, orders: ORDER_LIMIT.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_sale_has_a_bucket_of_a_hundred_that_gains_twenty_a_second() {
        let expected = Limit::token_bucket(100).refill(20, Duration::from_secs(1)).unwrap();
        assert_eq!(Limits::standard().unwrap().sale, expected);
    }
}
