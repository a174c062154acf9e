//! What clients are told: status, fields, problem details.

use http::{Response, StatusCode};
use lockkeeper::Limit;
use lockkeeper_tower::rate_limit::{RateLimitHeaders, RateLimitLayer, Refusal, RefusalKind, Rule, Who};
use serde_json::{Value, json};
use sfv::{BareItem, List, ListEntry, Parser};
use tower::{Layer, service_fn};

use crate::support::*;

fn problem(response: &Response<String>) -> Value {
    assert_eq!(field(response, "content-type"), Some("application/problem+json"));
    serde_json::from_str(response.body()).unwrap()
}

#[tokio::test]
async fn an_answer_says_how_the_limit_stands_and_a_refusal_when_to_come_back() {
    let (keeper, clock) = stepped().await;
    let inner = Inner::default();
    let service = layer([rule(&keeper, "login", "2/10s")]).layer(inner.clone());
    let allowed = send(&service, get("/login", ADDRESS)).await;
    assert_eq!((allowed.status(), &allowed.body()[..]), (StatusCode::OK, "Some(1)"));
    assert_eq!(fields(&allowed), ["ratelimit-policy: \"login\";q=2;w=10", "ratelimit: \"login\";r=1;t=5"]);
    clock.advance(ms(1500));
    send(&service, get("/login", ADDRESS)).await;
    let refused = send(&service, get("/login", ADDRESS)).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        fields(&refused),
        [
            "content-type: application/problem+json",
            "ratelimit-policy: \"login\";q=2;w=10",
            "ratelimit: \"login\";r=0;t=4",
            "retry-after: 4",
        ],
        "3.5 s, rounded up"
    );
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Too many requests",
        "status": 429,
        "detail": "The limit is 2/10s token-bucket. Try again in 4 s.",
        "violated-policies": ["login"],
        "policy": "login",
        "limit": "2/10s token-bucket",
        "retry_after": 4,
    });
    assert_eq!(problem(&refused), expected);
    assert_eq!(inner.calls(), 2, "the refused request went no further");
}

#[tokio::test]
async fn r79_r80_retry_after_is_rounded_up_and_never_zero_and_then_it_passes() {
    let (keeper, clock) = stepped().await;
    for (limit, left, told) in
        [("1/1500ms", 1500, 2), ("1/200ms", 200, 1), ("1/2s", 2000, 2), ("1/2001ms", 2001, 3)]
    {
        let service = served([rule(&keeper, "a", limit)]);
        send(&service, get("/", ADDRESS)).await;
        let refused = send(&service, get("/", ADDRESS)).await;
        assert_eq!(field(&refused, "retry-after"), Some(&*told.to_string()), "{limit}");
        assert_eq!(problem(&refused)["retry_after"], told);
        clock.advance(ms(left - 1));
        assert_eq!(send(&service, get("/", ADDRESS)).await.status(), 429, "{limit} a millisecond early");
        clock.advance(secs(told) - ms(left - 1));
        assert_eq!(send(&service, get("/", ADDRESS)).await.status(), 200, "{limit} when told");
    }
}

#[tokio::test]
async fn r164_several_limits_have_an_item_each_and_the_one_that_refused_is_named() {
    let (keeper, clock) = stepped().await;
    let service = served([rule(&keeper, "search", "2/s; 3/min fixed-window")]);
    let first = send(&service, get("/search", ADDRESS)).await;
    assert_eq!(field(&first, "ratelimit-policy"), Some("\"search-1\";q=2;w=1, \"search-2\";q=3;w=60"));
    assert_eq!(field(&first, "ratelimit"), Some("\"search-1\";r=1;t=1, \"search-2\";r=2;t=60"));
    send(&service, get("/search", ADDRESS)).await;
    let by_second = send(&service, get("/search", ADDRESS)).await;
    assert_eq!(field(&by_second, "ratelimit"), Some("\"search-1\";r=0;t=1, \"search-2\";r=1;t=60"));
    assert_eq!(problem(&by_second)["violated-policies"], json!(["search-1"]));
    clock.advance(secs(1));
    send(&service, get("/search", ADDRESS)).await;
    send(&service, get("/search", ADDRESS)).await;
    send(&service, get("/search", ADDRESS)).await;
    let by_minute = send(&service, get("/search", ADDRESS)).await;
    let problem = problem(&by_minute);
    assert_eq!(
        (&problem["policy"], &problem["violated-policies"]),
        (&json!("search-2"), &json!(["search-2"]))
    );
    assert_eq!(field(&by_minute, "retry-after"), Some("59"));
}

