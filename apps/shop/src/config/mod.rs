//! What can be set.

mod limits;

pub use limits::{BUYER_LIMIT, Limits, ORDER_LIMIT, SALE_LIMIT};
