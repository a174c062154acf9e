//! The table of orders. Whatever ends an order is fenced; the insertion has its unique index, and what is noted of a refused
//! order's charge is said of an end that never changes.

use lockkeeper::Fence;

use super::error::OrderError;
use super::names::{Cents, OrderNo};
use super::order::{Order, Status};
use super::place::Asked;
use crate::database::Database;
use crate::sale::Buyer;

type Row = (String, String, String, i64, String, Option<String>, i64);

/// What `charge` says of an order whose charge was given back or forbidden.
const VOID: &str = "void";

const INSERT: &str = "INSERT INTO orders (order_no, buyer, sku, amount_cents, status, fence, created_at) \
                      VALUES ($1, $2, $3, $4, 'placed', $5, $6) ON CONFLICT (order_no) DO NOTHING";
/// From here on, whoever held the lock before changes nothing.
const CLAIM: &str = "UPDATE orders SET fence = $1 WHERE order_no = $2 AND status = 'placed' AND fence < $1";
const FIND: &str =
    "SELECT order_no, buyer, sku, amount_cents, status, charge, fence FROM orders WHERE order_no = $1";
/// The last line: who has an older fence than the last writer changes nothing.
const SETTLE: &str = "UPDATE orders SET status = $1, charge = $2, fence = $3 \
                      WHERE order_no = $4 AND status = 'placed' AND fence <= $3";
const VOIDED: &str =
    "UPDATE orders SET charge = $1 WHERE order_no = $2 AND status = 'refused' AND charge IS NULL";
/// Without a charge are those that are placed, and those whose refusal is not settled; an index has them alone.
const DUE: &str = "SELECT created_at, order_no FROM orders WHERE charge IS NULL \
                   AND (status = 'refused' OR (status = 'placed' AND created_at < $1)) \
                   AND (created_at > $2 OR (created_at = $2 AND order_no > $3)) ORDER BY created_at, order_no LIMIT $4";

/// Puts the order there unless its number is. True: it was not.
pub(super) async fn insert(
    database: &Database,
    buyer: &Buyer,
    asked: &Asked,
    (fence, now): (Fence, i64),
) -> Result<bool, OrderError> {
    let (order_no, buyer, sku) = (asked.order_no.as_str(), buyer.as_str(), asked.sku.as_str());
    let insert = sqlx::query(INSERT).bind(order_no).bind(buyer).bind(sku).bind(asked.amount.as_i64());
    let done = insert.bind(fence.get().cast_signed()).bind(now).execute(database.writer()).await?;
    Ok(done.rows_affected() == 1)
}

/// Takes a placed order over from whoever began it. False: somebody with a later fence did, or it has ended.
pub(super) async fn claim(database: &Database, order_no: &OrderNo, fence: Fence) -> Result<bool, OrderError> {
    let claim = sqlx::query(CLAIM).bind(fence.get().cast_signed()).bind(order_no.as_str());
    Ok(claim.execute(database.writer()).await?.rows_affected() == 1)
}

/// The order, if there is one.
pub(super) async fn find(database: &Database, order_no: &OrderNo) -> Result<Option<Order>, OrderError> {
    let find = sqlx::query_as::<_, Row>(FIND).bind(order_no.as_str());
    find.fetch_optional(database.reader()).await?.map(order).transpose()
}

/// Ends a placed order, one way or the other. False: nothing was changed, because somebody with a later fence, or an end,
/// was there before.
pub(super) async fn settle(
    database: &Database,
    order_no: &OrderNo,
    (status, charge): (Status, Option<&str>),
    fence: Fence,
) -> Result<bool, OrderError> {
    let settle = sqlx::query(SETTLE).bind(status.as_str()).bind(charge);
    let settle = settle.bind(fence.get().cast_signed()).bind(order_no.as_str());
    Ok(settle.execute(database.writer()).await?.rows_affected() == 1)
}

/// Notes that a refused order's charge was given back or forbidden.
pub(super) async fn voided(database: &Database, order_no: &OrderNo) -> Result<(), OrderError> {
    sqlx::query(VOIDED).bind(VOID).bind(order_no.as_str()).execute(database.writer()).await?;
    Ok(())
}

/// A place in the table, by age: when an order was placed, and its number as the table has it.
pub(super) type Place = (i64, String);

/// Orders behind a place that were placed before `cutoff` and are still not paid; and refused ones whose charge is not settled.
pub(super) async fn due(
    database: &Database,
    cutoff: i64,
    (created_at, order_no): &Place,
    most: i64,
) -> Result<Vec<Place>, OrderError> {
    let due = sqlx::query_as::<_, Place>(DUE).bind(cutoff).bind(created_at).bind(order_no).bind(most);
    Ok(due.fetch_all(database.reader()).await?)
}

fn order((order_no, buyer, sku, amount, status, charge, fence): Row) -> Result<Order, OrderError> {
    Ok(Order {
        order_no: order_no.parse().map_err(|_| OrderError::Damaged)?,
        buyer: buyer.parse().map_err(|_| OrderError::Damaged)?,
        sku: sku.parse().map_err(|_| OrderError::Damaged)?,
        amount: Cents::new(amount).map_err(|_| OrderError::Damaged)?,
        status: status.parse()?,
        charge,
        fence: fence.cast_unsigned(),
    })
}
