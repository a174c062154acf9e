//! Which requests the layer is for.

use axum::Router;
use axum::extract::Request;
use axum::routing::post as on_post;
use http::Method;
use http::request::Parts;
use lockkeeper_tower::idempotency::{Claim, Outcome};

use crate::support::*;

fn to(path: &str, mut request: Request) -> Request {
    *request.uri_mut() = path.parse().unwrap();
    request
}

#[tokio::test]
async fn c26_one_key_on_two_paths_is_two_operations() {
    let (router, runs) = numbered(builder(orders(&memory().await)));
    for path in ["/projects", "/applications", "/projects?dry=1", "/projects/"] {
        assert!(!send(&router, to(path, post("1", ""))).await.is_replay(), "{path}");
    }
    let mut patch = post("1", "");
    *patch.method_mut() = Method::PATCH;
    assert!(!send(&router, to("/projects", patch)).await.is_replay());
    assert!(send(&router, to("/projects", post("1", ""))).await.is_replay());
    assert_eq!(runs.count(), 5);
}

/// Inside of a nested router, requests lack the part of the path that was matched already.
#[tokio::test]
async fn c26_nested_routers_do_not_share_records() {
    let keeper = memory().await;
    let nested = |name: &'static str| {
        let layer = builder(orders(&keeper)).build().unwrap();
        Router::new().route("/items", on_post(async move || name)).layer(layer)
    };
    let router = Router::new().nest("/a", nested("a")).nest("/b", nested("b"));
    for path in ["/a/items", "/b/items"] {
        let first = send(&router, to(path, post("1", ""))).await;
        assert_eq!((first.text(), first.is_replay()), (&path[1..2], false));
        assert!(send(&router, to(path, post("1", ""))).await.is_replay());
    }
}

/// As a router further out leaves it that takes the first part off the path, and is not axum's.
fn stripped(path: &str) -> Request {
    let mut request = to(&path[2..], post("1", ""));
    request.extensions_mut().insert(Whole(path.to_owned()));
    request
}

#[derive(Clone)]
struct Whole(String);

#[tokio::test]
async fn c26_where_a_part_of_the_path_was_taken_off_the_route_says_what_was_asked_for() {
    let whole = |request: &Parts| request.extensions.get::<Whole>().unwrap().0.clone();
    for is_told in [false, true] {
        let layer = builder(orders(&memory().await));
        let layer = if is_told { layer.target_by(whole) } else { layer };
        let (router, runs) = app(layer, |run, _| async move { format!("run {run}") });
        send(&router, stripped("/a/items")).await;
        let other = send(&router, stripped("/b/items")).await;
        assert_eq!((other.is_replay(), runs.count()), (!is_told, 1 + usize::from(is_told)));
        assert!(send(&router, stripped("/a/items")).await.is_replay());
    }
}

#[tokio::test]
async fn other_methods_pass_untouched_also_with_a_key() {
    let (router, runs) = numbered(builder(orders(&memory().await)));
    for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
        for key in ["1", "two words"] {
            let mut request = post(key, "");
            *request.method_mut() = method.clone();
            request.headers_mut().remove("x-user");
            let answer = send(&router, request).await;
            assert_eq!((answer.status(), answer.is_replay()), (200, false), "{method}");
            assert_eq!(answer.field("idempotency-retention"), None);
        }
    }
    assert_eq!(runs.count(), 10);
    let (router, runs) = numbered(builder(orders(&memory().await)).methods([Method::PUT]));
    for _ in 0..2 {
        let mut request = post("1", "");
        *request.method_mut() = Method::PUT;
        assert_eq!(send(&router, request).await.text(), "run 1");
        send(&router, post("1", "")).await;
    }
    assert_eq!(runs.count(), 3, "PUT once, POST twice");
}

#[tokio::test]
async fn a_key_is_required_optional_or_required_on_some_routes() {
    let keyless = |path: &str| {
        let mut request = to(path, post("1", "body"));
        request.headers_mut().remove("idempotency-key");
        request
    };
    let keeper = memory().await;
    let (router, runs) = numbered(builder(orders(&keeper)));
    assert_eq!(send(&router, keyless("/orders")).await.problem_type(), "idempotency-key-missing");
    assert_eq!(runs.count(), 0);

    let (router, runs) = numbered(builder(orders(&keeper)).optional());
    for run in ["run 1", "run 2"] {
        let answer = send(&router, keyless("/orders")).await;
        assert_eq!((answer.text(), answer.headers.len()), (run, 2), "{answer:?}");
    }
    assert_eq!(send(&router, post("two words", "")).await.status(), 400, "optional, not anything");
    assert_eq!(runs.count(), 2);

    let paid = builder(orders(&keeper)).require_if(|request| request.uri.path() == "/payments");
    let (router, _) = numbered(paid);
    assert_eq!(send(&router, keyless("/payments")).await.status(), 400);
    assert_eq!(send(&router, keyless("/notes")).await.status(), 200);
}

