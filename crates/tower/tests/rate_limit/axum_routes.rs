//! Under axum.

use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use axum::routing::get;
use http::{Method, Request};
use std::net::SocketAddr;
use tower::ServiceExt;

use crate::support::{layer, rule, stepped};

async fn status(router: &Router, method: Method, path: &str) -> u16 {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    router.clone().oneshot(request).await.unwrap().status().as_u16()
}

fn from_somewhere() -> MockConnectInfo<SocketAddr> {
    MockConnectInfo(([192, 0, 2, 1], 4711).into())
}

#[tokio::test]
async fn different_ids_of_one_route_count_together_and_unknown_paths_as_one() {
    let (keeper, _clock) = stepped().await;
    let nested = Router::new().route("/orders/{id}", get(async || "order"));
    let router = Router::new()
        .route("/users/{id}", get(async || "user").post(async || "posted"))
        .nest("/shop", nested)
        .fallback(async || "nothing here")
        .layer(layer([rule(&keeper, "api", "2/h")]))
        .layer(from_somewhere());
    for (method, path, expected) in [
        (Method::GET, "/users/1", 200),
        (Method::GET, "/users/2", 200),
        (Method::GET, "/users/3", 429),
        (Method::HEAD, "/users/4", 429),
        (Method::POST, "/users/1", 200),
        (Method::GET, "/shop/orders/1", 200),
        (Method::GET, "/shop/orders/2", 200),
        (Method::GET, "/shop/orders/3", 429),
        (Method::GET, "/made/up", 200),
        (Method::GET, "/invented", 200),
        (Method::GET, "/of/which/there/are/many", 429),
    ] {
        assert_eq!(status(&router, method.clone(), path).await, expected, "{method} {path}");
    }
}

#[tokio::test]
async fn another_layer_on_a_route_is_an_override() {
    let (keeper, _clock) = stepped().await;
    let router = Router::new()
        .route("/dear", get(async || "dear").layer(layer([rule(&keeper, "dear", "1/h")])))
        .route("/cheap", get(async || "cheap").layer(layer([rule(&keeper, "cheap", "3/h")])))
        .layer(from_somewhere());
    for (path, expected) in [("/dear", 200), ("/dear", 429), ("/cheap", 200), ("/cheap", 200)] {
        assert_eq!(status(&router, Method::GET, path).await, expected, "{path}");
    }
}
