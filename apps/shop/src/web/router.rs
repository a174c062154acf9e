//! Which handler answers what.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, get, post};
use lockkeeper::Error;

use super::body::MAX_BODY;
use super::guard::guard;
use super::problem::Problem;
use super::reason::Reason;
use super::shop::Shop;
use super::{health, orders, protect, seckill};
use crate::page;

/// The shop as a service.
///
/// # Errors
/// A limit is not valid.
pub fn router(shop: Shop) -> Result<Router, Error> {
    let router = Router::new()
        .route("/orders", place_order(&shop)?)
        .route("/orders/{order_no}", get(orders::show))
        .route("/seckill/{sku}", post(seckill::buy))
        .route("/seckill/{sku}/stock", get(seckill::stock))
        .route("/seckill/{sku}/outcome", get(seckill::outcome))
        .route("/healthz", get(health::health))
        .route("/", get(page::show).post(page::buy))
        .route("/live", get(page::live))
        .route("/page.css", get(page::style))
        .route("/page.js", get(page::script))
        .fallback(async || Problem::new(Reason::UnknownPath, "There is nothing at this path."))
        .method_not_allowed_fallback(async || Problem::new(Reason::BadMethod, "This path has other methods."))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn_with_state(shop.clone(), guard));
    Ok(router.with_state(shop))
}

/// From the outside in: who asks, how fast, whether it was asked before, and then the order.
fn place_order(shop: &Shop) -> Result<MethodRouter<Shop>, Error> {
    let place = post(orders::place).route_layer(shop.once().clone());
    let place = place.route_layer(from_fn(protect::recognized));
    Ok(place.route_layer(protect::limit(shop.order_limit().clone())?).route_layer(from_fn(protect::known)))
}
