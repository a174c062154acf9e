//! Different subjects are encoded differently, and none of them harms.

use std::collections::HashMap;
use std::net::IpAddr;

use proptest::prelude::*;

use super::{IntoSubject, MAX_SUBJECT_BYTES, MAX_VALUE_BYTES, Subject};
use crate::error::ErrorKind;

fn plain(bytes: impl AsRef<[u8]>) -> Subject {
    Subject::new(bytes).unwrap()
}

fn of(kind: &str, value: impl AsRef<[u8]>) -> Subject {
    Subject::of(kind, value).unwrap()
}

fn ip(text: &str) -> Subject {
    Subject::ip(text.parse::<IpAddr>().unwrap())
}

fn is_digest(encoded: &str) -> bool {
    encoded.len() == 23 && encoded.starts_with('#')
}

#[test]
fn ordinary_subjects_stand_as_they_are() {
    assert_eq!(plain("user:42").to_string(), "user:42");
    assert_eq!(of("user", "42").and("route", "/login").unwrap().to_string(), "@user:42@route:/login");
    assert_eq!(plain("a@b.example").to_string(), "a%40b.example");
    assert_eq!(plain("#1 50%").to_string(), "%231 50%25");
    assert_eq!(of("user", "a#b").to_string(), "@user:a#b");
    assert_eq!(of("user", "é\n").to_string(), "@user:%C3%A9%0A");
    assert_eq!(format!("{:?} {:>4}", plain("a"), plain("b")), "Subject(a)    b");
}

#[test]
fn r136_parts_are_joined_without_ambiguity() {
    let joined = |ip, path| of("ip", ip).and("path", path).unwrap();
    assert_ne!(joined("1.2.3.4", "/5x"), joined("1.2.3.4/5", "x"));
    assert_ne!(of("user", "1@path:x"), of("user", "1").and("path", "x").unwrap());
    assert_ne!(plain("user").and("path", "x").unwrap(), plain("user@path:x"));
    assert_ne!(plain("@user:1"), of("user", "1"));
}

#[test]
fn r136_mapped_addresses_are_ipv4_addresses() {
    assert_eq!(ip("::ffff:192.0.2.1"), ip("192.0.2.1"));
    assert_eq!(ip("::FFFF:C000:201").to_string(), "@ip:192.0.2.1");
    let mapped: IpAddr = "::ffff:192.0.2.77".parse().unwrap();
    assert_eq!(Subject::ip_prefix(mapped, 24, 1).unwrap().to_string(), "@ip:192.0.2.0/24");
}

#[test]
fn ipv6_is_grouped_by_prefix_in_its_canonical_form() {
    assert_eq!(ip("2001:DB8:1:2:ffff:0:0:1").to_string(), "@ip:2001:db8:1:2::/64");
    assert_eq!(ip("2001:db8:1:2::9"), ip("2001:db8:1:2:8000::"));
    assert_ne!(ip("2001:db8:1:2::9"), ip("2001:db8:1:3::9"));
    let address: IpAddr = "2001:db8:1:2ff::9".parse().unwrap();
    let by = |bits| Subject::ip_prefix(address, 32, bits).unwrap().to_string();
    assert_eq!(by(128), "@ip:2001:db8:1:2ff::9");
    assert_eq!(by(56), "@ip:2001:db8:1:200::/56");
    assert_eq!(by(1), "@ip:::/1");
}

#[test]
fn prefixes_out_of_bounds_are_refused_with_the_bound() {
    let address: IpAddr = "192.0.2.1".parse().unwrap();
    for (v4, v6, bound) in
        [(0, 64, "1 to 32"), (33, 64, "1 to 32"), (32, 0, "1 to 128"), (32, 129, "1 to 128")]
    {
        let error = Subject::ip_prefix(address, v4, v6).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadArgument);
        assert!(error.to_string().contains(bound), "{error}");
    }
}

