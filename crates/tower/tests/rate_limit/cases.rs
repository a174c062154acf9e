//! Situations that broke other limiters, through the layer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lockkeeper_tower::ClientAddress;
use lockkeeper_tower::rate_limit::{PeerAddress, Rule, Who};

use crate::support::*;

#[tokio::test]
async fn r136_address_and_route_are_joined_without_ambiguity_and_mapped_addresses_are_one() {
    let (keeper, _clock) = stepped().await;
    let service = served([rule(&keeper, "joined", "1/h")]);
    let mapped: Ipv6Addr = "::ffff:192.0.2.1".parse().unwrap();
    let all = [
        get("/5x", [1, 2, 3, 4]),
        get("5/5x", [1, 2, 3, 4]),
        get("x", [1, 2, 3, 45]),
        get("/5x@ip:1.2.3.4", [9, 9, 9, 9]),
        get("/", ADDRESS),
        get("/", mapped),
    ];
    assert_eq!(statuses(&service, all).await, [200, 200, 200, 200, 200, 429]);
}

#[tokio::test]
async fn r146_routes_and_limiters_with_the_same_limit_share_nothing() {
    let (keeper, _clock) = stepped().await;
    let (a, b) = (served([rule(&keeper, "a", "1/h")]), served([rule(&keeper, "b", "1/h")]));
    let all = [get("/x", ADDRESS), get("/y", ADDRESS), get("/x", ADDRESS)];
    assert_eq!(statuses(&a, all).await, [200, 200, 429]);
    assert_eq!(statuses(&b, [get("/x", ADDRESS)]).await, [200]);
}

#[tokio::test]
async fn r148_an_ipv6_address_is_counted_by_its_network_and_nothing_is_a_500() {
    let (keeper, _clock) = stepped().await;
    let service = served([rule(&keeper, "v6", "1/h")]);
    let from = |address: &str| get("/", address.parse::<IpAddr>().unwrap());
    let all = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "fe80::1"].map(from);
    assert_eq!(statuses(&service, all).await, [200, 429, 200, 200]);
}

#[tokio::test]
async fn r148_without_an_address_all_have_one_count_and_nothing_is_a_500() {
    let (keeper, _clock) = stepped().await;
    let who = Who::address(ClientAddress::trusted_hops(1).unwrap());
    let service = served([Rule::new(keeper.limiter("unknown", "3/h").unwrap(), who)]);
    let without = |forwarded: &[u8]| {
        let mut request = get("/", ADDRESS);
        request.extensions_mut().remove::<PeerAddress>();
        request.headers_mut().insert("x-forwarded-for", http::HeaderValue::from_bytes(forwarded).unwrap());
        request
    };
    let huge = vec![b','; 1 << 20];
    let all = [&b"garbage"[..], &[0xff, 0xfe], &huge, b"unknown", b"192.0.2.7"].map(without);
    assert_eq!(statuses(&service, all).await, [200, 200, 200, 429, 200], "an address is told all the same");
}

#[tokio::test]
async fn r149_rotating_what_the_client_wrote_gives_no_new_count() {
    let (keeper, _clock) = stepped().await;
    let who = Who::address(ClientAddress::trusted_hops(1).unwrap());
    let service = served([Rule::new(keeper.limiter("rotated", "5/h").unwrap(), who)]);
    let proxy = Ipv4Addr::new(10, 0, 0, 1);
    let rotated = (0..12).map(|turn| {
        let mut request = get("/", proxy);
        let forwarded = format!("6.6.6.{turn}, 198.51.100.7");
        request.headers_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
        request
    });
    let all = statuses(&service, rotated).await;
    assert_eq!(all.iter().filter(|status| **status == 200).count(), 5);
    assert_eq!(all[..5], [200; 5]);
}