#[tokio::test]
async fn both_limits_refuse_and_both_are_named() {
    let (keeper, _clock) = stepped().await;
    let service = served([rule(&keeper, "both", "2/s; 2/min fixed-window")]);
    let all = statuses(&service, (0..2).map(|_| get("/", ADDRESS))).await;
    assert_eq!(all, [200, 200]);
    let refused = send(&service, get("/", ADDRESS)).await;
    assert_eq!(problem(&refused)["violated-policies"], json!(["both-1", "both-2"]));
    assert_eq!(problem(&refused)["policy"], "both-2", "the one that refuses for longest");
}

/// The fields are structured fields whatever the names are.
#[tokio::test]
async fn the_fields_are_valid_structured_fields_with_any_name() {
    let (keeper, _clock) = stepped().await;
    let names = [r#"a "quoted" \name\, with;everything=1"#, "plain"];
    let rule = rule(&keeper, "odd", "1000000000000/700ms fixed-window; 3/100y").named(names);
    let answer = send(&served([rule]), get("/", ADDRESS)).await;
    for (field_name, keys) in [("ratelimit-policy", ["q", "w"]), ("ratelimit", ["r", "t"])] {
        let list: List = Parser::new(field(&answer, field_name).unwrap()).parse().unwrap();
        let mut found = Vec::new();
        for entry in &list {
            let ListEntry::Item(item) = entry else { panic!("a list of items") };
            let BareItem::String(name) = &item.bare_item else { panic!("a string") };
            found.push(name.as_str().to_owned());
            let numbers: Vec<&str> = item.params.keys().map(|key| key.as_str()).collect();
            assert_eq!(numbers, keys);
            assert!(item.params.values().all(|value| matches!(value, BareItem::Integer(_))));
        }
        assert_eq!(found, names);
    }
    assert!(
        field(&answer, "ratelimit-policy").unwrap().contains("q=1000000000000;w=1, "),
        "less than a second"
    );
}

#[tokio::test]
async fn the_older_fields_are_those_of_the_nearest_limit() {
    let (keeper, _clock) = stepped().await;
    let rules = || [rule(&keeper, "search", "5/s; 3/min fixed-window")];
    let which = RateLimitHeaders::default().and_x().and_older_draft();
    let service = layer(rules()).headers(which).layer(Inner::default());
    let answer = send(&service, get("/", ADDRESS)).await;
    let expected = [
        "ratelimit-limit: 3",
        "ratelimit-policy: \"search-1\";q=5;w=1, \"search-2\";q=3;w=60",
        "ratelimit-remaining: 2",
        "ratelimit-reset: 60",
        "ratelimit: \"search-1\";r=4;t=1, \"search-2\";r=2;t=60",
        "x-ratelimit-limit: 3",
        "x-ratelimit-remaining: 2",
        "x-ratelimit-reset: 60",
    ];
    assert_eq!(fields(&answer), expected);
    let bare = layer(rules()).headers(RateLimitHeaders::none()).layer(Inner::default());
    let bare_answers = [send(&bare, get("/", ADDRESS)).await, send(&bare, get("/", ADDRESS)).await];
    assert!(bare_answers.iter().all(|answer| answer.headers().is_empty()));
    let refused = send(&bare, get("/", ADDRESS)).await;
    assert_eq!(fields(&refused), ["content-type: application/problem+json", "retry-after: 60"]);
}

#[tokio::test]
async fn the_older_fields_of_a_refusal_are_those_of_the_limit_that_refuses_for_longest() {
    let (keeper, _clock) = stepped().await;
    let weight = |parts: &http::request::Parts| u64::from(parts.headers.contains_key("heavy")) + 2;
    let rules = [rule(&keeper, "both", "4/h; 3/s").cost(weight)];
    let service = layer(rules).headers(RateLimitHeaders::none().and_x()).layer(Inner::default());
    send(&service, get("/", ADDRESS)).await;
    let mut heavy = get("/", ADDRESS);
    heavy.headers_mut().insert("heavy", "yes".parse().unwrap());
    let refused = send(&service, heavy).await;
    assert_eq!(field(&refused, "x-ratelimit-limit"), Some("4"));
    assert_eq!(field(&refused, "x-ratelimit-remaining"), Some("2"), "the other has 1");
    assert_eq!(field(&refused, "x-ratelimit-reset"), field(&refused, "retry-after"));
}

#[tokio::test]
async fn r83_what_never_fits_is_403_without_retry_after() {
    let (keeper, _clock) = stepped().await;
    let dear = served([rule(&keeper, "dear", Limit::token_bucket(6).refill(6, secs(1))).cost(|_| 10)]);
    let never = send(&dear, get("/", ADDRESS)).await;
    assert_eq!((never.status(), field(&never, "retry-after")), (StatusCode::FORBIDDEN, None));
    assert_eq!(field(&never, "ratelimit"), Some("\"dear\";r=6;t=0"), "the true number, on a fresh key");
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "This request can never be allowed",
        "status": 403,
        "detail": "The request costs more than the limit, 6/1s token-bucket, can ever hold. Waiting does not help.",
        "violated-policies": ["dear"],
        "policy": "dear",
        "limit": "6/1s token-bucket",
    });
    assert_eq!(problem(&never), expected);
    let closed = served([rule(&keeper, "closed", Limit::Nothing)]);
    let never = send(&closed, get("/", ADDRESS)).await;
    assert_eq!(
        (never.status(), problem(&never)["detail"].clone()),
        (StatusCode::FORBIDDEN, json!("The limit lets nothing pass."))
    );
}

