//! "Never earlier than told" holds for the client, and not only for the request that was told.

use http::Method;
use lockkeeper_tower::RetryAfterLayer;
use lockkeeper_tower::retry_after::{RetryPolicy, ShedReason};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tower::Layer;

use super::support::{
    Outcome, Server, assert_within, client, code, counted, get, ms, policy, secs, send, shed, told,
};

fn reason(outcome: &Outcome) -> Option<ShedReason> {
    shed(outcome).map(|shed| shed.reason)
}

/// Refusals are passed on, so that only what they hold back is seen.
fn once() -> RetryPolicy {
    policy().max_attempts(1)
}

#[tokio::test(start_paused = true)]
async fn others_to_the_same_origin_wait_as_well() {
    let server = Server::new([told(429, "20")]);
    let (client, counts) = counted(&server, policy());
    let first = tokio::spawn({
        let client = client.clone();
        async move { code(&get(&client).await) }
    });
    sleep(secs(1)).await;
    let mut others = JoinSet::new();
    for _ in 0..50 {
        let client = client.clone();
        others.spawn(async move { code(&send(&client, Method::POST, "http://EXAMPLE.com:80/b").await) });
    }
    assert_eq!(others.join_all().await, vec![200; 50]);
    assert_eq!(first.await.unwrap(), 200);
    let mut later = server.arrivals().split_off(1);
    later.sort();
    later.iter().for_each(|arrival| assert_within(*arrival, secs(20), secs(25)));
    assert!(later[25] - later[0] > secs(1), "{later:?}");
    assert_eq!((counts().held_back, counts().shed), (50, 0));
}

#[tokio::test(start_paused = true)]
async fn other_origins_do_not_wait() {
    let server = Server::new([told(429, "20")]);
    let client = client(&server, once());
    assert_eq!(code(&get(&client).await), 429);
    for uri in ["http://example.org/a", "https://example.com/a", "http://example.com:8080/a"] {
        assert_eq!(code(&send(&client, Method::GET, uri).await), 200);
    }
    assert_eq!(server.arrivals(), [ms(0); 4]);
    assert_eq!(code(&get(&client).await), 200);
    assert_within(server.arrivals()[4], secs(20), secs(25));
}

#[tokio::test(start_paused = true)]
async fn who_would_wait_too_long_is_told_at_once() {
    let server = Server::new([told(503, "600")]);
    let (client, counts) = counted(&server, once());
    assert_eq!(code(&get(&client).await), 503);
    sleep(secs(100)).await;
    let start = Instant::now();
    let shed = shed(&get(&client).await).unwrap();
    assert_eq!((shed.reason, shed.retry_after), (ShedReason::HeldBack, Some(secs(500))));
    assert_eq!((start.elapsed(), counts().shed, server.arrivals().len()), (ms(0), 1, 1));
    sleep(secs(450)).await;
    assert_eq!(code(&get(&client).await), 200, "the rest is short enough");
    assert_within(server.arrivals()[1], secs(600), secs(615));
}

#[tokio::test(start_paused = true)]
async fn there_must_be_room_for_jitter() {
    let server = Server::new([told(503, "60")]);
    let client = client(&server, once().max_elapsed(secs(65)));
    assert_eq!(code(&get(&client).await), 503);
    assert_eq!(reason(&get(&client).await), Some(ShedReason::HeldBack));
    assert_eq!(server.arrivals().len(), 1);
    sleep(secs(5)).await;
    assert_eq!(code(&get(&client).await), 200, "10 s are room for a wait of 55 s");
    assert_within(server.arrivals()[1], secs(60), secs(70));
}

#[tokio::test(start_paused = true)]
async fn an_absurd_hint_holds_back_for_a_bounded_time() {
    let server = Server::new([told(429, "315360000")]);
    let client = client(&server, once());
    assert_eq!(code(&get(&client).await), 429);
    sleep(secs(3_500)).await;
    assert_eq!(reason(&get(&client).await), Some(ShedReason::HeldBack));
    sleep(secs(101)).await;
    assert_eq!(code(&get(&client).await), 200);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_bounded() {
    let server = Server::new([told(429, "20")]);
    let (client, counts) = counted(&server, once().max_held_back(3));
    assert_eq!(code(&get(&client).await), 429);
    let mut others = JoinSet::new();
    for _ in 0..5 {
        let client = client.clone();
        others.spawn(async move { reason(&get(&client).await) });
    }
    let mut reasons = others.join_all().await;
    reasons.sort_by_key(Option::is_some);
    let too_many = Some(ShedReason::TooManyHeldBack);
    assert_eq!(reasons, [None, None, None, too_many, too_many]);
    assert_eq!((counts().held_back, counts().shed), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_comes_while_the_client_gets_ready_counts() {
    let server = Server::new([told(429, "20")]).ready_after(secs(2));
    let client = client(&server, once());
    let first = tokio::spawn({
        let client = client.clone();
        async move { code(&get(&client).await) }
    });
    sleep(secs(1)).await;
    assert_eq!(code(&get(&client).await), 200);
    assert_eq!(first.await.unwrap(), 429);
    assert_within(server.arrivals()[1], secs(22), secs(22 + 5 + 2));
}

#[tokio::test(start_paused = true)]
async fn a_later_hint_that_comes_meanwhile_counts() {
    let slow = told(429, "50").takes(secs(10));
    let server = Server::new([slow, told(429, "20")]);
    let client = client(&server, once());
    let first = tokio::spawn({
        let client = client.clone();
        async move { code(&get(&client).await) }
    });
    sleep(secs(1)).await;
    assert_eq!(code(&get(&client).await), 429);
    assert_eq!(code(&get(&client).await), 200);
    assert_eq!(first.await.unwrap(), 429);
    assert_within(server.arrivals()[2], secs(60), secs(73));
}

#[tokio::test(start_paused = true)]
async fn holding_back_can_be_switched_off() {
    let server = Server::new([told(429, "20")]);
    let client = client(&server, once().hold_back(false));
    assert_eq!(code(&get(&client).await), 429);
    assert_eq!(code(&get(&client).await), 200);
    assert_eq!(server.arrivals(), [ms(0); 2]);
}

#[tokio::test(start_paused = true)]
async fn clones_of_the_layer_know_what_one_was_told() {
    let server = Server::new([told(429, "20")]);
    let layer = RetryAfterLayer::new(once()).unwrap();
    let (one, other) = (layer.clone().layer(server.clone()), layer.layer(server.clone()));
    assert_eq!(code(&get(&one).await), 429);
    assert_eq!(code(&get(&other).await), 200);
    assert_within(server.arrivals()[1], secs(20), secs(25));
    assert_eq!((layer.statistics().read().attempts, layer.statistics().read().held_back), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_longer_than_the_longest_wait_sheds() {
    let server = Server::new([told(503, "90")]);
    let client = client(&server, once());
    assert_eq!(code(&get(&client).await), 503);
    assert_eq!(reason(&get(&client).await), Some(ShedReason::HeldBack), "there would be time for it");
}