#[test]
fn r137_underscores_in_kinds_do_not_move_the_border() {
    assert_ne!(of("a", "b_c"), of("a_b", "c"));
    assert_ne!(of("a", "b:c"), of("a", "b").and("c", "c").unwrap());
}

#[test]
fn r139_patterns_are_bytes() {
    for pattern in ["user*", "[a-z]", "user?", "\\*"] {
        assert_eq!(plain(pattern).to_string(), pattern);
    }
}

#[test]
fn r140_no_brace_of_the_caller_reaches_the_key() {
    for braces in ["a}{b", "{x}", "{", "}{"] {
        for subject in [plain(braces), of("user", braces)] {
            assert!(!subject.as_bytes().iter().any(|byte| matches!(byte, b'{' | b'}')), "{subject}");
        }
    }
    assert_eq!(plain("{x}").to_string(), "%7Bx%7D");
}

#[test]
fn r142_a_user_who_is_called_like_an_address_is_no_address() {
    assert_ne!(Subject::user("127.0.0.1").unwrap(), ip("127.0.0.1"));
    assert_ne!(plain("127.0.0.1"), ip("127.0.0.1"));
}

#[test]
fn r143_a_secret_is_digested_as_a_whole() {
    let secret = |bytes: &str| Subject::secret("api_key", bytes).unwrap();
    assert_ne!(secret("tess_live_aaaa"), secret("tess_live_aaab"));
    assert_eq!(secret("tess_live_aaaa"), secret("tess_live_aaaa"));
    let encoded = secret("tess_live_aaaa").to_string();
    assert!(is_digest(encoded.strip_prefix("@api_key:").unwrap()), "{encoded}");
    assert!(!format!("{:?}", secret("tess_live_aaaa")).contains("tess"));
    // A short value that is written like a digest is none.
    let digest = encoded.strip_prefix("@api_key:").unwrap();
    assert_eq!(of("api_key", digest).to_string(), format!("@api_key:%23{}", &digest[1..]));
}

#[test]
fn digests_stay_what_they_are_from_release_to_release() {
    // Of ba7816bf 8f01cfea 414140de 5dae2223, computed elsewhere.
    assert_eq!(Subject::secret("key", "abc").unwrap().to_string(), "@key:#jIird5NQBFk6PHwj_aBe6C");
}

#[test]
fn r145_huge_and_odd_bytes_are_bounded_and_deterministic() {
    let odd: [&[u8]; 4] = [&vec![b'x'; 1 << 20], b"a\0b", b"\xff\xfe", &[0xff; 40]];
    for bytes in odd {
        for subject in [plain(bytes), of("user", bytes), plain("p").and("user", bytes).unwrap()] {
            assert!(subject.as_bytes().len() <= MAX_SUBJECT_BYTES);
            assert!(subject.as_bytes().iter().all(|byte| matches!(byte, b' '..=b'~')), "{subject}");
        }
        assert_eq!(plain(bytes), plain(bytes));
    }
    assert!(is_digest(&plain(odd[0]).to_string()) && is_digest(&plain(odd[3]).to_string()));
    assert_eq!(plain(odd[1]).to_string(), "a%00b");
    assert_ne!(plain(vec![b'x'; 1 << 20]), plain(vec![b'x'; (1 << 20) + 1]));
}

#[test]
fn the_border_of_a_value_is_where_it_is_said_to_be() {
    assert_eq!(plain(vec![b'x'; MAX_VALUE_BYTES]).as_bytes(), [b'x'; MAX_VALUE_BYTES]);
    assert!(is_digest(&plain(vec![b'x'; MAX_VALUE_BYTES + 1]).to_string()));
    assert_eq!(plain("{".repeat(32)).as_bytes().len(), MAX_VALUE_BYTES);
    assert!(is_digest(&plain("{".repeat(33)).to_string()));
}

