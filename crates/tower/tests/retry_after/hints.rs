//! What the server tells is obeyed: never earlier, not much later, and not for ever.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::support::{
    Answer, Server, assert_within, client, code, counted, get, ms, policy, secs, status, told,
};

/// When the second request arrived after this answer to the first.
async fn second_arrival(first: Answer, seed: u64) -> Duration {
    let server = Server::new([first]);
    let outcome = get(&client(&server, policy().seed(seed))).await;
    assert_eq!(code(&outcome), 200);
    assert_eq!(server.arrivals().len(), 2);
    server.arrivals()[1]
}

#[tokio::test(start_paused = true)]
async fn r79_a_retry_comes_when_told_and_not_before() {
    for code in [429, 503] {
        assert_within(second_arrival(told(code, "2"), 1).await, secs(2), ms(2_500));
    }
}

#[tokio::test(start_paused = true)]
async fn r100_a_hint_of_zero_is_a_short_wait_with_jitter() {
    let mut arrivals = Vec::new();
    for seed in 0..50 {
        let arrival = second_arrival(told(429, "0"), seed).await;
        assert_within(arrival, ms(100), ms(200));
        arrivals.push(arrival);
    }
    arrivals.sort();
    assert!(arrivals[49] - arrivals[0] > ms(50), "{arrivals:?}");
}

#[tokio::test(start_paused = true)]
async fn r166_twenty_clients_told_the_same_do_not_return_together() {
    let server = Server::new(vec![told(503, "600"); 20]);
    let patient = || policy().max_wait(secs(600)).max_elapsed(secs(3_600));
    let mut clients = JoinSet::new();
    for seed in 0..20 {
        let client = client(&server, patient().seed(seed));
        clients.spawn(async move { code(&get(&client).await) });
    }
    assert_eq!(clients.join_all().await, vec![200; 20]);
    assert_spread(&server.arrivals()[20..]);
}

#[tokio::test(start_paused = true)]
async fn r166_twenty_requests_of_one_client_do_not_return_together() {
    let server = Server::new(vec![told(503, "600").takes(ms(10)); 20]);
    let client =
        client(&server, policy().max_wait(secs(600)).max_elapsed(secs(3_600)).circuit(None).budget(rich()));
    let mut requests = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        requests.spawn(async move { code(&get(&client).await) });
    }
    assert_eq!(requests.join_all().await, vec![200; 20]);
    assert_spread(&server.arrivals()[20..]);
}

fn rich() -> lockkeeper_tower::retry_after::BudgetPolicy {
    lockkeeper_tower::retry_after::BudgetPolicy::default().per_second(100)
}

fn assert_spread(returns: &[Duration]) {
    let (first, last) = (returns.iter().min().unwrap(), returns.iter().max().unwrap());
    assert!(*first >= secs(600), "{first:?}");
    assert!(*last - *first >= secs(60), "{returns:?}");
}

#[tokio::test(start_paused = true)]
async fn r167_no_seed_brings_a_retry_before_the_hint() {
    for seed in 0..200 {
        assert_within(second_arrival(told(429, "30"), seed).await, secs(30), ms(37_500));
    }
}

#[tokio::test(start_paused = true)]
async fn a_date_is_obeyed() {
    let date = told(503, "Sun, 06 Nov 1994 12:00:30 GMT").with("date", "Sun, 06 Nov 1994 12:00:10 GMT");
    assert_within(second_arrival(date, 1).await, secs(20), secs(25));
    let soon = std::time::SystemTime::now() + secs(40);
    let arrival = second_arrival(told(503, &httpdate::fmt_http_date(soon)), 1).await;
    // A date has whole seconds, and the wall clock is not paused.
    assert_within(arrival, secs(30), secs(50));
}

#[tokio::test(start_paused = true)]
async fn the_rate_limit_field_is_obeyed() {
    let field = status(429).with("ratelimit", r#""burst";r=0;t=12"#);
    assert_within(second_arrival(field, 1).await, secs(12), secs(15));
}

#[tokio::test(start_paused = true)]
async fn of_several_hints_the_latest_is_obeyed() {
    let twice = told(429, "1").with("retry-after", "20");
    assert_within(second_arrival(twice, 1).await, secs(20), secs(25));
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_is_too_long_is_passed_on_at_once_as_it_came() {
    for value in ["61", "315360000", "99999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        let server = Server::new([told(429, value).with("x-quota", "none")]);
        let (client, counts) = counted(&server, policy());
        let start = Instant::now();
        let answer = get(&client).await.unwrap();
        assert_eq!(answer.status(), 429);
        assert_eq!(
            (&answer.headers()["retry-after"], &answer.headers()["x-quota"]),
            (&value.parse().unwrap(), &"none".parse().unwrap())
        );
        assert_eq!((start.elapsed(), server.arrivals().len(), counts().retries), (Duration::ZERO, 1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_hint_is_still_waited_for() {
    assert_within(second_arrival(told(429, "60"), 1).await, secs(60), secs(75));
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_cannot_be_read_is_none() {
    for value in ["-5", "soon", "", "1e300"] {
        assert_within(second_arrival(told(429, value), 1).await, Duration::ZERO, ms(100));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_hint_the_waits_grow_with_full_jitter() {
    let mut first_waits = Vec::new();
    for seed in 0..100 {
        let server = Server::always([], status(503));
        let outcome = get(&client(&server, policy().seed(seed))).await;
        assert_eq!(code(&outcome), 503);
        let arrivals = server.arrivals();
        for (wait, most) in arrivals.windows(2).map(|pair| pair[1] - pair[0]).zip([100, 200, 400]) {
            assert_within(wait, Duration::ZERO, ms(most));
        }
        first_waits.push(arrivals[1]);
    }
    first_waits.sort();
    assert!(first_waits[0] < ms(15) && first_waits[99] > ms(85), "{first_waits:?}");
}
