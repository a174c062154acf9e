//! The page's numbers. However many people watch, the store is asked at most a few times per second.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::web::{Problem, Shop, StockBody};

/// How old the numbers may be.
const MAX_AGE: Duration = Duration::from_millis(200);

/// The numbers as they were a moment ago, or why there were none.
#[derive(Debug, Default)]
pub(crate) struct Live {
    last: Mutex<Option<(Instant, Result<StockBody, Problem>)>>,
}

/// What the page shows.
#[derive(Debug, Serialize)]
pub(crate) struct Numbers {
    pub(crate) stock: StockBody,
    /// Of this process, since it began.
    pub(crate) accepted: u64,
    /// Clicks of this process' buyers who had one already.
    pub(crate) repeated: u64,
    /// Of this process, by reason.
    pub(crate) refusals: BTreeMap<&'static str, Refused>,
}

/// How often, and why in words.
#[derive(Debug, Serialize)]
pub(crate) struct Refused {
    pub(crate) count: u64,
    pub(crate) title: &'static str,
}

impl Numbers {
    pub(super) async fn of(shop: &Shop) -> Result<Self, Problem> {
        let stock = stock(shop).await?;
        let tally = shop.tally();
        let refusals = tally
            .refusals()
            .map(|(reason, count)| (reason.as_str(), Refused { count, title: reason.title() }))
            .collect();
        Ok(Self { stock, accepted: tally.accepted(), repeated: tally.repeated(), refusals })
    }
}

pub(crate) async fn live(State(shop): State<Shop>) -> Result<Json<Numbers>, Problem> {
    Numbers::of(&shop).await.map(Json)
}

/// One asks, the others wait for it.
pub(crate) async fn stock(shop: &Shop) -> Result<StockBody, Problem> {
    let mut last = shop.live().last.lock().await;
    if let Some((at, stock)) = &*last
        && at.elapsed() < MAX_AGE
    {
        return stock.clone();
    }
    let stock = shop.sales().stock(shop.featured()).await;
    let stock = stock.map(StockBody::from).map_err(Problem::from);
    *last = Some((Instant::now(), stock.clone()));
    stock
}
