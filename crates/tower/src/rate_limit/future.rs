//! The future of an answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::decide::Decision;
use super::headers::Fields;
use super::refusal::Respond;

type Deciding = Pin<Box<dyn Future<Output = Decision> + Send>>;

pin_project! {
    /// The answer of [`RateLimit`](super::RateLimit).
    ///
    /// Cancel safety: dropped before the limits answered, the service within is not called; what was asked of the store
    /// is charged.
    pub struct ResponseFuture<S: Service<Request<B>>, B, W> {
        #[pin]
        step: Step<S, B, W, S::Future>,
    }
}

pin_project! {
    #[project = StepProj]
    enum Step<S, B, W, F> {
        Deciding { decision: Deciding, waiting: Option<(S, Request<B>)>, respond: W },
        Calling { #[pin] answer: F, fields: Fields },
    }
}

impl<S: Service<Request<B>>, B, W> ResponseFuture<S, B, W> {
    pub(super) fn unlimited(answer: S::Future) -> Self {
        Self { step: Step::Calling { answer, fields: Fields::default() } }
    }

    pub(super) fn deciding(decision: Deciding, service: S, request: Request<B>, respond: W) -> Self {
        Self { step: Step::Deciding { decision, waiting: Some((service, request)), respond } }
    }
}

impl<S, B, R, W> Future for ResponseFuture<S, B, W>
where
    S: Service<Request<B>, Response = Response<R>>,
    W: Respond<R>,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut step = self.project().step;
        loop {
            match step.as_mut().project() {
                StepProj::Deciding { decision, waiting, respond } => {
                    let mut decision = ready!(decision.as_mut().poll(context));
                    // Either way, the service is let go: a refused request keeps no place in it.
                    let waiting = waiting.take();
                    if let Some(refusal) = decision.refusal.take() {
                        let mut response = respond.respond(&refusal);
                        decision.fields.apply(response.headers_mut());
                        return Poll::Ready(Ok(response));
                    }
                    let Some((mut service, mut request)) = waiting else { return Poll::Pending };
                    let fields = decision.tell(request.extensions_mut());
                    step.set(Step::Calling { answer: service.call(request), fields });
                }
                StepProj::Calling { answer, fields } => {
                    let answer = ready!(answer.poll(context));
                    return Poll::Ready(answer.map(|mut response| {
                        std::mem::take(fields).apply(response.headers_mut());
                        response
                    }));
                }
            }
        }
    }
}