#[test]
fn many_parts_are_bounded_and_still_differ() {
    let of_all = |last: &str| {
        let mut subject = plain("start");
        for at in 0..50 {
            subject = subject.and("part", format!("{at}{last}")).unwrap();
            assert!(subject.as_bytes().len() <= MAX_SUBJECT_BYTES);
        }
        subject
    };
    assert_eq!(of_all("a"), of_all("a"));
    assert_ne!(of_all("a"), of_all("b"));
    let long = "x".repeat(MAX_VALUE_BYTES);
    let two = of("ab", &long).and("abc", &long).unwrap();
    assert!(is_digest(two.to_string().strip_prefix('@').unwrap()), "{two}");
    assert_ne!(two, of("ab", &long).and("abd", &long).unwrap());
    assert_eq!(two.and("c", "1").unwrap().to_string(), format!("{two}@c:1"));
    let fits = of("ab", &long).and("ab", &long).unwrap();
    assert_eq!(fits.to_string(), format!("@ab:{long}@ab:{long}"));
    assert_eq!(fits.as_bytes().len(), MAX_SUBJECT_BYTES);
}

#[test]
fn empty_ones_and_wrong_kinds_are_refused_with_the_reason() {
    assert!(Subject::new("").unwrap_err().to_string().contains("empty"));
    assert!(Subject::user("").unwrap_err().to_string().contains("`user` is empty"));
    assert!(Subject::secret("key", "").is_err());
    let long = "k".repeat(33);
    for kind in ["", "User", "1a", "_a", "a-b", "a:b", "é", "a b", "#", &long] {
        let error = Subject::of(kind, "x").unwrap_err();
        assert!(error.to_string().contains("31 more") && error.to_string().contains(kind), "{error}");
        assert!(Subject::secret(kind, "x").is_err() && plain("p").and(kind, "x").is_err(), "{kind}");
    }
    assert!(Subject::of(&long[1..], "x").is_ok());
}

#[test]
fn only_typed_subjects_are_joined_to_others() {
    let key = Subject::secret("key", "abc").unwrap();
    let both = ip("192.0.2.1").join(&key).unwrap();
    assert_eq!(both.to_string(), format!("@ip:192.0.2.1{key}"));
    assert!(ip("192.0.2.1").join(&plain("abc")).unwrap_err().to_string().contains("`abc` is plain"));
    assert!(plain("abc").join(&key).is_ok());
}

#[test]
fn many_types_are_subjects() {
    let made = |subject: &dyn Fn() -> Subject, shown: &str| assert_eq!(subject().to_string(), shown);
    made(&|| "a".into_subject().unwrap(), "a");
    made(&|| String::from("a").into_subject().unwrap(), "a");
    made(&|| b"a".into_subject().unwrap(), "a");
    made(&|| b"a"[..].into_subject().unwrap(), "a");
    made(&|| 42.into_subject().unwrap(), "42");
    made(&|| u64::MAX.into_subject().unwrap(), "18446744073709551615");
    made(&|| (-1i64).into_subject().unwrap(), "-1");
    made(&|| "::1".parse::<IpAddr>().unwrap().into_subject().unwrap(), "@ip:::/64");
    made(&|| Subject::user("1").into_subject().unwrap(), "@user:1");
    made(&|| (&plain("a")).into_subject().unwrap(), "a");
    assert!("".into_subject().is_err() && Subject::user("").into_subject().is_err());
}

#[test]
fn short_and_long_ones_are_found_by_their_bytes() {
    let subjects = ["a".repeat(46), "a".repeat(47), "a".repeat(96), "a".repeat(97)];
    let map: HashMap<Subject, usize> = subjects.iter().map(plain).zip(0..).collect();
    assert_eq!(map.len(), subjects.len());
    for (at, text) in subjects.iter().enumerate() {
        assert_eq!(map.get(&plain(text).clone()), Some(&at));
        assert_eq!(map.get(plain(text).as_bytes()), Some(&at));
    }
    assert!(size_of::<Subject>() <= 48);
}

