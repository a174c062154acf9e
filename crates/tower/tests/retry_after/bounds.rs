//! Attempts, time and the budget end; who goes away leaves nothing.

use std::time::Duration;

use lockkeeper_tower::retry_after::{BudgetPolicy, ShedReason};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::support::{
    Server, assert_within, client, code, counted, down, get, policy, secs, shed, status, told,
};

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded() {
    for attempts in [1, 2, 4] {
        let server = Server::always([], told(429, "1"));
        let (client, counts) = counted(&server, policy().max_attempts(attempts));
        assert_eq!(code(&get(&client).await), 429);
        assert_eq!(server.arrivals().len() as u32, attempts);
        assert_eq!((counts().attempts, counts().retries), (attempts.into(), u64::from(attempts) - 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_would_end_too_late_is_not_begun() {
    let server = Server::always([], told(429, "50"));
    let start = Instant::now();
    assert_eq!(code(&get(&client(&server, policy().jitter(0.1))).await), 429);
    assert_eq!(server.arrivals().len(), 3);
    assert_eq!(start.elapsed(), server.arrivals()[2], "the last refusal is passed on at once");
}

#[tokio::test(start_paused = true)]
async fn the_budget_bounds_the_retries_of_all_clones() {
    let server = Server::always([], down());
    let (client, counts) = counted(&server, policy().circuit(None));
    let mut calls = JoinSet::new();
    for _ in 0..1_000 {
        let client = client.clone();
        calls.spawn(async move { get(&client).await.is_err() });
    }
    assert!(calls.join_all().await.into_iter().all(|failed| failed));
    // A fifth of 1,000 was paid in, at most 100 of it can lie there; 10 there were, and 1 per second.
    let counts = counts();
    assert!((100..=212).contains(&counts.retries), "{counts:?}");
    assert_eq!(counts.attempts, 1_000 + counts.retries);
    assert!(counts.budget_exhausted >= 788, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_budget_the_refusal_is_passed_on_at_once() {
    let server = Server::new([told(429, "5")]);
    let (client, counts) = counted(&server, policy().budget(BudgetPolicy::default().max_saved(0)));
    let start = Instant::now();
    assert_eq!(code(&get(&client).await), 429);
    assert_eq!((start.elapsed(), counts().budget_exhausted), (Duration::ZERO, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_it_waits_sends_nothing_more() {
    let server = Server::new([told(429, "5")]);
    let (client, counts) = counted(&server, policy().max_held_back(1));
    assert!(timeout(secs(1), get(&client)).await.is_err());
    assert!(timeout(secs(1), get(&client)).await.is_err(), "held back");
    sleep(secs(60)).await;
    assert_eq!(server.arrivals().len(), 1);
    // Its place among those who wait is free again.
    server.now_answers(told(429, "1"));
    assert_eq!(code(&get(&client).await), 429);
    server.now_answers(status(200));
    assert_eq!(code(&get(&client).await), 200);
    assert_eq!((counts().held_back, counts().shed), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_get_ready_is_given_up() {
    let server = Server::new([]).ready_after(secs(600));
    let (client, counts) = counted(&server, policy().max_elapsed(secs(5)));
    let start = Instant::now();
    assert_eq!(shed(&get(&client).await).unwrap().reason, ShedReason::NotReady);
    assert_within(start.elapsed(), secs(5), secs(5));
    assert_eq!((counts().attempts, counts().shed), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_long_is_not_cut_off() {
    let server = Server::new([status(200).takes(secs(600))]);
    assert_eq!(code(&get(&client(&server, policy())).await), 200);
    assert_eq!(server.arrivals().len(), 1);
}
