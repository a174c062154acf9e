//! Honest proxies, lying clients, and garbage.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use ipnet::IpNet;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::elements::{MAX_ELEMENT_BYTES, MAX_ELEMENTS};
use super::{
    ClientAddress, ForwardedHeader, MAX_TRUSTED_HOPS, NoAddress, SingleAddressWatch, WATCHED_REQUESTS,
};

const PEER: &str = "10.0.0.1";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn lines<V: AsRef<[u8]>>(name: &'static str, values: impl IntoIterator<Item = V>) -> HeaderMap {
    let value = |value: V| HeaderValue::from_bytes(value.as_ref()).unwrap();
    values.into_iter().map(|line| (HeaderName::from_static(name), value(line))).collect()
}

fn xff(value: impl AsRef<[u8]>) -> HeaderMap {
    lines("x-forwarded-for", [value])
}

fn hops(hops: usize) -> ClientAddress {
    ClientAddress::trusted_hops(hops).unwrap()
}

fn networks(networks: &[&str]) -> ClientAddress {
    ClientAddress::trusted_networks(networks.iter().map(|network| network.parse::<IpNet>().unwrap()))
}

fn found(by: &ClientAddress, headers: &HeaderMap) -> String {
    by.find(Some(ip(PEER)), headers).unwrap().to_string()
}

#[test]
fn without_proxies_the_peer_is_the_client_whatever_is_sent() {
    let headers = xff("6.6.6.6");
    assert_eq!(found(&ClientAddress::peer(), &headers), PEER);
    assert_eq!(hops(0), ClientAddress::peer());
    assert_eq!(found(&networks(&[]), &headers), PEER);
    assert_eq!(ClientAddress::peer().find(Some(ip("::ffff:192.0.2.1")), &headers), Ok(ip("192.0.2.1")));
    assert_eq!(ClientAddress::peer().find(None, &headers), Err(NoAddress));
}

#[test]
fn hops_count_from_the_right() {
    let headers = xff("6.6.6.6, 3.3.3.3,2.2.2.2 ,\t1.1.1.1");
    for (n, client) in [(1, "1.1.1.1"), (2, "2.2.2.2"), (3, "3.3.3.3"), (4, "6.6.6.6")] {
        assert_eq!(found(&hops(n), &headers), client, "{n}");
    }
    assert!(
        ClientAddress::trusted_hops(MAX_TRUSTED_HOPS + 1).unwrap_err().to_string().contains("at most 64")
    );
    assert_eq!(hops(1).find(None, &headers), Ok(ip("1.1.1.1")), "behind a Unix socket");
}

#[test]
fn fewer_entries_than_hops_give_the_left_most() {
    assert_eq!(found(&hops(3), &xff("2.2.2.2, 1.1.1.1")), "2.2.2.2");
    assert_eq!(found(&hops(3), &xff("")), PEER);
    assert_eq!(found(&hops(3), &HeaderMap::new()), PEER);
    assert_eq!(hops(3).find(None, &HeaderMap::new()), Err(NoAddress));
}

#[test]
fn several_lines_are_one_list() {
    let headers = lines("x-forwarded-for", ["6.6.6.6", "3.3.3.3, 2.2.2.2", "", "1.1.1.1"]);
    assert_eq!(found(&hops(2), &headers), "2.2.2.2");
    assert_eq!(found(&hops(3), &headers), "3.3.3.3");
    assert_eq!(found(&networks(&["10.0.0.0/8", "1.0.0.0/8", "2.0.0.0/8"]), &headers), "3.3.3.3");
}

#[test]
fn r148_what_is_no_address_is_no_error() {
    for garbage in [
        "unknown",
        "_hidden",
        "1.2.3",
        "1.2.3.4.5",
        "01.2.3.4",
        "::g",
        "[::1",
        "[1.2.3.4]",
        "1.2.3.4:",
        "\u{e9}",
    ] {
        let headers = xff(format!("6.6.6.6, {garbage}, 1.1.1.1"));
        assert_eq!(found(&hops(2), &headers), "1.1.1.1", "{garbage}");
        assert_eq!(found(&hops(3), &headers), "6.6.6.6", "{garbage} was written by a trusted proxy too");
        assert_eq!(found(&networks(&["10.0.0.0/8", "1.1.1.1/32"]), &headers), "1.1.1.1", "{garbage}");
        assert_eq!(found(&hops(1), &xff(garbage)), PEER, "{garbage}");
    }
}

