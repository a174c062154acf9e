//! What the database knows of sales: the terms, the orders, the refusals.
//!
//! A ticket becomes an order or a refusal, never both: whoever decides that holds the row of its sale until the end of
//! the transaction.

use lockkeeper_core::Timestamp;
use sqlx::{Any, AnyConnection, Row, Transaction};

use super::names::{Buyer, Sku, Ticket};
use super::shard::Message;
use super::terms::Terms;
use crate::database::{Database, DatabaseError};

/// Why a ticket becomes no order, where the shop itself says so.
pub(super) const NO_STOCK: &str = "the database has no unit left for it";
pub(super) const SECOND_ORDER: &str = "this buyer has an order already";

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is an order now.
    Written,
    /// It was one before.
    Duplicate,
    /// It never will be, and that is recorded.
    Refused {
        reason: String,
        /// The buyer's order, where there is one.
        order: Option<Ticket>,
    },
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Of each message.
    All(Vec<Fate>),
    /// Nothing: stock was counted and given out anew since the batch was taken. The fence of whoever did that.
    Stale(u64),
}

/// A number as the databases keep it.
pub(super) fn number(at: u64) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Writes the terms, unless there are some.
pub(super) async fn announce(database: &Database, terms: &Terms) -> Result<(), DatabaseError> {
    sqlx::query("INSERT INTO sales (sku, initial, opens_at, closes_at, shards) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING")
        .bind(terms.sku.as_str())
        .bind(i64::from(terms.initial))
        .bind(number(terms.opens_at.as_micros()))
        .bind(number(terms.closes_at.as_micros()))
        .bind(i64::from(terms.shards))
        .execute(database.writer())
        .await?;
    Ok(())
}

/// The terms of a sale.
pub(super) async fn terms_of(database: &Database, sku: &Sku) -> Result<Option<Terms>, DatabaseError> {
    let row = sqlx::query("SELECT sku, initial, opens_at, closes_at, shards FROM sales WHERE sku = $1")
        .bind(sku.as_str())
        .fetch_optional(database.reader())
        .await?;
    Ok(row.and_then(|row| terms(&row)))
}

/// Some sales in the order of their names.
pub(super) struct Page {
    /// With the fence of each.
    pub(super) sales: Vec<(Terms, u64)>,
    /// The last name, where there may be more behind it.
    pub(super) next: Option<String>,
}

/// The sales that close after this moment and whose name is behind `after`; no more than `most`.
pub(super) async fn closing_after(
    database: &Database,
    moment: Timestamp,
    after: &str,
    most: i64,
) -> Result<Page, DatabaseError> {
    let rows = sqlx::query("SELECT sku, initial, opens_at, closes_at, shards, fence FROM sales WHERE closes_at > $1 AND sku > $2 ORDER BY sku LIMIT $3")
        .bind(number(moment.as_micros()))
        .bind(after)
        .bind(most)
        .fetch_all(database.reader())
        .await?;
    let last = rows.last().filter(|_| number(rows.len() as u64) == most);
    let next = last.map(|row| row.try_get("sku")).transpose()?;
    let fence = |row: &sqlx::any::AnyRow| row.try_get("fence").map(unsigned).unwrap_or_default();
    let sales = rows.iter().filter_map(|row| Some((terms(row)?, fence(row)))).collect();
    Ok(Page { sales, next })
}

/// `None` for a row that this program cannot have written.
fn terms(row: &sqlx::any::AnyRow) -> Option<Terms> {
    let number = |column: &str| row.try_get::<i64, _>(column).ok();
    let moment = |column: &str| number(column).map(|at| Timestamp::from_micros(unsigned(at)));
    let terms = Terms {
        sku: row.try_get::<String, _>("sku").ok()?.parse().ok()?,
        initial: u32::try_from(number("initial")?).ok()?,
        opens_at: moment("opens_at")?,
        closes_at: moment("closes_at")?,
        shards: u8::try_from(number("shards")?).ok()?,
    };
    terms.check().is_ok().then_some(terms)
}

