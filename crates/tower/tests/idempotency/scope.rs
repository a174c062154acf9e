//! Whose keys they are.

use axum::extract::Request;
use http::StatusCode;
use lockkeeper_tower::ClientAddress;
use lockkeeper_tower::IdempotencyLayer;
use lockkeeper_tower::idempotency::{PeerAddress, Who};

use crate::support::*;

fn of(user: &str, request: Request) -> Request {
    with(request, "x-user", user)
}

#[tokio::test]
async fn c22_two_users_with_one_key_have_two_records() {
    let (router, runs) = numbered(builder(orders(&memory().await)));
    assert_eq!(send(&router, of("a", post("1", "same"))).await.text(), "run 1");
    let other = send(&router, of("b", post("1", "same"))).await;
    assert_eq!((other.text(), other.is_replay()), ("run 2", false), "nothing of the other one's");
    let again = send(&router, of("a", post("1", "same"))).await;
    assert_eq!((again.text(), again.is_replay(), runs.count()), ("run 1", true, 2));
}

#[tokio::test]
async fn c23_a_guessed_key_is_the_guesser_s_own_and_tells_nothing() {
    let (router, runs) = numbered(builder(orders(&memory().await)));
    send(&router, of("owner", post("telegram:7:42", "owner's"))).await;
    let guess = send(&router, of("attacker", post("telegram:7:42", "guess"))).await;
    assert_eq!((guess.status(), guess.text(), runs.count()), (200, "run 2", 2), "not even 422");
    let own = send(&router, of("attacker", post("telegram:7:42", "other"))).await;
    assert_eq!(own.status(), 422);
    for foreign in ["owner", "telegram", "attacker"] {
        assert!(!own.text().contains(foreign), "{}", own.text());
    }
}

#[tokio::test]
async fn c25_a_layer_that_was_not_told_whose_keys_they_are_cannot_be_built() {
    let once = orders(&memory().await);
    let error = IdempotencyLayer::builder(once.clone()).build().unwrap_err();
    assert!(error.to_string().contains("whose keys they are is not said"), "{error}");
    let (router, runs) = numbered(IdempotencyLayer::builder(once).shared_scope());
    send(&router, of("a", post("1", "same"))).await;
    assert!(send(&router, of("b", post("1", "same"))).await.is_replay(), "it was asked for");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn c25_a_request_whose_caller_cannot_be_told_is_refused_and_never_shared() {
    let keeper = memory().await;
    let (router, runs) = numbered(builder(orders(&keeper)));
    let mut nobody = post("1", "");
    nobody.headers_mut().remove("x-user");
    let refused = send(&router, nobody).await;
    assert_eq!((refused.status(), refused.problem_type()), (400, "idempotency-caller-unknown".to_owned()));
    let mut two = post("1", "");
    two.headers_mut().append("x-user", "b".parse().unwrap());
    assert_eq!(send(&router, two).await.status(), 400);
    assert_eq!(runs.count(), 0);

    let (router, _) = numbered(builder(orders(&keeper)).unknown_caller(StatusCode::UNAUTHORIZED));
    let mut nobody = post("1", "");
    nobody.headers_mut().remove("x-user");
    let refused = send(&router, nobody).await;
    assert_eq!((refused.status(), refused.problem_type()), (401, "idempotency-caller-unknown".to_owned()));
}

#[derive(Clone)]
struct Account(&'static str);

#[tokio::test]
async fn extensions_addresses_and_functions_can_say_whose_they_are() {
    let keeper = memory().await;
    let by_extension = Who::extension(|account: &Account| lockkeeper::Subject::user(account.0));
    let ways = [
        IdempotencyLayer::builder(keeper.once("extension").unwrap()).scope(by_extension),
        IdempotencyLayer::builder(keeper.once("address").unwrap()).scope(Who::address(ClientAddress::peer())),
        IdempotencyLayer::builder(keeper.once("function").unwrap())
            .scope_by(|request| Some(lockkeeper::Subject::user(request.extensions.get::<Account>()?.0))),
    ];
    for way in ways {
        let (router, runs) = numbered(way);
        let from = |account: &'static str, last: u8| {
            let mut request = post("1", "");
            request.extensions_mut().insert(Account(account));
            request.extensions_mut().insert(PeerAddress(([192, 0, 2, last], 4711).into()));
            request
        };
        send(&router, from("a", 1)).await;
        send(&router, from("b", 2)).await;
        assert!(send(&router, from("a", 1)).await.is_replay());
        assert_eq!(runs.count(), 2);
        assert_eq!(send(&router, post("1", "")).await.status(), 400, "nobody knows whose");
    }
}
