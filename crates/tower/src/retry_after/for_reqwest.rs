//! Requests and answers of `reqwest`.

use http::{HeaderMap, Method, StatusCode};
use reqwest::{Request, Response};

use super::message::{Answered, CloneRequest, Cloned, Origin, Retryable};

impl Retryable for Request {
    fn method(&self) -> &Method {
        self.method()
    }

    fn origin(&self) -> Origin {
        let url = self.url();
        Origin::new(url.scheme(), url.host_str().unwrap_or_default(), url.port())
    }
}

impl Answered for Response {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

/// A request with a streaming body is sent once.
impl CloneRequest<Request> for Cloned {
    fn clone_request(&self, request: &Request) -> Option<Request> {
        request.try_clone()
    }
}
