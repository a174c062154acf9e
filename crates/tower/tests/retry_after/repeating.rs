//! What is sent again, and what is not.

use http::{Method, Request, StatusCode};
use lockkeeper_tower::RetryAfterLayer;
use tower::timeout::Timeout;
use tower::{Layer, ServiceExt};

use super::support::{Answer, Down, Server, URI, client, code, down, get, policy, secs, send, status, told};

/// How often a request with this method is sent when the first answer is this one.
async fn sent(method: Method, first: Answer) -> usize {
    let server = Server::new([first]);
    let outcome = send(&client(&server, policy()), method, URI).await;
    let sent = server.arrivals().len();
    assert_eq!(sent == 2, outcome.is_ok_and(|answer| answer.status() == 200));
    sent
}

#[tokio::test(start_paused = true)]
async fn idempotent_methods_are_sent_again_after_everything() {
    for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
        for first in [status(429), status(503), told(429, "1"), told(503, "1"), down()] {
            assert_eq!(sent(method.clone(), first.clone()).await, 2, "{method} {first:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn others_are_sent_again_only_when_they_were_refused_before_acting() {
    for method in [Method::POST, Method::PATCH] {
        for first in [status(429), told(429, "1"), told(503, "1")] {
            assert_eq!(sent(method.clone(), first.clone()).await, 2, "{method} {first:?}");
        }
        let rate_limit_only = status(503).with("ratelimit", r#""a";r=0;t=1"#);
        for first in [status(503), told(503, "soon"), rate_limit_only, down()] {
            assert_eq!(sent(method.clone(), first.clone()).await, 1, "{method} {first:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn other_statuses_are_answers() {
    for answer in [status(404), status(500), told(500, "1"), told(502, "1"), told(301, "1")] {
        assert_eq!(sent(Method::GET, answer).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn statuses_and_methods_can_be_chosen() {
    let server = Server::new([status(502)]);
    let policy = policy().statuses([StatusCode::BAD_GATEWAY]).idempotent_methods([Method::POST]);
    let client = client(&server, policy);
    assert_eq!(code(&send(&client, Method::POST, URI).await), 200);
    server.now_answers(status(429));
    assert_eq!(code(&get(&client).await), 429);
    assert_eq!(server.arrivals().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_copied_is_sent_once() {
    let server = Server::new([told(429, "1")]);
    let layer = RetryAfterLayer::default().clone_request_with(|_: &Request<()>| None);
    let answer = layer.layer(server.clone()).oneshot(Request::get(URI).body(()).unwrap()).await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!(server.arrivals().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_failure_is_passed_on() {
    let server = Server::always([], down());
    let outcome = get(&client(&server, policy())).await;
    assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&Down), "as it came");
    assert_eq!(server.arrivals().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn errors_that_will_not_pass_are_passed_on_at_once() {
    let server = Server::always([], down());
    let client = client(&server, policy().errors_that_may_pass(|error| !error.is::<Down>()));
    for _ in 0..50 {
        assert_eq!(
            get(&client).await.unwrap_err().downcast_ref(),
            Some(&Down),
            "and the circuit ignores them"
        );
    }
    assert_eq!(server.arrivals().len(), 50);
}

#[tokio::test(start_paused = true)]
async fn it_goes_between_other_layers() {
    let server = Server::always([], status(200).takes(secs(60)));
    let timed = Timeout::new(server.clone(), secs(1));
    let client = Timeout::new(RetryAfterLayer::default().layer(timed), secs(30));
    let outcome = client.oneshot(Request::get(URI).body(()).unwrap()).await;
    assert!(outcome.unwrap_err().is::<tower::timeout::error::Elapsed>());
    assert_eq!(server.arrivals().len(), 4, "each attempt has its own time");
}
