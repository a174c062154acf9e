//! What all handlers share.

use std::sync::Arc;

use lockkeeper::{Error, Keeper, Limiter};
use lockkeeper_tower::idempotency::IdempotencyLayer;

use super::admission::Admission;
use super::protect;
use super::tally::Tally;
use crate::config::Limits;
use crate::orders::Orders;
use crate::page::Live;
use crate::sale::{Sales, Sku};

const ORDERS: &str = "orders";

/// What a shop is made of.
#[derive(Clone)]
pub struct Parts {
    /// Locks and limits.
    pub keeper: Keeper,
    /// The flash sales.
    pub sales: Sales,
    /// The orders.
    pub orders: Orders,
    /// How fast people are let in.
    pub limits: Limits,
    /// The sale on the front page.
    pub featured: Sku,
}

/// A shop. Cheap to clone.
#[derive(Clone)]
pub struct Shop {
    inner: Arc<Inner>,
}

struct Inner {
    parts: Parts,
    admission: Admission,
    order_limit: Limiter,
    once: IdempotencyLayer,
    tally: Tally,
    live: Live,
}

impl Shop {
    /// Of these parts.
    ///
    /// # Errors
    /// The keeper has no limits.
    pub fn new(parts: Parts) -> Result<Self, Error> {
        let admission = Admission::new(&parts.keeper, &parts.limits)?;
        let order_limit = parts.keeper.limiter(ORDERS, parts.limits.orders)?;
        let once = protect::once(&parts.keeper)?;
        let (tally, live) = (Tally::default(), Live::default());
        Ok(Self { inner: Arc::new(Inner { parts, admission, order_limit, once, tally, live }) })
    }

    /// How it has answered so far.
    pub fn tally(&self) -> &Tally {
        &self.inner.tally
    }

    /// The flash sales.
    pub fn sales(&self) -> &Sales {
        &self.inner.parts.sales
    }

    /// The orders.
    pub fn orders(&self) -> &Orders {
        &self.inner.parts.orders
    }

    /// The sale on the front page.
    pub fn featured(&self) -> &Sku {
        &self.inner.parts.featured
    }

    pub(super) fn keeper(&self) -> &Keeper {
        &self.inner.parts.keeper
    }

    pub(super) fn admission(&self) -> &Admission {
        &self.inner.admission
    }

    /// Waits until no order with an idempotency key is being made, also for clients that have gone.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn drained(&self) {
        self.inner.once.drained().await;
    }

    pub(super) fn once(&self) -> &IdempotencyLayer {
        &self.inner.once
    }

    pub(super) fn order_limit(&self) -> &Limiter {
        &self.inner.order_limit
    }

    pub(crate) fn live(&self) -> &Live {
        &self.inner.live
    }
}
