//! A shop whose orders are placed once per idempotency key, to be tried with `curl`:
//!
//! ```sh
//! cargo run -p lockkeeper-tower --features axum --example idempotent
//! cargo run -p lockkeeper-tower --features axum --example idempotent -- redis://127.0.0.1:6379 127.0.0.1:4000
//! ```
//!
//! The second `curl -i -H 'X-Api-Key: a' -H 'Idempotency-Key: 1' -d 'one book' 127.0.0.1:3000/orders` is answered:
//!
//! ```text
//! HTTP/1.1 201 Created
//! content-type: text/plain; charset=utf-8
//! location: /orders/1
//! idempotent-replayed: true
//! idempotency-retention: 86398
//! content-length: 18
//! date: Tue, 01 Dec 2026 02:58:52 GMT
//!
//! order 1: one book
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use http::{HeaderName, StatusCode};
use lockkeeper::Keeper;
use lockkeeper_tower::idempotency::{IdempotencyLayer, Who};
use tokio::net::TcpListener;

const TRY: &str = "
  curl -i -H 'X-Api-Key: a' -H 'Idempotency-Key: 1' -d 'one book' ADDRESS/orders     twice: the second time, the same order
  curl -i -H 'X-Api-Key: b' -H 'Idempotency-Key: 1' -d 'one book' ADDRESS/orders     somebody else's key
  curl -i -H 'X-Api-Key: a' -H 'Idempotency-Key: 1' -d 'two books' ADDRESS/orders    422: a different request
  curl -i -H 'X-Api-Key: a' -d 'one book' ADDRESS/orders                             400: no key
  curl -i -H 'X-Api-Key: a' -H 'Idempotency-Key: 1' -d '' ADDRESS/slow               takes 5 s; meanwhile, 409
  curl -i -H 'X-Api-Key: a' -H 'Idempotency-Key: 1' -d '' ADDRESS/broken             503, and every time anew
";

/// What the slow route takes.
const SLOW: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let store = arguments.next().unwrap_or_else(|| "memory://".to_owned());
    let address: SocketAddr = arguments.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned()).parse()?;

    let keeper = Keeper::connect(&store).await?;
    let listener = TcpListener::bind(address).await?;
    println!("records in {store}; try:\n{}", TRY.replace("ADDRESS", &listener.local_addr()?.to_string()));
    axum::serve(listener, router(&keeper)?).await?;
    Ok(())
}

fn router(keeper: &Keeper) -> Result<Router, lockkeeper::Error> {
    // Whose keys they are. A real service says it by the account that logged in: `Who::extension`.
    let caller = Who::secret_header("api_key", HeaderName::from_static("x-api-key"))?;
    let layer = IdempotencyLayer::builder(keeper.once("orders")?).scope(caller).build()?;

    Ok(Router::new()
        .route("/orders", post(order))
        .route("/slow", post(async || tokio::time::sleep(SLOW).await))
        .route("/broken", post(async || (StatusCode::SERVICE_UNAVAILABLE, "come back later\n")))
        .layer(layer)
        .with_state(Arc::default()))
}

async fn order(
    State(orders): State<Arc<AtomicU64>>,
    what: String,
) -> (StatusCode, [(&'static str, String); 1], String) {
    let order = orders.fetch_add(1, Ordering::SeqCst) + 1;
    (StatusCode::CREATED, [("location", format!("/orders/{order}"))], format!("order {order}: {what}\n"))
}
