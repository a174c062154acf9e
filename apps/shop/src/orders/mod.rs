//! Orders: a lock on the order's number, a charge, and a fenced update; a unique index behind them all.
//!
//! What keeps an order right, from the outermost to the last line:
//!
//! 1. the lock `order:{order_no}`, so that one caller at a time works on an order;
//! 2. the payment provider's own reference, which is the order's number: charging again is charging once;
//! 3. the unique index on the number, and the **fenced update**: who lost the lock while it charged changes no row.
//!
//! An order that is not paid in time is refused: first its row, under a fence, then its charge at the provider, which is
//! given back if there was one and forbidden if there was none. So money and orders agree whichever came first.

mod error;
mod expire;
mod names;
mod order;
mod place;
mod table;

pub use error::OrderError;
pub use expire::MAX_DUE;
pub use names::{BadName, Cents, MAX_CENTS, MAX_ORDER_NO, OrderNo};
pub use order::{Order, Status};
pub use place::{Asked, CHARGE_WITHIN, Orders, Placed};
