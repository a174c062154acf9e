//! The shop over HTTP.
//!
//! | Request | What it does |
//! |---|---|
//! | `POST /orders` | places and pays an order: 201, or 200 where it was paid before |
//! | `GET /orders/{order_no}` | shows one's own order |
//! | `POST /seckill/{sku}` | buys one unit of a flash sale: 202, or 200 with the ticket that one has |
//! | `GET /seckill/{sku}/outcome` | what became of one's own ticket |
//! | `GET /seckill/{sku}/stock` | the sale's numbers |
//! | `GET /` | a page to look at, and to buy on |
//! | `GET /live` | the page's numbers |
//! | `GET /healthz` | whether the store answers |
//!
//! Who asks is said by the header `X-Account`. It is no proof: put whatever checks who somebody is in front. The page at `/` is
//! for looking and for trying out: without that header it believes the account that is typed into it, and shows that
//! account's ticket. Where the header is there it counts, and another account that is typed is refused; so whatever stands
//! in front has to put it on `/` as well, or to keep `/` from strangers. Every refusal is
//! problem details (RFC 9457) with a member `reason`, one of [`Reason`], and is counted under it.

mod account;
mod admission;
mod body;
mod guard;
mod health;
mod orders;
mod problem;
mod protect;
mod reason;
mod router;
mod seckill;
mod shop;
mod tally;

pub use body::MAX_BODY;
pub use guard::ANSWER_WITHIN;
pub use reason::Reason;
pub use router::router;
pub use shop::{Parts, Shop};
pub use tally::Tally;

pub(crate) use account::{ACCOUNT, account_of};
pub(crate) use problem::Problem;
pub(crate) use seckill::{NOT_WRITTEN, StockBody, attempt};
