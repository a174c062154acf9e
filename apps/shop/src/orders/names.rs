//! What an order number and an amount may be.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;

/// The longest order number, in bytes.
pub const MAX_ORDER_NO: usize = 64;
/// The largest amount: a million, in hundredths.
pub const MAX_CENTS: u64 = 100_000_000;

/// An order's number, given by the buyer: 1 to [`MAX_ORDER_NO`] of `A-Z a-z 0-9 . _ -`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct OrderNo(Arc<str>);

/// An amount of money in hundredths: 1 to [`MAX_CENTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Cents(u64);

/// Why something is no order number, or no amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// Empty, too long, or with other characters.
    #[error("an order number has 1 to {MAX_ORDER_NO} of A-Z a-z 0-9 . _ -")]
    OrderNo,
    /// Zero, negative, or too large.
    #[error("an amount is a whole number of cents from 1 to {MAX_CENTS}")]
    Cents,
}

impl OrderNo {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for OrderNo {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_right = (1..=MAX_ORDER_NO).contains(&text.len()) && text.bytes().all(is_known);
        is_right.then(|| Self(text.into())).ok_or(BadName::OrderNo)
    }
}

impl fmt::Display for OrderNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Cents {
    /// Checked.
    ///
    /// # Errors
    /// Zero, negative, or too large.
    pub fn new(cents: i64) -> Result<Self, BadName> {
        let cents = u64::try_from(cents).ok().filter(|cents| (1..=MAX_CENTS).contains(cents));
        cents.map(Self).ok_or(BadName::Cents)
    }

    /// How many.
    pub fn get(self) -> u64 {
        self.0
    }

    /// For a database, which has no unsigned numbers.
    pub(crate) fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_number_is_bounded_and_plain() {
        assert!("A-1.b_2".parse::<OrderNo>().is_ok() && "x".repeat(MAX_ORDER_NO).parse::<OrderNo>().is_ok());
        for bad in ["", "a b", "a/b", "é", "a\0", "a}", &"x".repeat(MAX_ORDER_NO + 1)] {
            assert_eq!(bad.parse::<OrderNo>(), Err(BadName::OrderNo), "{bad:?}");
        }
    }

    #[test]
    fn an_amount_is_neither_nothing_nor_endless() {
        let most = i64::try_from(MAX_CENTS).unwrap();
        assert!(Cents::new(1).is_ok() && Cents::new(most).is_ok());
        for bad in [0, -1, i64::MIN, most + 1, i64::MAX] {
            assert_eq!(Cents::new(bad), Err(BadName::Cents), "{bad}");
        }
    }
}