/// What was encoded, read back: that this is possible means that nothing else is encoded the same.
fn decoded(subject: &Subject) -> Vec<(Option<String>, Vec<u8>)> {
    let text = subject.to_string();
    let (plain, parts) = text.split_once('@').map_or((&*text, None), |(plain, parts)| (plain, Some(parts)));
    let plain = (!plain.is_empty()).then(|| (None, unescaped(plain)));
    let parts = parts.into_iter().flat_map(|parts| parts.split('@')).map(|part| {
        let (kind, value) = part.split_once(':').unwrap();
        (Some(kind.to_owned()), unescaped(value))
    });
    plain.into_iter().chain(parts).collect()
}

fn unescaped(value: &str) -> Vec<u8> {
    assert!(!value.starts_with('#'), "{value}");
    let mut bytes = value.bytes();
    let mut raw = Vec::new();
    while let Some(byte) = bytes.next() {
        let hex = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
        let escaped =
            |bytes: &mut std::str::Bytes<'_>| hex(bytes.next().unwrap()) << 4 | hex(bytes.next().unwrap());
        raw.push(if byte == b'%' { escaped(&mut bytes) } else { byte });
    }
    raw
}

/// Bytes that mean something in the encoding, more often than others.
fn raw() -> impl Strategy<Value = Vec<u8>> {
    let special = prop::sample::select(&b"@#%{}:/_ a2340AF\0\xff"[..]);
    prop::collection::vec(prop_oneof![special, any::<u8>()], 1..16)
}

fn built(start: Option<&Vec<u8>>, parts: &[(&str, Vec<u8>)]) -> Option<Subject> {
    let and = |subject: Option<Subject>, (kind, value): &(&str, Vec<u8>)| {
        Some(subject.map_or_else(|| of(kind, value), |subject| subject.and(kind, value).unwrap()))
    };
    parts.iter().fold(start.map(plain), and)
}

proptest! {
    #[test]
    fn every_list_of_parts_can_be_read_back(
        start in prop::option::of(raw()),
        parts in prop::collection::vec((prop::sample::select(&["a", "a_b", "ip", "user"][..]), raw()), 0..3),
    ) {
        let Some(subject) = built(start.as_ref(), &parts) else { return Ok(()) };
        let start = start.map(|start| (None, start));
        let parts = parts.into_iter().map(|(kind, value)| (Some(kind.to_owned()), value));
        let expected: Vec<_> = start.into_iter().chain(parts).collect();
        prop_assert_eq!(decoded(&subject), expected);
        prop_assert!(subject.as_bytes().iter().all(|byte| matches!(byte, b' '..=b'~')));
    }

    #[test]
    fn any_bytes_give_a_bounded_subject(bytes in prop::collection::vec(any::<u8>(), 1..400)) {
        for subject in [plain(&bytes), of("user", &bytes), of("a", &bytes).and("b", &bytes).unwrap()] {
            prop_assert!((1..=MAX_SUBJECT_BYTES).contains(&subject.as_bytes().len()));
        }
    }
}

#[test]
fn an_encoded_subject_is_read_as_it_is_shown() {
    let parts = Subject::user("a{b}@\u{e9}").unwrap().and("route", "/login").unwrap();
    let all = [
        parts,
        Subject::new("user:42").unwrap(),
        Subject::new("@x").unwrap(),
        Subject::ip(std::net::Ipv4Addr::LOCALHOST),
        Subject::secret("api_key", "s3cret").unwrap(),
        Subject::new([b'x'; 5000]).unwrap(),
    ];
    for subject in all {
        assert_eq!(Subject::from_encoded(subject.as_bytes()).unwrap(), subject);
    }
    let long = "x".repeat(MAX_SUBJECT_BYTES + 1);
    for bad in ["", "a{b}", "a\n", "\u{e9}", &long] {
        let error = Subject::from_encoded(bad).unwrap_err().to_string();
        assert!(error.contains("is no encoded subject"), "{bad}: {error}");
    }
}
