//! Which handler answers what.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::extract::Request;
use axum::middleware::Next;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use lockkeeper::{Error, Subject};
use lockkeeper_tower::RateLimitLayer;
use lockkeeper_tower::rate_limit::{Refusal, RefusalKind, Rule, Who};
use std::time::Duration;

use super::account::account_of;
use super::body::MAX_BODY;
use super::guard::guard;
use super::problem::Problem;
use super::reason::Reason;
use super::shop::Shop;
use super::{health, orders, seckill};
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

/// From the outside in: who asks, how fast, and then the order.
fn place_order(shop: &Shop) -> Result<MethodRouter<Shop>, Error> {
    let account = Who::by(|parts| Some(Subject::of("account", account_of(&parts.headers).ok()?.as_str())));
    let rule = Rule::new(shop.order_limit().clone(), account);
    let limit = RateLimitLayer::new([rule])?.respond_with(refused);
    // The idempotency layer goes here, inside of the limit.
    Ok(post(orders::place).layer(limit).layer(from_fn(known)))
}

/// Nobody without an account is counted, or let in.
async fn known(request: Request, next: Next) -> Response {
    match account_of(request.headers()) {
        Ok(_) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn refused(refusal: &Refusal) -> Response {
    let limit = refusal.limit().map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let problem = match refusal.kind() {
        RefusalKind::Denied | RefusalKind::Never => {
            Problem::new(Reason::OrdersBusy, format!("The limit is {limit}."))
        }
        _ => Problem::new(Reason::StoreAway, "Whether a limit is exceeded is not known."),
    };
    match refusal.retry_after() {
        Some(seconds) => problem.after(Duration::from_secs(seconds)),
        None => problem,
    }
    .status(refusal.status())
    .into_response()
}
