//! Which requests the layer is for.

use axum::Router;
use axum::extract::Request;
use axum::routing::post as on_post;
use http::Method;

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