#[tokio::test]
async fn quoted_and_bare_keys_are_the_same() {
    let (router, runs) = numbered(builder(orders(&memory().await)));
    send(&router, post("8e03978e", "")).await;
    for form in ["\"8e03978e\"", "8e03978e", "\"8e03978e\";v=1"] {
        assert!(send(&router, post(form, "")).await.is_replay(), "{form}");
    }
    let mut twice = post("8e03978e", "");
    twice.headers_mut().append("idempotency-key", "8e03978e".parse().unwrap());
    assert_eq!(send(&router, twice).await.problem_type(), "idempotency-key-malformed");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn operators_can_find_a_request_s_record() {
    let (keeper, _clock) = stepped().await;
    let once = orders(&keeper);
    let layer = builder(once.clone()).build().unwrap();
    let (router, _) = numbered(builder(once.clone()));
    send(&router, post("1", "")).await;
    let (parts, _) = post("1", "").into_parts();
    let key = layer.record_key(&parts).unwrap();
    assert!(key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    let record = once.inspect(&key).await.unwrap().unwrap();
    assert_eq!((record.phase, record.attempt), (lockkeeper::OncePhase::Completed, 1));
    let (parts, _) = with(post("1", ""), "x-user", "b").into_parts();
    assert!(once.inspect(layer.record_key(&parts).unwrap()).await.unwrap().is_none());
}

/// A layer on a router and another one on a route of it, with the same records.
#[tokio::test]
async fn of_two_layers_with_the_same_records_the_outer_one_counts() {
    let once = orders(&memory().await);
    let [inner, outer] = [(); 2].map(|()| builder(once.clone()).build().unwrap());
    let router = Router::new().route("/orders", on_post(async || "done").layer(inner)).layer(outer);
    let (first, second) = (send(&router, post("1", "")).await, send(&router, post("1", "")).await);
    assert_eq!(
        (first.status(), first.is_replay(), second.status(), second.is_replay()),
        (200, false, 200, true)
    );
}

/// The outer one's name ends with the inner one's.
#[tokio::test]
async fn layers_with_other_records_stand_for_themselves_however_they_are_called() {
    let keeper = memory().await;
    let onces = ["orders", "my_orders"].map(|name| keeper.once(name).unwrap());
    let [inner, outer] = onces.clone().map(|once| builder(once).build().unwrap());
    let handler = async |request: Request| {
        let claim = request.extensions().get::<Claim>().unwrap();
        format!("{}:{}", claim.once(), claim.key())
    };
    let key = inner.record_key(&post("1", "").into_parts().0).unwrap();
    let router = Router::new().route("/orders", on_post(handler).layer(inner)).layer(outer);
    let first = send(&router, post("1", "")).await;
    assert_eq!(first.text(), format!("orders:{key}"), "the inner one's, whole");
    for once in onces {
        assert!(once.inspect(&key).await.unwrap().is_some(), "{once:?} remembers it");
    }
}

/// Whoever repeats the request with the outer layer's key is not answered the inner one's refusal for ever.
#[tokio::test]
async fn what_a_layer_further_in_refuses_is_not_kept_further_out() {
    let keeper = memory().await;
    let (inner, outer) = (keeper.once("inner").unwrap(), keeper.once("outer").unwrap());
    let inner = builder(inner).max_request(4).build().unwrap();
    let handler = async || "done";
    let router = Router::new().route("/orders", on_post(handler).layer(inner));
    let router = router.layer(builder(outer).build().unwrap());
    let refused = send(&router, post("1", "too long")).await;
    assert_eq!((refused.status(), refused.field("idempotency-retention")), (413, None));
    assert_eq!(send(&router, post("1", "ok")).await.text(), "done", "the key is open");
}

#[tokio::test]
async fn whoever_answers_refusals_otherwise_may_say_what_becomes_of_a_key_further_out() {
    let layer = builder(orders(&memory().await)).respond_with(|refusal| {
        let mut answer = http::Response::new(bytes::Bytes::new());
        *answer.status_mut() = refusal.status();
        answer.extensions_mut().insert(Outcome::Kept);
        answer
    });
    let (router, _) = numbered(layer);
    let plain = numbered(builder(orders(&memory().await))).0;
    let malformed = || post("two words", "");
    let declared = |answer: &http::Response<_>| answer.extensions().get::<Outcome>().copied();
    assert_eq!(declared(&head(&router, malformed()).await), Some(Outcome::Kept));
    assert_eq!(declared(&head(&plain, malformed()).await), Some(Outcome::NoEffect));
}