#[test]
fn r148_ipv6_ports_and_zones_are_understood() {
    let written = [
        ("1.2.3.4:80", "1.2.3.4"),
        ("[::1]:80", "::1"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%eth0]:65535", "fe80::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("[::ffff:c000:201]:1", "192.0.2.1"),
        ("\"[2001:db8::1]:80\"", "2001:db8::1"),
    ];
    for (entry, client) in written {
        assert_eq!(found(&hops(1), &xff(entry)), client, "{entry}");
    }
    for wrong in ["[::1]80", "[::1]:", "[::1]:123456", "fe80::1%", "1.2.3.4:x", "1.2.3.4%eth0", "\"1.2.3.4"] {
        assert_eq!(found(&hops(1), &xff(wrong)), PEER, "{wrong}");
    }
}

#[test]
fn r149_rotating_entries_on_the_left_change_nothing() {
    for by in [hops(2), networks(&["10.0.0.0/8"])] {
        for at in 0..12 {
            let headers = xff(format!("6.6.6.{at}, 10.0.0.{at}, 192.0.2.1, 10.0.0.9"));
            assert_eq!(found(&by, &headers), "192.0.2.1", "{by:?} {at}");
        }
    }
}

#[test]
fn r151_a_trusted_loopback_or_network_is_believed() {
    let headers = xff("192.0.2.1");
    let trusted = [
        ("127.0.0.1", "127.0.0.1/32"),
        ("127.0.0.1", "127.0.0.0/8"),
        ("::ffff:127.0.0.1", "127.0.0.0/8"),
        ("127.0.0.1", "::ffff:127.0.0.0/104"),
        ("::1", "::1/128"),
        ("172.31.255.255", "172.16.0.0/12"),
        ("fd00::7", "fc00::/7"),
        ("9.9.9.9", "0.0.0.0/0"),
        ("9.9.9.9", "::ffff:0:0/96"),
    ];
    for (peer, network) in trusted {
        assert_eq!(
            networks(&[network]).find(Some(ip(peer)), &headers),
            Ok(ip("192.0.2.1")),
            "{peer} {network}"
        );
    }
    let by_address = ClientAddress::trusted_networks([ip("127.0.0.1"), ip("::1")]);
    assert_eq!(by_address.find(Some(ip("::1")), &headers), Ok(ip("192.0.2.1")));
}

#[test]
fn r151_the_header_of_an_untrusted_peer_is_not_read() {
    let headers = xff("192.0.2.1, 127.0.0.1");
    for (peer, network) in [
        ("127.0.0.1", "10.0.0.0/8"),
        ("172.32.0.0", "172.16.0.0/12"),
        ("::1", "127.0.0.0/8"),
        ("2001:db8::1", "0.0.0.0/0"),
        ("9.9.9.9", "::/0"),
    ] {
        assert_eq!(networks(&[network]).find(Some(ip(peer)), &headers), Ok(ip(peer)), "{peer} {network}");
    }
    assert_eq!(networks(&["0.0.0.0/0"]).find(None, &headers), Err(NoAddress));
}

#[test]
fn a_chain_of_trusted_addresses_alone_gives_its_left_most() {
    assert_eq!(found(&networks(&["10.0.0.0/8"]), &xff("10.0.0.3, 10.0.0.2")), "10.0.0.3");
}

#[test]
fn empty_elements_are_left_out() {
    assert_eq!(found(&hops(2), &xff(",6.6.6.6,, 2.2.2.2 , ,1.1.1.1,,")), "2.2.2.2");
    assert_eq!(found(&hops(1), &xff(",,, ,")), PEER);
}

