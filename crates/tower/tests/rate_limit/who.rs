//! Whom a rule counts, and on which route.

use http::{HeaderName, Request};
use lockkeeper::{Keeper, Subject};
use lockkeeper_tower::rate_limit::{RateLimit, RoutePattern, Rule, Who};
use tower::Layer;

use crate::support::*;

/// One per hour: 200 is a new count, 429 a known one.
fn once(keeper: &Keeper, name: &str, who: Who) -> RateLimit<Inner> {
    served([Rule::new(keeper.limiter(name, "1/h").unwrap(), who)])
}

fn with_key(value: impl AsRef<[u8]>) -> Request<String> {
    let mut request = get("/", ADDRESS);
    request.headers_mut().insert("x-api-key", http::HeaderValue::from_bytes(value.as_ref()).unwrap());
    request
}

fn by_key() -> Who {
    Who::secret_header("api_key", HeaderName::from_static("x-api-key")).unwrap()
}

#[tokio::test]
async fn routes_count_by_pattern_and_method_and_head_is_get() {
    let (keeper, _clock) = stepped().await;
    let service = once(&keeper, "routes", by_address());
    let by = |method: &str, pattern: Option<&str>| {
        let mut request = get("/", ADDRESS);
        request.extensions_mut().remove::<RoutePattern>();
        pattern.map(|pattern| request.extensions_mut().insert(RoutePattern(pattern.into())));
        *request.method_mut() = method.parse().unwrap();
        request
    };
    let all = [
        by("GET", Some("/users/{id}")),
        by("HEAD", Some("/users/{id}")),
        by("POST", Some("/users/{id}")),
        by("GET", Some("/orders")),
        by("GET", None),
        by("GET", None),
        by("INVENTED", Some("/orders")),
        by("INVENTED2", Some("/orders")),
    ];
    assert_eq!(statuses(&service, all).await, [200, 429, 200, 200, 200, 429, 200, 429]);
}

#[tokio::test]
async fn a_route_can_be_found_in_another_way() {
    let (keeper, _clock) = stepped().await;
    let first_part = |parts: &http::request::Parts| Some(format!("/{}", parts.uri.path().split('/').nth(1)?));
    let service = layer([rule(&keeper, "a", "1/h")]).route_by(first_part).layer(Inner::default());
    let to = |path: &str| {
        let mut request = get("/the/pattern/is/not/asked", ADDRESS);
        *request.uri_mut() = path.parse().unwrap();
        request
    };
    assert_eq!(statuses(&service, ["/a/1", "/a/2", "/b/1"].map(to)).await, [200, 429, 200]);
}

#[tokio::test]
async fn all_routes_can_count_together() {
    let (keeper, _clock) = stepped().await;
    let service = once(&keeper, "all", by_address().over_all_routes());
    assert_eq!(statuses(&service, [get("/a", ADDRESS), get("/b", ADDRESS)]).await, [200, 429]);
}

#[tokio::test]
async fn r143_r145_keys_are_told_apart_by_all_their_bytes_and_none_is_too_long() {
    let (keeper, _clock) = stepped().await;
    let service = once(&keeper, "keys", by_key());
    let huge = vec![b'x'; 1 << 20];
    let mut other = huge.clone();
    other[(1 << 20) - 1] = b'y';
    let odd = [0xff, 0xfe, b' ', 0x80];
    let all =
        [&b"tess_live_1"[..], b"tess_live_2", &huge, &other, &huge, &odd, &odd, b"tess_live_1"].map(with_key);
    assert_eq!(statuses(&service, all).await, [200, 200, 200, 200, 429, 200, 429, 429]);
}

#[tokio::test]
async fn nothing_of_a_secret_is_on_the_server() {
    let clock = std::sync::Arc::new(lockkeeper::ManualClock::default());
    let store = lockkeeper::MemoryStore::new(clock.clone());
    let keeper = Keeper::builder().memory_store(store).clock(clock).connect().await.unwrap();
    let limiter = keeper.limiter("keys", "2/h").unwrap();
    let service = served([Rule::new(limiter.clone(), by_key().over_all_routes())]);
    send(&service, with_key("topsecret")).await;
    let digest = Subject::secret("api_key", "topsecret").unwrap();
    assert!(!digest.to_string().contains("topsecret"));
    assert_eq!(limiter.peek(&digest, 1).await.unwrap().remaining(), 1, "counted under the digest");
}

#[tokio::test]
async fn a_second_value_of_the_header_gives_no_new_count() {
    let (keeper, _clock) = stepped().await;
    let service = once(&keeper, "keys", by_key());
    let two = |second: &str| {
        let mut request = with_key("real");
        request.headers_mut().append("x-api-key", second.parse().unwrap());
        request
    };
    let mut without = with_key("x");
    without.headers_mut().remove("x-api-key");
    let all = [two("real"), two("real"), with_key("real"), two("other"), two("third"), without];
    assert_eq!(
        statuses(&service, all).await,
        [200, 429, 429, 200, 429, 429],
        "those that cannot be told are one"
    );
}

#[tokio::test]
async fn a_bearer_token_is_the_same_however_it_is_written() {
    let (keeper, _clock) = stepped().await;
    let service = once(&keeper, "bearer", Who::bearer_token());
    let with = |value: &str| {
        let mut request = get("/", ADDRESS);
        request.headers_mut().insert("authorization", value.parse().unwrap());
        request
    };
    let all =
        ["Bearer abc", "bearer   abc", "BEARER abc ", "Bearer abd", "Basic abc", "Bearerabc", "b", "Bearer "];
    assert_eq!(statuses(&service, all.map(with)).await, [200, 429, 429, 200, 200, 429, 429, 429]);
}

#[derive(Clone)]
struct User(&'static str);

#[tokio::test]
async fn r142_a_user_never_shares_a_count_with_an_address() {
    let (keeper, _clock) = stepped().await;
    let who = Who::extension(|user: &User| Subject::user(user.0)).or(by_address());
    let service = once(&keeper, "mixed", who);
    let as_user = |name: &'static str| {
        let mut request = get("/", ADDRESS);
        request.extensions_mut().insert(User(name));
        request
    };
    let all = [as_user("192.0.2.1"), get("/", ADDRESS), as_user("192.0.2.1"), get("/", ADDRESS), as_user("")];
    assert_eq!(statuses(&service, all).await, [200, 200, 429, 429, 429], "a user without a name falls back");
}

#[tokio::test]
async fn two_together_are_a_subject_of_their_own() {
    let (keeper, _clock) = stepped().await;
    let service = once(&keeper, "pairs", by_key().and(by_address()));
    let from = |key: &str, last: u8| {
        let mut request = get("/", [10, 0, 0, last]);
        request.headers_mut().insert("x-api-key", key.parse().unwrap());
        request
    };
    let all = [from("a", 1), from("a", 2), from("b", 1), from("a", 1)];
    assert_eq!(statuses(&service, all).await, [200, 200, 200, 429]);
}

#[tokio::test]
async fn your_own_way_may_not_know() {
    let (keeper, _clock) = stepped().await;
    let service = once(&keeper, "own", Who::by(|parts| Some(parts.headers.get("name")?.as_bytes().to_vec())));
    let named = |name: Option<&str>| {
        let mut request = get("/", ADDRESS);
        name.map(|name| request.headers_mut().insert("name", name.parse().unwrap()));
        request
    };
    let all = [Some("a"), Some("b"), Some("a"), None, Some(""), None].map(named);
    assert_eq!(statuses(&service, all).await, [200, 200, 429, 200, 429, 429]);
    assert!(Who::secret_header("Not A Kind", HeaderName::from_static("x")).is_err());
}
