//! Which record a request is about.

use http::request::Parts;
use lockkeeper::{Subject, fingerprint};

/// The first part of every digest. A change of what a record's key is made of changes it.
const DOMAIN: &[u8] = b"http record 1";

/// The digest of caller, method, path and query, and the client's key, as 64 hexadecimal digits.
///
/// A digest, because all of it comes from a stranger, of any length, and the caller's subject may be made of a secret.
pub(super) fn record_key(caller: &Subject, parts: &Parts, target: &str, client_key: &str) -> String {
    let method = parts.method.as_str();
    let parts = [DOMAIN, caller.as_bytes(), method.as_bytes(), target.as_bytes(), client_key.as_bytes()];
    fingerprint::of_parts(parts).to_hex().map(char::from).iter().collect()
}

/// Path and query as the client sent them.
pub(super) fn target(parts: &Parts) -> &str {
    let uri = original(parts).unwrap_or(&parts.uri);
    uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str)
}

/// Inside of a nested router, the request's own address lacks what the outer one matched.
#[cfg(feature = "axum")]
fn original(parts: &Parts) -> Option<&http::Uri> {
    parts.extensions.get::<axum::extract::OriginalUri>().map(|original| &original.0)
}

#[cfg(not(feature = "axum"))]
fn original(_: &Parts) -> Option<&http::Uri> {
    None
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn key(user: &str, method: &str, target_: &str, client_key: &str) -> String {
        let request = Request::builder().method(method).uri(target_).body(()).unwrap();
        let (parts, ()) = request.into_parts();
        record_key(&Subject::user(user).unwrap(), &parts, target(&parts), client_key)
    }

    #[test]
    fn c22_c26_every_part_makes_another_record() {
        let all = [
            key("a", "POST", "/orders", "1"),
            key("b", "POST", "/orders", "1"),
            key("a", "PATCH", "/orders", "1"),
            key("a", "POST", "/orders/", "1"),
            key("a", "POST", "/orders?dry=1", "1"),
            key("a", "POST", "/orders", "11"),
            key("a", "POST", "/orders1", "1"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(one.len() == 64 && !all[..at].contains(one), "{at}: {one}");
        }
        assert_eq!(key("a", "POST", "/orders", "1"), all[0]);
        assert_eq!(key("a", "POST", "http://shop.example/orders", "1"), all[0], "however it is written");
    }
}