#[tokio::test]
async fn unlimited_passes_and_shows_nothing() {
    let (keeper, _clock) = stepped().await;
    let answer = send(&served([rule(&keeper, "free", Limit::Unlimited)]), get("/", ADDRESS)).await;
    assert_eq!((answer.status(), answer.headers().len()), (StatusCode::OK, 0));
}

#[tokio::test]
async fn a_refusal_can_be_answered_in_another_way_and_keeps_its_fields() {
    let (keeper, _clock) = stepped().await;
    let service = layer([rule(&keeper, "own", "1/10s")])
        .respond_with(|refusal: &Refusal| {
            assert_eq!(
                (refusal.kind(), refusal.limiter(), refusal.policy()),
                (RefusalKind::Denied, "own", Some("own"))
            );
            let answer = Response::builder().status(StatusCode::IM_A_TEAPOT).header("retry-after", "77");
            answer.body(format!("{:?}", refusal.violated_policies())).unwrap()
        })
        .layer(Inner::default());
    send(&service, get("/", ADDRESS)).await;
    let refused = send(&service, get("/", ADDRESS)).await;
    assert_eq!((refused.status(), &refused.body()[..]), (StatusCode::IM_A_TEAPOT, "[\"own\"]"));
    let expected = ["ratelimit-policy: \"own\";q=1;w=10", "ratelimit: \"own\";r=0;t=10", "retry-after: 77"];
    assert_eq!(fields(&refused), expected);
}

#[tokio::test]
async fn what_the_service_within_said_stays() {
    let (keeper, _clock) = stepped().await;
    let within = service_fn(async |_: http::Request<String>| {
        let answer =
            Response::builder().header("ratelimit", "\"within\";r=1").header("x-ratelimit-limit", "1");
        Ok::<_, std::convert::Infallible>(answer.body(String::new()).unwrap())
    });
    let which = RateLimitHeaders::default().and_x();
    let service = layer([rule(&keeper, "outer", "9/s")]).headers(which).layer(within);
    let answer = send(&service, get("/", ADDRESS)).await;
    let said: Vec<_> = answer.headers().get_all("ratelimit").iter().collect();
    assert_eq!(said, ["\"within\";r=1", "\"outer\";r=8;t=1"]);
    assert_eq!(field(&answer, "x-ratelimit-limit"), Some("1"));
}

#[test]
fn a_layer_with_a_mistake_cannot_be_made() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (keeper, _clock) = runtime.block_on(stepped());
    let a = || rule(&keeper, "a", "1/s; 2/min");
    let joint = keeper
        .joint("j", [keeper.limiter("a", "1/s").unwrap(), keeper.limiter("b", "1/s").unwrap()])
        .unwrap();
    for (rules, why) in [
        (vec![], "no rule is given"),
        (vec![a(), a()], "two policies are called `a-1`; tell them apart with `Rule::named`"),
        (vec![a().named(["one"])], "1 names for 2 limits"),
        (vec![a().named(["one", "na\u{ef}ve"])], "`naïve` must be 1 to 64 characters of printable ASCII"),
        (vec![Rule::joint(joint, [Who::everyone()])], "2 limiters counts 1 subjects"),
    ] {
        let error = RateLimitLayer::new(rules).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(RateLimitLayer::new([a(), a().named(["b-1", "b-2"])]).is_ok());
}

#[tokio::test]
async fn r170_with_jitter_less_than_a_tenth_are_told_the_first_second() {
    let (keeper, clock) = stepped().await;
    let service =
        layer([rule(&keeper, "aligned", "1/60s fixed-window")]).jitter(secs(10)).layer(Inner::default());
    clock.advance(ms(30_500));
    let (mut first, mut latest) = (0, 0);
    for client in 0..10_000_u32 {
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + client);
        send(&service, get("/", address)).await;
        let refused = send(&service, get("/", address)).await;
        let told: u64 = field(&refused, "retry-after").unwrap().parse().unwrap();
        assert!((30..=40).contains(&told), "29.5 s are left, and up to 10 s more: {told}");
        assert_eq!(field(&refused, "ratelimit").unwrap(), format!("\"aligned\";r=0;t={told}"));
        first += u32::from(told == 30);
        latest = latest.max(told);
    }
    assert!(first < 1000, "{first} of 10000 come within a second");
    assert!(latest >= 39, "the jitter is used: {latest}");
}