#[test]
fn no_more_than_64_entries_are_looked_at() {
    let many =
        |count: usize| (0..count).map(|at| format!("10.1.{}.{}", at / 256, at % 256)).collect::<Vec<_>>();
    let entries = many(1000);
    let nearest = &entries[entries.len() - MAX_ELEMENTS];
    let in_one_line = xff(entries.join(", "));
    let in_many_lines = lines("x-forwarded-for", &entries);
    for headers in [in_one_line, in_many_lines] {
        assert_eq!(&found(&networks(&["10.0.0.0/8"]), &headers), nearest);
        assert_eq!(&found(&hops(MAX_TRUSTED_HOPS), &headers), nearest);
    }
    let behind_commas = xff(format!("192.0.2.1{}", ",".repeat(MAX_ELEMENTS)));
    assert_eq!(found(&hops(1), &behind_commas), PEER);
}

#[test]
fn a_mebibyte_of_anything_is_read_from_its_end() {
    for filling in [&b"x"[..], b",", b"\"", b"\\", b"1.1.1.1,", b"\xff", b"for=\"", b";"] {
        let mut value = filling.repeat((1usize << 20).div_ceil(filling.len()));
        for by in [hops(3), networks(&["10.0.0.0/8"])] {
            let client = by.find(Some(ip(PEER)), &xff(&value)).unwrap();
            assert!([PEER, "1.1.1.1"].contains(&&*client.to_string()), "{filling:?}: {client}");
        }
        value.extend_from_slice(b", for=192.0.2.1");
        let headers = lines("forwarded", [&value]);
        assert_eq!(found(&hops(1).header(ForwardedHeader::Forwarded), &headers), "192.0.2.1", "{filling:?}");
    }
}

#[test]
fn an_element_that_is_too_long_ends_the_reading() {
    let with = |length: usize| {
        lines("x-forwarded-for", ["6.6.6.6".to_owned(), format!("5.5.5.5,{}, 1.1.1.1", "x".repeat(length))])
    };
    assert_eq!(found(&hops(3), &with(MAX_ELEMENT_BYTES)), "5.5.5.5");
    assert_eq!(found(&hops(3), &with(MAX_ELEMENT_BYTES + 1)), "1.1.1.1");
    let alone = |length: usize| lines("x-forwarded-for", ["6.6.6.6".to_owned(), "x".repeat(length)]);
    assert_eq!(found(&hops(2), &alone(MAX_ELEMENT_BYTES)), "6.6.6.6");
    assert_eq!(found(&hops(2), &alone(MAX_ELEMENT_BYTES + 1)), PEER);
}

