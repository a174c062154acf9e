//! Several rules, shadow rules, costs, what is skipped, and what handlers see.

use std::net::Ipv4Addr;

use http::{Request, Response};
use lockkeeper::Subject;
use lockkeeper_tower::rate_limit::{RateLimitLayer, RateLimited, Rule, Who};
use tower::{Layer, service_fn};

use crate::support::*;

fn all_routes() -> Who {
    Who::everyone().over_all_routes()
}

#[tokio::test]
async fn all_rules_are_asked_and_what_earlier_ones_took_is_given_back() {
    let (keeper, _clock) = stepped().await;
    let site = keeper.limiter("site", "100/h").unwrap();
    let service = served([Rule::new(site.clone(), all_routes()), rule(&keeper, "client", "2/h")]);
    let answer = send(&service, get("/", ADDRESS)).await;
    assert_eq!(field(&answer, "ratelimit-policy"), Some("\"site\";q=100;w=3600, \"client\";q=2;w=3600"));
    assert_eq!(field(&answer, "ratelimit"), Some("\"site\";r=99;t=36, \"client\";r=1;t=1800"));
    let all = statuses(&service, (0..5).map(|_| get("/", ADDRESS))).await;
    assert_eq!(all, [200, 429, 429, 429, 429]);
    let everyone = Subject::of("everyone", "1").unwrap();
    assert_eq!(
        site.peek(&everyone, 1).await.unwrap().remaining(),
        98,
        "the refused ones cost the site nothing"
    );
    let refused = send(&service, get("/", ADDRESS)).await;
    assert_eq!(
        field(&refused, "ratelimit"),
        Some("\"client\";r=0;t=1800"),
        "what was given back is not shown"
    );
    assert!(refused.body().contains("\"policy\":\"client\""), "{}", refused.body());
}

#[tokio::test]
async fn a_joint_rule_passes_all_or_is_charged_by_none() {
    let (keeper, _clock) = stepped().await;
    let (user, org) = (keeper.limiter("user", "5/h").unwrap(), keeper.limiter("org", "3/h").unwrap());
    for joint in [
        keeper.joint("api", [user.clone(), org.clone()]).unwrap(),
        keeper.joint_in_sequence([user.clone(), org.clone()]).unwrap(),
    ] {
        let service = served([Rule::joint(joint, [by_address(), all_routes()])]);
        let all = statuses(&service, (1..=5).map(|last| get("/", [10, 0, 0, last]))).await;
        assert_eq!(all, [200, 200, 200, 429, 429]);
        let refused = send(&service, get("/", [10, 0, 0, 5])).await;
        assert_eq!(field(&refused, "ratelimit-policy"), Some("\"user\";q=5;w=3600, \"org\";q=3;w=3600"));
        assert!(
            field(&refused, "ratelimit").unwrap().ends_with("\"org\";r=0;t=1200"),
            "{:?}",
            fields(&refused)
        );
        assert!(
            refused.body().contains("\"violated-policies\":[\"org\"],\"policy\":\"org\""),
            "{}",
            refused.body()
        );
        let fifth = Subject::ip(Ipv4Addr::new(10, 0, 0, 5)).and("route", "GET /").unwrap();
        assert_eq!(user.peek(&fifth, 1).await.unwrap().remaining(), 5, "the user's was not charged");
        org.reset(Subject::of("everyone", "1").unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn shadow_rules_count_and_refuse_nobody() {
    let (keeper, _clock) = stepped().await;
    let new = keeper.limiter("new", "1/h").unwrap();
    let within = service_fn(async |request: Request<String>| {
        let said = request.extensions().get::<RateLimited>().unwrap().said();
        let said: Vec<_> =
            said.iter().map(|one| (&*one.limiter, one.verdict.is_allowed(), one.is_shadow)).collect();
        Ok::<_, std::convert::Infallible>(Response::new(format!("{said:?}")))
    });
    let rules = [Rule::new(new, by_address()).shadow(), rule(&keeper, "old", "3/h")];
    let service = layer(rules).layer(within);
    let first = send(&service, get("/", ADDRESS)).await;
    assert_eq!(first.body(), r#"[("new", true, true), ("old", true, false)]"#);
    let second = send(&service, get("/", ADDRESS)).await;
    assert_eq!(second.body(), r#"[("new", false, true), ("old", true, false)]"#);
    let expected = ["ratelimit-policy: \"old\";q=3;w=3600", "ratelimit: \"old\";r=1;t=2400"];
    assert_eq!(fields(&second), expected, "clients see nothing of it");
    assert_eq!(statuses(&service, [get("/", ADDRESS), get("/", ADDRESS)]).await, [200, 429]);
}

#[tokio::test]
async fn a_whole_layer_can_look_on() {
    let (keeper, _clock) = stepped().await;
    let service = layer([rule(&keeper, "a", "1/h")]).shadow().layer(Inner::default());
    assert_eq!(statuses(&service, (0..3).map(|_| get("/", ADDRESS))).await, [200, 200, 200]);
}

#[tokio::test]
async fn a_request_costs_what_it_is_said_to_and_nothing_is_free() {
    let (keeper, _clock) = stepped().await;
    let weight = |parts: &http::request::Parts| {
        parts.headers.get("weight").map_or(1, |value| value.to_str().unwrap().parse().unwrap())
    };
    let service = served([rule(&keeper, "weighed", "10/h").cost(weight)]);
    let weighing = |weight: &str| {
        let mut request = get("/", ADDRESS);
        request.headers_mut().insert("weight", weight.parse().unwrap());
        request
    };
    let all = statuses(&service, ["7", "4", "3", "0", "1"].map(weighing)).await;
    assert_eq!(
        all,
        [200, 429, 200, 200, 429],
        "7, then 4 is too much, 3 fits, 0 is free, and nothing is left"
    );
    let free = send(&service, weighing("0")).await;
    assert_eq!((free.headers().len(), &free.body()[..]), (0, "None"), "not asked");
}

#[tokio::test]
async fn what_is_skipped_is_not_counted() {
    let (keeper, _clock) = stepped().await;
    let rules = [rule(&keeper, "a", "1/h").skip(|request| request.headers.contains_key("friend"))];
    let service =
        layer(rules).skip(|request| request.method == http::Method::OPTIONS).layer(Inner::default());
    let options = || {
        let mut request = get("/", ADDRESS);
        *request.method_mut() = http::Method::OPTIONS;
        request
    };
    let friend = || {
        let mut request = get("/", ADDRESS);
        request.headers_mut().insert("friend", "yes".parse().unwrap());
        request
    };
    let all = [options(), friend(), get("/", ADDRESS), get("/", ADDRESS), options(), friend()];
    assert_eq!(statuses(&service, all).await, [200, 200, 200, 429, 200, 200]);
    assert_eq!(send(&service, options()).await.headers().len(), 0);
}

#[tokio::test]
async fn of_two_layers_both_count_and_both_are_shown() {
    let (keeper, _clock) = stepped().await;
    let outer: RateLimitLayer = layer([rule(&keeper, "site", "9/h")]);
    let inner = layer([rule(&keeper, "dear", "2/h")]);
    let service = outer.layer(inner.layer(Inner::default()));
    let answer = send(&service, get("/", ADDRESS)).await;
    let said: Vec<_> = answer.headers().get_all("ratelimit").iter().collect();
    assert_eq!(said, ["\"dear\";r=1;t=1800", "\"site\";r=8;t=400"]);
    assert_eq!(answer.body(), "Some(1)", "the tightest of both");
    assert_eq!(statuses(&service, [get("/", ADDRESS), get("/", ADDRESS)]).await, [200, 429]);
}
