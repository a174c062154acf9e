//! Invariant 8: every public future is dropped after its n-th poll, for every n, against a real server, and leaves no
//! key, no hold and no work behind.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::time::Duration;

use lockkeeper::{Acquired, Keeper};
use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::drops::drop_at_every_poll;
use lockkeeper_testkit::wait::until;
use support::{SOON, command, is_busy, ms, nothing_left, secs, server, take};

/// A compensation ends when the abandoned request's time has passed; a short limit keeps the tests short.
async fn keeper(server: &RedisServer) -> Keeper {
    Keeper::builder().url(&server.url()).unwrap().response_timeout(ms(300)).connect().await.unwrap()
}

#[tokio::test]
async fn acquiring() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let one = keeper.lock("a").unwrap();
    let several = keeper.lock_all(["a", "b{", "c"]).unwrap();
    for lock in [one, several] {
        let polls = drop_at_every_poll(
            || lock.try_acquire(),
            async |polls, output| {
                drop(output);
                nothing_left(&server, &keeper, format!("after {polls} polls")).await;
            },
        )
        .await;
        assert!(polls >= 2, "it was dropped in flight at least once");
        drop_at_every_poll(
            || lock.acquire(),
            async |polls, output| {
                drop(output);
                nothing_left(&server, &keeper, format!("after {polls} polls")).await;
            },
        )
        .await;
    }
}

/// L58, L56: while waiting for a busy key, which then becomes free.
#[tokio::test]
async fn waiting() {
    let Some(server) = server() else { return };
    let (keeper, other) = (keeper(&server).await, keeper(&server).await);
    let lock = keeper.lock_all(["a", "b"]).unwrap().wait(ms(120));
    let polls = drop_at_every_poll(
        || async {
            let holder = take(&other, "b", secs(10)).await;
            let result = lock.acquire().await;
            drop(holder);
            result
        },
        async |polls, output| {
            if let Some(result) = output {
                assert!(matches!(result.unwrap(), Acquired::Busy(_)));
            }
            nothing_left(&server, &keeper, format!("after {polls} polls")).await;
            nothing_left(&server, &other, format!("after {polls} polls")).await;
        },
    )
    .await;
    assert!(polls >= 3, "{polls}");
}

#[tokio::test]
async fn releasing() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let mut guards = Vec::new();
    for number in 0..20 {
        guards.push(take(&keeper, &format!("{number}"), secs(30)).await);
    }
    let mut left = guards.len();
    drop_at_every_poll(
        || guards.pop().unwrap().release(),
        async |polls, _output| {
            left -= 1;
            let held = async || command(&server, &["KEYS", "lock:[^~]*"]).as_array().unwrap().len();
            until(&format!("released after {polls} polls"), SOON, async || held().await == left).await;
        },
    )
    .await;
}

#[tokio::test]
async fn extending_inspecting_listing_and_forcing() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let guard = take(&keeper, "a", secs(30)).await;
    let still_held = async |keeper: &Keeper| assert!(is_busy(keeper, "a").await);
    drop_at_every_poll(|| guard.extend(secs(40)), async |_, _| still_held(&keeper).await).await;
    drop_at_every_poll(|| keeper.inspect("a"), async |_, _| still_held(&keeper).await).await;
    drop_at_every_poll(|| keeper.list(None), async |_, _| still_held(&keeper).await).await;
    drop_at_every_poll(|| keeper.health(), async |_, _| still_held(&keeper).await).await;
    drop_at_every_poll(|| async { drop(guard.lost()) }, async |_, _| still_held(&keeper).await).await;
    let stranger = lockkeeper::OwnerToken::given("stranger").unwrap();
    drop_at_every_poll(|| keeper.release_token("a", &stranger), async |_, _| still_held(&keeper).await).await;
    let shown = keeper.inspect("a").await.unwrap().holder.unwrap();
    drop_at_every_poll(|| keeper.force_release("a", &shown), async |_, _| ()).await;
    assert!(!is_busy(&keeper, "a").await);
    drop(guard);
    nothing_left(&server, &keeper, 0).await;
}

#[tokio::test]
async fn running() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let lock = keeper.lock("a").unwrap();
    drop_at_every_poll(
        || lock.run(async |_held| tokio::time::sleep(ms(5)).await),
        async |polls, _| nothing_left(&server, &keeper, format!("after {polls} polls")).await,
    )
    .await;
}

#[tokio::test]
async fn connecting_and_closing() {
    let Some(server) = server() else { return };
    let url = server.url();
    let clients = || command(&server, &["CLIENT", "LIST"]).as_str().unwrap().lines().count();
    let before = clients();
    drop_at_every_poll(|| Keeper::connect(&url), async |_, _| ()).await;
    until("connections are closed", SOON, async || clients() <= before).await;
    let keeper = keeper(&server).await;
    let _guard = take(&keeper, "a", secs(30)).await;
    drop_at_every_poll(|| keeper.close(Duration::from_secs(1)), async |_, _| ()).await;
    assert!(keeper.lock("a").unwrap().try_acquire().await.is_err());
}
