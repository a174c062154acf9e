//! A server with limits, to be tried with `curl`:
//!
//! ```sh
//! cargo run -p lockkeeper-tower --features axum --example limited
//! cargo run -p lockkeeper-tower --features axum --example limited -- redis://127.0.0.1:6379 127.0.0.1:4000
//! ```
//!
//! The sixth `curl -i 127.0.0.1:3000/` within ten seconds is answered:
//!
//! ```text
//! HTTP/1.1 429 Too Many Requests
//! content-type: application/problem+json
//! ratelimit-policy: "general";q=5;w=10
//! ratelimit: "general";r=0;t=2
//! retry-after: 2
//! content-length: 272
//! date: Mon, 30 Nov 2026 00:14:36 GMT
//!
//! {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,
//! "detail":"The limit is 5/10s token-bucket. Try again in 2 s.","violated-policies":["general"],"policy":"general",
//! "limit":"5/10s token-bucket","retry_after":2}
//! ```

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use lockkeeper::Keeper;
use lockkeeper_tower::ClientAddress;
use lockkeeper_tower::rate_limit::{RateLimitLayer, Rule, Who};
use tokio::net::TcpListener;

const TRY: &str = "
  for i in 1 2 3 4 5 6; do curl -i ADDRESS/; done               5 per 10 s
  for i in 1 2 3 4 5 6; do curl -i ADDRESS/users/$i; done       the same for all users together: a route, not a path
  for i in 1 2 3; do curl -i ADDRESS/search; done               2 per second and 20 per minute
  for i in 1 2 3; do curl -i ADDRESS/expensive; done            costs 5 of 12 per minute
  for i in 1 2 3 4 5 6; do curl -i ADDRESS/health; done         never limited
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let store = arguments.next().unwrap_or_else(|| "memory://".to_owned());
    let address: SocketAddr = arguments.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned()).parse()?;

    let keeper = Keeper::connect(&store).await?;
    let listener = TcpListener::bind(address).await?;
    println!("limits in {store}; try:\n{}", TRY.replace("ADDRESS", &listener.local_addr()?.to_string()));
    // Without connect info nobody's address is known, and all clients have one count together.
    let service = router(&keeper)?.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await?;
    Ok(())
}

fn router(keeper: &Keeper) -> Result<Router, Box<dyn Error>> {
    // Who is counted: the address at the other end. Behind proxies, say how many: `ClientAddress::trusted_hops(1)?`.
    let client = || Who::address(ClientAddress::peer());
    let rule = |name, limits| Ok::<_, lockkeeper::Error>(Rule::new(keeper.limiter(name, limits)?, client()));

    let general =
        RateLimitLayer::new([rule("general", "5/10s")?])?.skip(|request| request.uri.path() == "/health");
    let search = RateLimitLayer::new([rule("search", "2/s; 20/min")?])?;
    let expensive = RateLimitLayer::new([rule("expensive", "12/min")?.cost(|_| 5)])?;

    Ok(Router::new()
        .route("/", get(async || "hello\n"))
        .route("/users/{id}", get(async |Path(id): Path<String>| format!("user {id}\n")))
        .route("/health", get(async || "well\n"))
        // For the routes above; those below have layers of their own.
        .layer(general)
        .route("/search", get(async || "found\n").layer(search))
        .route("/expensive", get(async || "done\n").layer(expensive)))
}
