//! What the layer needs to know of requests and answers, so that it works with more than one HTTP client.

use http::header::HOST;
use http::{HeaderMap, Method, Request, Response, StatusCode};

/// A request of some client.
pub trait Retryable {
    /// Its method.
    fn method(&self) -> &Method;

    /// The server that it goes to. Requests with the same origin are held back together.
    fn origin(&self) -> Origin;
}

/// An answer of some client.
pub trait Answered {
    /// Its status.
    fn status(&self) -> StatusCode;

    /// Its header fields.
    fn headers(&self) -> &HeaderMap;
}

/// How a request is copied, so that it can be sent again. Any `Fn(&Request) -> Option<Request>` does it.
pub trait CloneRequest<R> {
    /// The copy. `None` when the body can be sent once only: its answer is then passed on, whatever it is.
    fn clone_request(&self, request: &R) -> Option<R>;
}

/// Copies requests that know how: an [`http::Request`] whose body is [`Clone`], and a `reqwest::Request`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cloned;

/// A server as a client names it: scheme, host and port, in one spelling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin(String);

impl Origin {
    /// The host is compared without case; without a port it is that of `http` or `https`.
    pub fn new(scheme: &str, host: &str, port: Option<u16>) -> Self {
        let scheme = scheme.to_ascii_lowercase();
        let port = port.unwrap_or(if scheme == "https" { 443 } else { 80 });
        Self(format!("{scheme}://{}:{port}", host.to_ascii_lowercase()))
    }
}

impl<B> Retryable for Request<B> {
    fn method(&self) -> &Method {
        self.method()
    }

    /// From the URI. Without a host there, from the `Host` field; without that, one origin for all: the client is
    /// bound to one server.
    fn origin(&self) -> Origin {
        let scheme = self.uri().scheme_str().unwrap_or("http");
        match (self.uri().host(), self.headers().get(HOST)) {
            (Some(host), _) => Origin::new(scheme, host, self.uri().port_u16()),
            (None, Some(host)) => match host.to_str().map(str::parse::<http::uri::Authority>) {
                Ok(Ok(authority)) => Origin::new(scheme, authority.host(), authority.port_u16()),
                _ => Origin::new(scheme, "", None),
            },
            (None, None) => Origin::new(scheme, "", None),
        }
    }
}

impl<B> Answered for Response<B> {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

impl<B: Clone> CloneRequest<Request<B>> for Cloned {
    fn clone_request(&self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}

impl<R, F> CloneRequest<R> for F
where
    F: Fn(&R) -> Option<R>,
{
    fn clone_request(&self, request: &R) -> Option<R> {
        self(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(uri: &str, host: Option<&str>) -> Origin {
        let request = Request::get(uri);
        let request = match host {
            Some(host) => request.header(HOST, host),
            None => request,
        };
        request.body(()).unwrap().origin()
    }

    #[test]
    fn one_server_has_one_spelling() {
        let plain = Origin::new("http", "example.com", None);
        for uri in ["http://example.com/a", "http://EXAMPLE.com:80/b?c", "http://user:secret@example.com"] {
            assert_eq!(origin(uri, None), plain, "{uri}");
        }
        for uri in ["https://example.com", "http://example.com:8080", "http://example.org"] {
            assert_ne!(origin(uri, None), plain, "{uri}");
        }
    }

    #[test]
    fn without_a_host_in_the_uri_the_field_counts() {
        assert_eq!(origin("/a", Some("Example.com:8080")), Origin::new("http", "example.com", Some(8080)));
        assert_eq!(origin("/a", None), origin("/b", Some("\t{")));
    }
}
