//! The sale as one writes it at first: look at the stock, look for the buyer, then act. Between looking and acting others
//! do the same, and so it oversells. To be shown beside the other; never to be used.

use std::collections::{HashMap, HashSet};

use lockkeeper_core::Timestamp;
use lockkeeper_redis::RedisStore;
use parking_lot::Mutex;

use super::answer::{Bought, Stock};
use super::books::number;
use super::error::SaleError;
use super::known::PREFIX;
use super::names::{Buyer, Sku, Ticket};
use super::sales::STORE_WITHIN;
use super::store::SaleStore;
use super::terms::Terms;
use crate::database::{Database, DatabaseError};

/// What it keeps where there is no server.
#[derive(Debug, Default)]
pub(super) struct Naive {
    shelves: Mutex<HashMap<Sku, Shelf>>,
}

#[derive(Debug, Default)]
struct Shelf {
    stock: i64,
    buyers: HashSet<Buyer>,
}

fn stock_key(sku: &Sku) -> String {
    format!("{PREFIX}naive:{{{sku}}}:stock")
}

fn buyers_key(sku: &Sku) -> String {
    format!("{PREFIX}naive:{{{sku}}}:buyers")
}

impl Naive {
    pub(super) async fn open(&self, store: &SaleStore, terms: &Terms) -> Result<(), SaleError> {
        let stock = i64::from(terms.initial);
        let Some(server) = store.server() else {
            self.shelves.lock().entry(terms.sku.clone()).or_insert(Shelf { stock, buyers: HashSet::new() });
            return Ok(());
        };
        let (key, until) = (stock_key(&terms.sku), terms.until().as_millis().to_string());
        let set = ["SET", &key, &stock.to_string(), "PXAT", &until, "NX"];
        let _: Option<String> = server.query(&set, STORE_WITHIN).await?;
        Ok(())
    }

    pub(super) async fn buy(
        &self,
        store: &SaleStore,
        database: &Database,
        terms: &Terms,
        buyer: &Buyer,
    ) -> Result<Bought, SaleError> {
        let now = store.now();
        if now < terms.opens_at {
            return Ok(Bought::NotOpen { opens_in: terms.opens_at.since(now) });
        }
        if now >= terms.closes_at {
            return Ok(Bought::Closed);
        }
        if self.left(store, &terms.sku).await? <= 0 {
            return Ok(Bought::SoldOut);
        }
        if self.has_bought(store, &terms.sku, buyer).await?
            && let Some(ticket) = self.order_of(database, &terms.sku, buyer).await?
        {
            return Ok(Bought::AlreadyBought { ticket });
        }
        // By now, neither of the two need be true any more.
        self.take(store, terms, buyer).await?;
        let ticket = Ticket::random();
        write(database, &terms.sku, buyer, &ticket, now).await?;
        Ok(Bought::Accepted { ticket })
    }

    pub(super) async fn order_of(
        &self,
        database: &Database,
        sku: &Sku,
        buyer: &Buyer,
    ) -> Result<Option<Ticket>, DatabaseError> {
        let found: Option<String> =
            sqlx::query_scalar("SELECT ticket FROM naive_tickets WHERE sku = $1 AND buyer = $2 LIMIT 1")
                .bind(sku.as_str())
                .bind(buyer.as_str())
                .fetch_optional(database.reader())
                .await?;
        Ok(found.and_then(|ticket| ticket.parse().ok()))
    }

    pub(super) async fn stock(
        &self,
        store: &SaleStore,
        database: &Database,
        terms: &Terms,
    ) -> Result<Stock, SaleError> {
        let written: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM naive_tickets WHERE sku = $1")
            .bind(terms.sku.as_str())
            .fetch_one(database.reader())
            .await?;
        let (sold, remaining) = (u64::try_from(written).unwrap_or(0), self.left(store, &terms.sku).await?);
        Ok(Stock { initial: u64::from(terms.initial), remaining, sold, written: sold, ..Stock::default() })
    }

    async fn left(&self, store: &SaleStore, sku: &Sku) -> Result<i64, SaleError> {
        if let Some(server) = store.server() {
            let left: Option<i64> = server.query(&["GET", &stock_key(sku)], STORE_WITHIN).await?;
            return left.ok_or_else(|| SaleError::StockUnknown(sku.clone()));
        }
        let left = self.shelves.lock().get(sku).map(|shelf| shelf.stock);
        round_trip().await;
        left.ok_or_else(|| SaleError::StockUnknown(sku.clone()))
    }

    async fn has_bought(&self, store: &SaleStore, sku: &Sku, buyer: &Buyer) -> Result<bool, SaleError> {
        if let Some(server) = store.server() {
            return Ok(server.query(&["SISMEMBER", &buyers_key(sku), buyer.as_str()], STORE_WITHIN).await?);
        }
        let has = self.shelves.lock().get(sku).is_some_and(|shelf| shelf.buyers.contains(buyer));
        round_trip().await;
        Ok(has)
    }

    async fn take(&self, store: &SaleStore, terms: &Terms, buyer: &Buyer) -> Result<(), SaleError> {
        if let Some(server) = store.server() {
            return take_on(server, terms, buyer).await;
        }
        let mut shelves = self.shelves.lock();
        let shelf = shelves.entry(terms.sku.clone()).or_default();
        shelf.stock -= 1;
        shelf.buyers.insert(buyer.clone());
        Ok(())
    }
}

async fn take_on(server: &RedisStore, terms: &Terms, buyer: &Buyer) -> Result<(), SaleError> {
    let (stock, buyers) = (stock_key(&terms.sku), buyers_key(&terms.sku));
    let until = terms.until().as_millis().to_string();
    let _: i64 = server.query(&["DECR", &stock], STORE_WITHIN).await?;
    let _: i64 = server.query(&["SADD", &buyers, buyer.as_str()], STORE_WITHIN).await?;
    let _: i64 = server.query(&["PEXPIREAT", &buyers, &until], STORE_WITHIN).await?;
    Ok(())
}

async fn write(
    database: &Database,
    sku: &Sku,
    buyer: &Buyer,
    ticket: &Ticket,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    sqlx::query("INSERT INTO naive_tickets (ticket, sku, buyer, sold_at) VALUES ($1, $2, $3, $4)")
        .bind(ticket.as_str())
        .bind(sku.as_str())
        .bind(buyer.as_str())
        .bind(number(now.as_micros()))
        .execute(database.writer())
        .await?;
    Ok(())
}

/// Others run meanwhile, as they do while one waits for a server.
async fn round_trip() {
    tokio::task::yield_now().await;
}
