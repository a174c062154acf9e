//! A server that refuses much gets less; one that is only slow does not.

use http::Method;
use lockkeeper_tower::retry_after::{BudgetPolicy, CircuitPolicy, RetryPolicy, ShedReason};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::support::{
    Client, Outcome, Server, client, counted, down, get, ms, policy, secs, send, shed, status,
};

fn once() -> RetryPolicy {
    policy().max_attempts(1)
}

fn is_shed(outcome: &Outcome) -> bool {
    shed(outcome).is_some_and(|shed| shed.reason == ShedReason::Overload)
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
    shed_of(&client, 2_400).await;
    assert_eq!(shed_of(&client, 100).await, 0, "after two windows of 2 min");
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
    server.now_answers(down());
    assert!(shed_of(&client, 40).await > 15, "they do not count as accepted, nor as failed before");
}

#[tokio::test(start_paused = true)]
async fn what_is_shed_counts_as_a_request() {
    let server = Server::always([], down());
    let (client, counts) = counted(&server, once().circuit(CircuitPolicy::default().max_shed(1.0)));
    shed_of(&client, 1_000).await;
    // The n-th request goes out with a chance of 1 in n, which makes 10 and then ln(1000/10) of them.
    assert!((11..=25).contains(&counts().attempts), "{:?}", counts());
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_shed_passes_its_refusal_on() {
    let server = Server::always([], status(503).takes(secs(5)));
    let rich = BudgetPolicy::default().per_second(1_000).max_saved(1_000_000);
    let (client, counts) = counted(&server, policy().budget(rich));
    let mut calls = JoinSet::new();
    for _ in 0..200 {
        let client = client.clone();
        calls.spawn(async move { get(&client).await.unwrap().status().as_u16() });
    }
    assert_eq!(calls.join_all().await, vec![503; 200]);
    // Nothing is known when they are sent. From the hundredth refusal on, more and more retries are shed.
    let counts = counts();
    assert_eq!((counts.attempts - counts.retries, counts.budget_exhausted), (200, 0));
    assert!(counts.shed > 50 && counts.retries < 400, "{counts:?}");
}
