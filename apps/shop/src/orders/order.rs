//! An order as it is kept.

use std::str::FromStr;

use serde::Serialize;

use super::error::OrderError;
use super::names::{Cents, OrderNo};
use crate::sale::{Buyer, Sku};

/// An order as the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its number.
    pub order_no: OrderNo,
    /// Whose it is.
    pub buyer: Buyer,
    /// What was bought.
    pub sku: Sku,
    /// For how much.
    pub amount: Cents,
    /// How far it is.
    pub status: Status,
    /// The provider's word for the charge, once it is paid.
    pub charge: Option<String>,
    /// The fence of the last write.
    pub fence: u64,
}

/// How far an order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is there; whether it is paid is not known yet.
    Placed,
    /// Charged, and written down.
    Paid,
    /// Declined, or not paid in time. Never charged, or given back.
    Refused,
}

impl Status {
    /// As the database has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Paid => "paid",
            Self::Refused => "refused",
        }
    }
}

impl FromStr for Status {
    type Err = OrderError;

    fn from_str(text: &str) -> Result<Self, OrderError> {
        let all = [Self::Placed, Self::Paid, Self::Refused];
        all.into_iter().find(|status| status.as_str() == text).ok_or(OrderError::Damaged)
    }
}
