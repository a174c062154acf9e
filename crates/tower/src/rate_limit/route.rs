//! Which route a request takes: its pattern, never its path.

use std::borrow::Cow;
use std::sync::Arc;

use http::Method;
use http::request::Parts;

/// Put into a request's extensions by routers other than axum's: the pattern that matched, such as `/users/{id}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePattern(pub Arc<str>);

/// Instead of a pattern, where none is known. No pattern begins without `/`.
const UNMATCHED: &str = "unmatched";
/// Instead of a method that is none of HTTP's own: whoever invents methods has no new count with each.
const OTHER_METHOD: &str = "OTHER";

/// Finds a route's pattern.
pub(super) type FindRoute = dyn Fn(&Parts) -> Option<String> + Send + Sync;

/// Method and pattern: `GET /users/{id}`.
pub(super) struct Route(String);

impl Route {
    pub(super) fn of(parts: &Parts, find: Option<&Arc<FindRoute>>) -> Self {
        let pattern = match find {
            Some(find) => find(parts).map(Cow::Owned),
            None => known(parts).map(Cow::Borrowed),
        };
        let pattern = pattern.as_deref().unwrap_or(UNMATCHED);
        Self([shown(&parts.method), " ", pattern].concat())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

fn known(parts: &Parts) -> Option<&str> {
    let ours = parts.extensions.get::<RoutePattern>().map(|pattern| &*pattern.0);
    ours.or_else(|| of_axum(parts))
}

#[cfg(feature = "axum")]
fn of_axum(parts: &Parts) -> Option<&str> {
    parts.extensions.get::<axum::extract::MatchedPath>().map(axum::extract::MatchedPath::as_str)
}

#[cfg(not(feature = "axum"))]
fn of_axum(_: &Parts) -> Option<&str> {
    None
}

/// HEAD is GET: it does the same work, and routers send it to the same handler.
fn shown(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        _ => OTHER_METHOD,
    }
}