#[test]
fn forwarded_is_understood_in_all_its_forms() {
    let by = hops(1).header(ForwardedHeader::Forwarded);
    let written = [
        ("for=192.0.2.1", "192.0.2.1"),
        ("For=192.0.2.1;proto=http;by=203.0.113.43", "192.0.2.1"),
        ("proto=http; FOR = \"192.0.2.1:4711\"", "192.0.2.1"),
        ("for=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
        ("for=\"[2001:db8::17]:_port\"", "2001:db8::17"),
        ("for=\"192.0.2\\.1\"", "192.0.2.1"),
        ("for=6.6.6.6, for=192.0.2.1", "192.0.2.1"),
        ("host=\"a,for=6.6.6.6\";for=192.0.2.1", "192.0.2.1"),
        ("for=192.0.2.1;host=\"a,for=6.6.6.6\"", "192.0.2.1"),
        ("for=192.0.2.1;host=\"a\\\",for=6.6.6.6;\"", "192.0.2.1"),
        ("for=192.0.2.1;host=\"a;for=6.6.6.6\"", "192.0.2.1"),
        ("for=192.0.2.1;host=\"a\\\\\"", "192.0.2.1"),
        ("for=192.0.2.1;host=\"a,\\\\\"", "192.0.2.1"),
        ("for=192.0.2.1;host=\"\\\",for=6.6.6.6,\\\"\"", "192.0.2.1"),
        ("host=\"a\\\";for=6.6.6.6;\\\"\";for=192.0.2.1", "192.0.2.1"),
        ("for=6.6.6.6;host=\"open, for=192.0.2.1", "192.0.2.1"),
        ("for=\"6.6.6.6, for=192.0.2.1;host=\"x\"", "192.0.2.1"),
    ];
    for (value, client) in written {
        assert_eq!(found(&by, &lines("forwarded", [value])), client, "{value}");
    }
    let no_address = [
        "for=unknown",
        "for=_x",
        "for=\"_x:80\"",
        "for=",
        "for",
        "by=192.0.2.1",
        "for=1.1.1.1;for=2.2.2.2",
        "for=\"1.1.1.1",
    ];
    for value in no_address {
        assert_eq!(found(&by, &lines("forwarded", [value])), PEER, "{value}");
    }
}

#[test]
fn quotes_mean_nothing_in_x_forwarded_for() {
    assert_eq!(found(&hops(3), &xff("3.3.3.3, 2.2.2.2\", 1.1.1.1")), "3.3.3.3");
    assert_eq!(found(&hops(2), &xff("3.3.3.3, \"2.2.2.2, 1.1.1.1\"")), PEER);
}

#[test]
fn only_the_chosen_header_is_read() {
    let mut headers = xff("1.1.1.1");
    headers.extend(lines("forwarded", ["for=2.2.2.2"]));
    assert_eq!(found(&hops(1), &headers), "1.1.1.1");
    assert_eq!(found(&hops(1).header(ForwardedHeader::Forwarded), &headers), "2.2.2.2");
}

proptest! {
    #[test]
    fn nothing_that_a_client_sends_reaches_past_what_a_proxy_appended(
        sent in prop::collection::vec(prop_oneof![
            prop::sample::select(&b",\";=\\ []:%.1f\t\xff"[..]),
            (0x20u8..0x7f),
        ], 0..200),
        by in prop::sample::select(vec![hops(1), networks(&["10.0.0.0/8"])]),
        header in prop::sample::select(vec![ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded]),
    ) {
        let (name, appended) = match header {
            ForwardedHeader::XForwardedFor => ("x-forwarded-for", "192.0.2.1"),
            ForwardedHeader::Forwarded => ("forwarded", "for=192.0.2.1;host=\"x\""),
        };
        let by = by.header(header);
        let in_one_line = lines(name, [[&sent, &b", "[..], appended.as_bytes()].concat()]);
        let in_its_own = lines(name, [&sent[..], appended.as_bytes()]);
        prop_assert_eq!(found(&by, &in_one_line), "192.0.2.1");
        prop_assert_eq!(found(&by, &in_its_own), "192.0.2.1");
        let alone = lines(name, [&sent]);
        prop_assert!(by.find(Some(ip(PEER)), &alone).is_ok());
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Held by whoever may warn: a thread without a subscriber that comes first can silence a warning for all.
static WARNS: Mutex<()> = Mutex::new(());

/// How often it warned of these addresses, as returned; the same as logged.
fn warnings(addresses: impl IntoIterator<Item = IpAddr>) -> usize {
    let _alone = WARNS.lock();
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let watch = SingleAddressWatch::new();
    let returned = tracing::subscriber::with_default(subscriber, || {
        addresses.into_iter().filter(|&address| watch.saw(address)).count()
    });
    let logged = String::from_utf8(log.0.lock().clone()).unwrap();
    assert_eq!(logged.matches("all clients share one limit").count(), returned, "{logged}");
    returned
}

#[test]
fn r152_one_private_address_alone_is_warned_of_once() {
    let enough = WATCHED_REQUESTS as usize;
    let times = |address: &str, count: usize| std::iter::repeat_n(ip(address), count);
    for private in
        ["10.0.0.1", "127.0.0.1", "172.16.0.1", "169.254.0.1", "100.127.0.1", "::1", "fd00::1", "fe80::1"]
    {
        assert_eq!(warnings(times(private, 5 * enough)), 1, "{private}");
    }
    assert_eq!(warnings(times("10.0.0.1", enough)), 1);
    assert_eq!(warnings(times("10.0.0.1", enough - 1)), 0);
    for public in ["192.0.2.1", "100.128.0.1", "2001:db8::1"] {
        assert_eq!(warnings(times(public, 5 * enough)), 0, "{public}");
    }
    let another_comes =
        times("10.0.0.1", enough - 1).chain(times("10.0.0.2", 1)).chain(times("10.0.0.1", enough));
    assert_eq!(warnings(another_comes), 0);
}

#[test]
fn r152_many_threads_get_one_warning() {
    let _alone = WARNS.lock();
    let watch = SingleAddressWatch::new();
    let warned = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..WATCHED_REQUESTS).filter(|_| watch.saw(ip(PEER))).count()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert_eq!(warned, 1);
}
