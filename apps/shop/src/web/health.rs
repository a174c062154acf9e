//! Whether the store answers.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::problem::Problem;
use super::shop::Shop;

#[derive(Serialize)]
struct HealthBody {
    store: &'static str,
    round_trip_us: u64,
    held: usize,
}

pub(super) async fn health(State(shop): State<Shop>) -> Response {
    let health = shop.keeper().health().await;
    match health.round_trip {
        Ok(time) => {
            let round_trip_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            Json(HealthBody { store: health.store, round_trip_us, held: health.held }).into_response()
        }
        Err(error) => Problem::away(&error).into_response(),
    }
}
