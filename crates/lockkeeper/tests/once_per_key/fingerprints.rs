//! What tells one request from another.

use lockkeeper::fingerprint::{self, MAX_DEPTH, of_bytes, of_json, of_parts, of_value};
use lockkeeper::{ErrorKind, Fingerprint};
use proptest::prelude::*;
use serde_json::{Value, json};

fn print(text: &str) -> Fingerprint {
    of_json(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Each of these says something else.
fn apart(texts: &[&str]) {
    for (at, one) in texts.iter().enumerate() {
        for other in &texts[..at] {
            assert_ne!(print(one), print(other), "{one} and {other}");
        }
    }
}

/// All of these say the same.
fn same(texts: &[&str]) {
    texts.iter().for_each(|text| assert_eq!(print(text), print(texts[0]), "{text} and {}", texts[0]));
}

fn refused(text: &[u8], says: &str) {
    let error = of_json(text).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadArgument);
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn c37_the_order_of_members_does_not_count_but_for_bytes_it_does() {
    let (one, other) = (r#"{"a":1,"b":{"c":2,"d":3}}"#, r#" { "b" : {"d":3, "c":2},"a":1 } "#);
    same(&[one, other]);
    assert_ne!(of_bytes(one), of_bytes(other));
    assert_ne!(print(one), of_bytes(one), "the ways of making one are apart");
}

#[test]
fn c38_what_says_something_else_is_something_else() {
    apart(&["{}", r#"{"a":null}"#, "null", "[]", "[null]", r#""""#, "0", "false", "true"]);
    apart(&["1", r#""1""#, "-1", "10", "0.1", "[1]", r#"{"1":1}"#]);
    apart(&["9007199254740992", "9007199254740993", "9007199254740992.5"]);
    apart(&["\"\u{e9}\"", "\"e\u{301}\""]);
    apart(&[r#"["a","b"]"#, r#"["ab"]"#, r#"["a,b"]"#, r#"[["a"],"b"]"#, r#"["a",["b"]]"#]);
    apart(&[r#"{"a":{"b":1}}"#, r#"{"a":{"b":{"c":1}}}"#, r#"{"a":1,"b":1}"#, r#"{"a.b":1}"#]);
}

#[test]
fn c38b_the_order_of_elements_counts() {
    apart(&["[1,2]", "[2,1]", r#"[{"a":1},{"b":2}]"#, r#"[{"b":2},{"a":1}]"#]);
}

#[test]
fn c38_numbers_are_equal_when_their_exact_values_are() {
    same(&["1", "1.0", "1e0", "1E+0", "10e-1", "0.1e1", "1.000", "100e-2"]);
    same(&["0", "-0", "0.0", "0e5", "-0.0e-9"]);
    same(&["1e400", "10e399", "0.1e401"]);
    apart(&["1e400", "1e401", "1e-400", "1e999999999999999999"]);
    same(&["123456789012345678901234567890", "12345678901234567890123456789e1"]);
    apart(&["0.1", "0.1000000000000000055511151231257827"]);
}

#[test]
fn strings_are_equal_when_their_characters_are() {
    same(&[r#""a/é😀""#, r#""\u0061\/\u00e9\ud83d\ude00""#]);
    same(&[r#"{"\u0061":1}"#, r#"{"a":1}"#]);
}

#[test]
fn what_is_no_json_or_says_two_things_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "nul",
        "tru",
        "'a'",
        "[1 2]",
        "1 2",
        "\"a",
        "\"\\",
        "\"\\x\"",
        "\"\n\"",
        "\"\\ud800\"",
        "NaN",
        "-",
        "--1",
        "{\"a\"1}",
        "\u{feff}1",
    ] {
        refused(text.as_bytes(), "no JSON");
    }
    refused(b"\"\xff\"", "no JSON");
    refused(br#"{"a":1,"b":2,"\u0061":1}"#, "the member \"a\" twice");
    refused(b"1e1000000000000000000", "more than 18 digits");
    refused("[".repeat(1_000_000).as_bytes(), "deeper than 128");
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(of_json(nested(MAX_DEPTH).as_bytes()).is_ok());
    refused(nested(MAX_DEPTH + 1).as_bytes(), "deeper than 128");
}

#[test]
fn parts_are_told_apart_by_where_they_are_cut() {
    let prints = [
        of_parts(["POST", "/a"]),
        of_parts(["POST/", "a"]),
        of_parts(["POST/a"]),
        of_parts(["POST/a", ""]),
        of_parts(["", "POST/a"]),
        of_bytes("POST/a"),
    ];
    for (at, print) in prints.iter().enumerate() {
        assert!(!prints[..at].contains(print), "{at}");
    }
}

/// Keys that are remembered on servers have been made with these: a change makes their requests different ones.
#[test]
fn fingerprints_never_change() {
    let golden = [
        (print(r#"{"b":[1,2.50,null,true,"é"],"a":{}}"#), GOLDEN_JSON),
        (of_bytes("abc"), GOLDEN_BYTES),
        (of_parts(["a", "bc"]), GOLDEN_PARTS),
    ];
    for (print, hex) in golden {
        assert_eq!(std::str::from_utf8(&print.to_hex()).unwrap(), hex);
    }
}

const GOLDEN_JSON: &str = "65f6c128da867a471b9263b62d830a89b69cf8a2dd7a9f49d72373c41ff8d34f";
const GOLDEN_BYTES: &str = "b9346c6e3c27c13297e7815545050149d4fd6d542beab246f0c8bea8d902c188";
const GOLDEN_PARTS: &str = "2382eef5a8e27a1d0c9cef1d68a73f8274b281befac828dec2c4befb1c24e0c7";

#[test]
fn a_value_has_the_fingerprint_of_its_json() {
    let value = json!({"b": [1, 2.5, null], "a": "x"});
    assert_eq!(of_value(&value).unwrap(), print(r#"{"a":"x","b":[1.0,25e-1,null]}"#));
    assert_eq!(of_value(&u64::MAX).unwrap(), print("18446744073709551615"));
    assert_ne!(of_value(&u64::MAX).unwrap(), of_value(&(u64::MAX - 1)).unwrap());
    assert_eq!(of_value("text").unwrap(), print("\"text\""));
    let unwritable = std::collections::BTreeMap::from([(vec![1], 2)]);
    assert!(of_value(&unwritable).unwrap_err().to_string().contains("cannot be written as JSON"));
}

/// JSON as a tree, with numbers as text.
fn trees() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[a-c\"\\\\\u{e9}\u{301}\u{1f600}\n]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]{0,2}", inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

/// Written with white space, escapes, and members back to front.
fn written_otherwise(value: &Value, out: &mut String) {
    match value {
        Value::Array(elements) => {
            out.push_str("[ ");
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at > 0 { " ,\t" } else { "" });
                written_otherwise(element, out);
            }
            out.push_str("\n]");
        }
        Value::Object(members) => {
            out.push_str("{\r");
            let members: Vec<_> = members.iter().collect();
            for (at, (name, value)) in members.iter().rev().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                escaped(name, out);
                out.push_str(" : ");
                written_otherwise(value, out);
            }
            out.push('}');
        }
        Value::String(text) => escaped(text, out),
        Value::Number(number) => out.push_str(&format!("{number}.00e+0")),
        other => out.push_str(&other.to_string()),
    }
}

fn escaped(text: &str, out: &mut String) {
    out.push('"');
    text.encode_utf16().for_each(|unit| out.push_str(&format!("\\u{unit:04X}")));
    out.push('"');
}

proptest! {
    #[test]
    fn the_same_written_otherwise_is_the_same_and_anything_else_is_not(one in trees(), other in trees()) {
        let mut otherwise = String::new();
        written_otherwise(&one, &mut otherwise);
        prop_assert_eq!(print(&one.to_string()), print(&otherwise));
        prop_assert_eq!(one == other, of_value(&one).unwrap() == of_value(&other).unwrap());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        _ = fingerprint::of_json(&bytes);
    }

    /// What is accepted is what `serde_json` accepts, but for its looser bounds.
    #[test]
    fn it_accepts_what_others_accept(text in "[\\[\\]{}:,\"\\\\0-9eE.+ntrufalse-]{0,12}") {
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        match of_json(text.as_bytes()) {
            Ok(_) => prop_assert!(theirs, "{text}"),
            Err(error) => prop_assert!(!theirs || error.to_string().contains("twice"), "{text}: {error}"),
        }
    }
}
