//! A server that refuses much gets less; one that is only slow does not.

use http::Method;
use lockkeeper_tower::retry_after::{CircuitPolicy, RetryPolicy, ShedReason};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::support::{Client, Outcome, Server, client, counted, down, get, ms, policy, secs, send, status};

fn once() -> RetryPolicy {
    policy().max_attempts(1)
}

fn is_shed(outcome: &Outcome) -> bool {
    let shed = outcome.as_ref().err().and_then(|error| error.shed());
    shed.is_some_and(|shed| shed.reason == ShedReason::Overload)
}

/// How many of so many requests, 100 ms apart, are shed.
async fn shed_of(client: &Client, requests: usize) -> usize {
    let mut shed = 0;
    for _ in 0..requests {
        shed += usize::from(is_shed(&get(client).await));
        sleep(ms(100)).await;
    }
    shed
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_everything_gets_a_tenth() {
    for refusal in [status(429), status(503), down()] {
        let server = Server::always([], refusal);
        let (client, counts) = counted(&server, once());
        assert_eq!(shed_of(&client, 10).await, 0, "too few to judge");
        let shed = shed_of(&client, 1_000).await;
        assert!((850..=940).contains(&shed), "{shed}");
        assert_eq!((counts().shed, counts().attempts), (shed as u64, 1_010 - shed as u64));
        assert_eq!(server.arrivals().len(), 1_010 - shed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_half_gets_everything() {
    let half: Vec<_> = (0..500).flat_map(|_| [status(200), status(503)]).collect();
    assert_eq!(shed_of(&client(&Server::new(half), once()), 1_000).await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_outage_is_seen() {
    let server = Server::always([], status(503));
    let client = client(&server, once());
    assert!(shed_of(&client, 2_000).await > 1_500);
    server.now_answers(status(200));
    shed_of(&client, 3_600).await;
    assert_eq!(shed_of(&client, 100).await, 0, "after three windows of 2 min");
}

#[tokio::test(start_paused = true)]
async fn one_origin_does_not_shed_another() {
    let server = Server::always([], down());
    let client = client(&server, once());
    shed_of(&client, 100).await;
    server.now_answers(status(200));
    for _ in 0..50 {
        assert!(!is_shed(&send(&client, Method::GET, "http://example.org").await));
    }
}

#[tokio::test(start_paused = true)]
async fn r169_slow_calls_count_when_they_are_sent() {
    let server = Server::always([], down().takes(secs(15)));
    let client = client(&server, once());
    let mut calls = JoinSet::new();
    for _ in 0..100 {
        let client = client.clone();
        calls.spawn(async move { is_shed(&get(&client).await) });
    }
    assert!(!calls.join_all().await.contains(&true), "what is under way is not judged");
    server.now_answers(status(200));
    assert!(is_shed(&get(&client).await) || is_shed(&get(&client).await), "all 100 failed within the window");
    sleep(secs(112)).await;
    assert_eq!(shed_of(&client, 20).await, 0, "they were sent more than a window ago");
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_dropped_say_nothing() {
    let server = Server::always([], status(200).takes(secs(60)));
    let client = client(&server, once());
    for _ in 0..100 {
        assert!(timeout(ms(10), get(&client)).await.is_err());
    }
    server.now_answers(status(200));
    assert_eq!(shed_of(&client, 50).await, 0);
    // Nor do they count as accepted: ten failures after a hundred of them are all there is.
    server.now_answers(down());
    let strict = CircuitPolicy::default().min_requests(60);
    assert_eq!(shed_of(&super::support::client(&server, once().circuit(strict)), 59).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_shed_passes_its_refusal_on() {
    let server = Server::always([], status(503));
    let (client, counts) =
        counted(&server, policy().circuit(CircuitPolicy::default().min_requests(1).max_shed(1.0)));
    let mut passed_on = 0;
    for _ in 0..50 {
        passed_on += usize::from(get(&client).await.is_ok_and(|answer| answer.status() == 503));
    }
    assert!(passed_on > 0 && counts().shed >= 45, "{passed_on} {:?}", counts());
    assert!(counts().attempts < 30, "{:?}", counts());
}
