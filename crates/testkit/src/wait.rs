//! Waiting for a condition with a bound, instead of sleeping and hoping.

use std::future::Future;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(2);

/// Asks `condition` until it is true; panics, saying `what`, after `limit`. Returns how long it took.
pub async fn until<F, Fut>(what: &str, limit: Duration, mut condition: F) -> Duration
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(STEP).await;
    }
    started.elapsed()
}