/// Writes the fence of who rebuilds the sale. `false`: somebody with a greater one was here.
pub(super) async fn raise_fence(database: &Database, sku: &Sku, fence: u64) -> Result<bool, DatabaseError> {
    let done = sqlx::query("UPDATE sales SET fence = $1 WHERE sku = $2 AND fence <= $1")
        .bind(number(fence))
        .bind(sku.as_str())
        .execute(database.writer())
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Orders and refusals of a sale, counted.
pub(super) async fn count(database: &Database, sku: &Sku) -> Result<(u64, u64), DatabaseError> {
    let row = sqlx::query("SELECT (SELECT COUNT(*) FROM tickets WHERE sku = $1) AS written, (SELECT COUNT(*) FROM refused_tickets WHERE sku = $1) AS refused")
        .bind(sku.as_str())
        .fetch_one(database.reader())
        .await?;
    Ok((unsigned(row.try_get("written")?), unsigned(row.try_get("refused")?)))
}

/// Orders in this table beyond one for each buyer.
pub(super) async fn duplicates(
    database: &Database,
    table: &'static str,
    sku: &Sku,
) -> Result<u64, DatabaseError> {
    let count = format!("SELECT COUNT(*) - COUNT(DISTINCT buyer) FROM {table} WHERE sku = $1");
    let beyond: i64 = sqlx::query_scalar(&count).bind(sku.as_str()).fetch_one(database.reader()).await?;
    Ok(unsigned(beyond))
}

/// The orders of a sale in the order of their tickets, after this one.
pub(super) async fn orders_after(
    database: &Database,
    sku: &Sku,
    after: &str,
    most: i64,
) -> Result<Vec<(Buyer, Ticket)>, DatabaseError> {
    let rows = sqlx::query(
        "SELECT ticket, buyer FROM tickets WHERE sku = $1 AND ticket > $2 ORDER BY ticket LIMIT $3",
    )
    .bind(sku.as_str())
    .bind(after)
    .bind(most)
    .fetch_all(database.reader())
    .await?;
    let order = |row: &sqlx::any::AnyRow| {
        let (buyer, ticket): (String, String) = (row.try_get("buyer")?, row.try_get("ticket")?);
        match (buyer.parse(), ticket.parse()) {
            (Ok(buyer), Ok(ticket)) => Ok((buyer, ticket)),
            _ => Err(sqlx::Error::Decode("an order whose names are none".into())),
        }
    };
    Ok(rows.iter().map(order).collect::<Result<_, sqlx::Error>>()?)
}

/// The ticket that is this buyer's order.
pub(super) async fn order_of(
    database: &Database,
    sku: &Sku,
    buyer: &Buyer,
) -> Result<Option<Ticket>, DatabaseError> {
    let found: Option<String> =
        sqlx::query_scalar("SELECT ticket FROM tickets WHERE sku = $1 AND buyer = $2")
            .bind(sku.as_str())
            .bind(buyer.as_str())
            .fetch_optional(database.reader())
            .await?;
    Ok(found.and_then(|ticket| ticket.parse().ok()))
}

/// Why this ticket became no order.
pub(super) async fn refusal_of(
    database: &Database,
    ticket: &Ticket,
) -> Result<Option<String>, DatabaseError> {
    Ok(sqlx::query_scalar("SELECT reason FROM refused_tickets WHERE ticket = $1")
        .bind(ticket.as_str())
        .fetch_optional(database.reader())
        .await?)
}

/// Makes orders of messages, all in one transaction: each is written, or was before, or is recorded as refused. `fence` is
/// the sale's from before they were taken: who rebuilds raises it first and counts the orders then, so that what was not
/// written by then is not written any more.
pub(super) async fn write(
    database: &Database,
    sku: &Sku,
    messages: &[Message],
    fence: u64,
) -> Result<Written, DatabaseError> {
    let mut transaction = database.writer().begin().await?;
    let Held { initial, sold: before, fence: now } = hold(&mut transaction, sku).await?;
    if now > fence {
        return Ok(Written::Stale(now));
    }
    let (mut sold, mut fates) = (before, Vec::with_capacity(messages.len()));
    for message in messages {
        let fate = write_one(&mut transaction, sku, message, sold < initial).await?;
        sold += i64::from(fate == Fate::Written);
        fates.push(fate);
    }
    if sold > before {
        sqlx::query("UPDATE sales SET sold = $1 WHERE sku = $2")
            .bind(sold)
            .bind(sku.as_str())
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(Written::All(fates))
}

/// Records that a message becomes no order, unless it has become one.
pub(super) async fn refuse(
    database: &Database,
    sku: &Sku,
    message: &Message,
    reason: &str,
    fence: u64,
) -> Result<Written, DatabaseError> {
    let mut transaction = database.writer().begin().await?;
    let now = hold(&mut transaction, sku).await?.fence;
    if now > fence {
        return Ok(Written::Stale(now));
    }
    let fate = match decided(&mut transaction, sku, message).await? {
        Some(fate) => fate,
        None => record(&mut transaction, sku, message, reason, None).await?,
    };
    transaction.commit().await?;
    Ok(Written::All(vec![fate]))
}

/// Holds the row of the sale until the end of the transaction. Its first statement, and it writes: see
/// [`Database::writer`].
async fn hold(transaction: &mut Transaction<'_, Any>, sku: &Sku) -> Result<Held, DatabaseError> {
    let row = sqlx::query("UPDATE sales SET sold = sold WHERE sku = $1 RETURNING initial, sold, fence")
        .bind(sku.as_str())
        .fetch_one(&mut **transaction)
        .await?;
    let fence = unsigned(row.try_get("fence")?);
    Ok(Held { initial: row.try_get("initial")?, sold: row.try_get("sold")?, fence })
}

/// The row of a sale.
struct Held {
    initial: i64,
    sold: i64,
    fence: u64,
}

async fn write_one(
    connection: &mut AnyConnection,
    sku: &Sku,
    message: &Message,
    has_stock: bool,
) -> Result<Fate, DatabaseError> {
    if let Some(fate) = decided(connection, sku, message).await? {
        return Ok(fate);
    }
    if !has_stock {
        return record(connection, sku, message, NO_STOCK, None).await;
    }
    sqlx::query("INSERT INTO tickets (ticket, sku, buyer, sold_at) VALUES ($1, $2, $3, $4)")
        .bind(message.ticket.as_str())
        .bind(sku.as_str())
        .bind(message.buyer.as_str())
        .bind(number(message.sold_at.as_micros()))
        .execute(connection)
        .await?;
    Ok(Fate::Written)
}

/// What was decided before, or follows from the buyer's other order.
async fn decided(
    connection: &mut AnyConnection,
    sku: &Sku,
    message: &Message,
) -> Result<Option<Fate>, DatabaseError> {
    let reason: Option<String> = sqlx::query_scalar("SELECT reason FROM refused_tickets WHERE ticket = $1")
        .bind(message.ticket.as_str())
        .fetch_optional(&mut *connection)
        .await?;
    let order: Option<String> =
        sqlx::query_scalar("SELECT ticket FROM tickets WHERE sku = $1 AND buyer = $2")
            .bind(sku.as_str())
            .bind(message.buyer.as_str())
            .fetch_optional(&mut *connection)
            .await?;
    let is_this = order.as_deref() == Some(message.ticket.as_str());
    let order = order.and_then(|ticket| ticket.parse().ok());
    match reason {
        Some(reason) => Ok(Some(Fate::Refused { reason, order })),
        None if is_this => Ok(Some(Fate::Duplicate)),
        None if order.is_some() => record(connection, sku, message, SECOND_ORDER, order).await.map(Some),
        None => Ok(None),
    }
}

async fn record(
    connection: &mut AnyConnection,
    sku: &Sku,
    message: &Message,
    reason: &str,
    order: Option<Ticket>,
) -> Result<Fate, DatabaseError> {
    sqlx::query(
        "INSERT INTO refused_tickets (ticket, sku, buyer, reason, sold_at) VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(message.ticket.as_str())
    .bind(sku.as_str())
    .bind(message.buyer.as_str())
    .bind(reason)
    .bind(number(message.sold_at.as_micros()))
    .execute(connection)
    .await?;
    Ok(Fate::Refused { reason: reason.to_owned(), order })
}
