//! The service: decides, then calls the one within.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::decide::{decide, questions};
use super::future::ResponseFuture;
use super::layer::Settings;
use super::refusal::{ProblemDetails, Respond};

/// A service behind limits. Made by [`RateLimitLayer`](super::RateLimitLayer).
#[derive(Clone)]
pub struct RateLimit<S, W = ProblemDetails> {
    inner: S,
    settings: Arc<Settings>,
    respond: W,
}

impl<S, W> RateLimit<S, W> {
    pub(super) fn new(inner: S, settings: Arc<Settings>, respond: W) -> Self {
        Self { inner, settings, respond }
    }
}

impl<S, B, R, W> Service<Request<B>> for RateLimit<S, W>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    W: Respond<R> + Clone,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, W>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready goes along; the clone that stays has to become ready by itself.
        let clone = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, clone);
        let (parts, body) = request.into_parts();
        let questions = questions(&self.settings, &parts);
        let request = Request::from_parts(parts, body);
        if questions.is_empty() {
            return ResponseFuture::unlimited(ready.call(request));
        }
        let decision = Box::pin(decide(self.settings.clone(), questions));
        ResponseFuture::deciding(decision, ready, request, self.respond.clone())
    }
}

impl<S: fmt::Debug, W> fmt::Debug for RateLimit<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
