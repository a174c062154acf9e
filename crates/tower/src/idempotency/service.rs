//! The service: looks up the key, then calls the one within, or answers what was answered before.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::body::IdempotencyBody;
use super::future::ResponseFuture;
use super::plan::{self, Plan};
use super::protect::protect;
use super::settings::Settings;

/// A service whose requests run once per idempotency key. Made by [`IdempotencyLayer`](super::IdempotencyLayer).
#[derive(Clone)]
pub struct Idempotency<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S> Idempotency<S> {
    pub(super) fn new(inner: S, settings: Arc<Settings>) -> Self {
        Self { inner, settings }
    }
}

impl<S, B, R> Service<Request<B>> for Idempotency<S>
where
    S: Service<Request<IdempotencyBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Send,
    R: Body + Send + 'static,
    R::Data: Send,
    R::Error: Send,
{
    type Response = Response<IdempotencyBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready goes along; the clone that stays has to become ready by itself.
        let clone = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, clone);
        let (parts, body) = request.into_parts();
        match plan::of(&self.settings, &parts) {
            Plan::Pass => {
                let request = Request::from_parts(parts, IdempotencyBody::passing(body));
                ResponseFuture::passing(ready.call(request))
            }
            Plan::Refuse(refusal) => ResponseFuture::answered(self.settings.refused(&refusal)),
            Plan::Protect { key } => {
                let request = Request::from_parts(parts, body);
                ResponseFuture::working(Box::pin(protect(self.settings.clone(), ready, key, request)))
            }
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Idempotency<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("inner", &self.inner)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
