//! Orders.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::LOCATION;
use serde::{Deserialize, Serialize};

use super::account::{Account, Named};
use super::body::Body;
use super::problem::Problem;
use super::reason::Reason;
use super::shop::Shop;
use crate::orders::{Asked, Cents, Order, OrderNo, Placed, Status};

/// What a buyer sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskedBody {
    order_no: String,
    sku: String,
    amount_cents: i64,
}

/// What a buyer is shown.
#[derive(Serialize)]
struct OrderBody {
    order_no: OrderNo,
    sku: String,
    amount_cents: Cents,
    status: Status,
    charge: Option<String>,
}

impl AskedBody {
    fn checked(&self) -> Result<Asked, Problem> {
        let bad = |error: &dyn std::fmt::Display| Problem::new(Reason::BadBody, error.to_string());
        Ok(Asked {
            order_no: self.order_no.parse().map_err(|error| bad(&error))?,
            sku: self.sku.parse().map_err(|error| bad(&error))?,
            amount: Cents::new(self.amount_cents).map_err(|error| bad(&error))?,
        })
    }
}

impl From<Order> for OrderBody {
    fn from(order: Order) -> Self {
        let Order { order_no, sku, amount, status, charge, .. } = order;
        Self { order_no, sku: sku.to_string(), amount_cents: amount, status, charge }
    }
}

pub(super) async fn place(
    State(shop): State<Shop>,
    Account(buyer): Account,
    Body(asked): Body<AskedBody>,
) -> Result<Response, Problem> {
    let (status, order) = match shop.orders().place(&buyer, &asked.checked()?).await? {
        Placed::Now(order) => (StatusCode::CREATED, order),
        Placed::Before(order) => (StatusCode::OK, order),
    };
    let location = format!("/orders/{}", order.order_no);
    Ok((status, [(LOCATION, location)], Json(OrderBody::from(order))).into_response())
}

pub(super) async fn show(
    State(shop): State<Shop>,
    Account(buyer): Account,
    Named(order_no): Named<OrderNo>,
) -> Result<Json<impl Serialize>, Problem> {
    let order = shop.orders().show(&buyer, &order_no).await?;
    let unknown = || Problem::new(Reason::UnknownOrder, "This account has no order with this number.");
    order.map(|order| Json(OrderBody::from(order))).ok_or_else(unknown)
}
