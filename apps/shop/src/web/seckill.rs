//! The flash sale.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{HeaderValue, LOCATION};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use super::account::{Account, Named};
use super::problem::Problem;
use super::reason::Reason;
use super::shop::Shop;
use crate::page;
use crate::sale::{Bought, Buyer, Outcome, Sku, Stock, Ticket};

/// Why a ticket became no order, as buyers are told. What the database said of it is the shop's own business.
pub(crate) const NOT_WRITTEN: &str = "The order could not be written. Try again.";

/// What a buyer has.
pub(crate) struct Answer {
    pub(crate) ticket: Ticket,
    pub(crate) is_first: bool,
}

#[derive(Serialize)]
struct TicketBody<'a> {
    ticket: &'a str,
    outcome: &'a str,
}

/// The sale's numbers, as far as they are anybody's business.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct StockBody {
    pub(crate) initial: u64,
    pub(crate) remaining: i64,
    pub(crate) sold: u64,
    pub(crate) written: u64,
    pub(crate) queued: u64,
    pub(crate) refused: u64,
    pub(crate) withheld: u64,
    pub(crate) in_transit: u64,
}

impl From<Stock> for StockBody {
    fn from(stock: Stock) -> Self {
        let Stock { initial, remaining, sold, written, queued, refused, withheld, in_transit } = stock;
        Self { initial, remaining, sold, written, queued, refused, withheld, in_transit }
    }
}

#[derive(Serialize)]
struct OutcomeBody<'a> {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// One try to buy: past the limits, then one step on the store. Counted.
pub(crate) async fn attempt(shop: &Shop, sku: &Sku, buyer: &Buyer) -> Result<Answer, Problem> {
    // Names of nothing leave no trace in the store.
    if shop.sales().terms(sku).await?.is_none() {
        return Err(Problem::unknown_sale());
    }
    shop.admission().ask(sku, buyer).await?;
    let bought = shop.sales().buy(sku, buyer).await?;
    let answer = answer(bought)?;
    shop.tally().accept(answer.is_first);
    Ok(answer)
}

fn answer(bought: Bought) -> Result<Answer, Problem> {
    Err(match bought {
        Bought::Accepted { ticket } => return Ok(Answer { ticket, is_first: true }),
        Bought::AlreadyBought { ticket } => return Ok(Answer { ticket, is_first: false }),
        Bought::SoldOut => Problem::new(Reason::SoldOut, "Nothing is left of this sale."),
        Bought::NotOpen { opens_in: wait } => {
            Problem::new(Reason::NotOpen, format!("It opens in {} s.", wait.as_millis().div_ceil(1000)))
                .after(wait)
        }
        Bought::Closed => Problem::new(Reason::Closed, "This sale is over."),
        Bought::Unknown => Problem::unknown_sale(),
    })
}

pub(super) async fn buy(
    State(shop): State<Shop>,
    Account(buyer): Account,
    Named(sku): Named<Sku>,
) -> Result<Response, Problem> {
    let answer = attempt(&shop, &sku, &buyer).await?;
    let outcome = format!("/seckill/{}/outcome", utf8_percent_encode(sku.as_str(), NON_ALPHANUMERIC));
    let body = TicketBody { ticket: answer.ticket.as_str(), outcome: &outcome };
    let status = if answer.is_first { StatusCode::ACCEPTED } else { StatusCode::OK };
    let mut response = (status, Json(body)).into_response();
    if let Ok(location) = HeaderValue::try_from(&outcome) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

pub(super) async fn stock(
    State(shop): State<Shop>,
    Named(sku): Named<Sku>,
) -> Result<Json<StockBody>, Problem> {
    if sku == *shop.featured() {
        return page::stock(&shop).await.map(Json);
    }
    Ok(Json(shop.sales().stock(&sku).await?.into()))
}

pub(super) async fn outcome(
    State(shop): State<Shop>,
    Account(buyer): Account,
    Named(sku): Named<Sku>,
) -> Result<Response, Problem> {
    let outcome = shop.sales().outcome(&sku, &buyer).await?;
    let (state, ticket, reason) = match &outcome {
        Outcome::Pending(ticket) => ("pending", Some(ticket), None),
        Outcome::Ordered(ticket) => ("ordered", Some(ticket), None),
        Outcome::Refused { .. } => ("refused", None, Some(NOT_WRITTEN)),
        Outcome::None => ("none", None, None),
    };
    Ok(Json(OutcomeBody { state, ticket: ticket.map(Ticket::as_str), reason }).into_response())
}
