//! The future of an answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use super::body::IdempotencyBody;

type Answer<R, E> = Result<Response<IdempotencyBody<R>>, E>;
type Working<R, E> = Pin<Box<dyn Future<Output = Answer<R, E>> + Send>>;

pin_project! {
    /// The answer of [`Idempotency`](super::Idempotency).
    ///
    /// Cancel safety: dropped before the key was claimed, the service within is not called, and nothing is left behind.
    /// Dropped later, the request goes on by itself, and its answer is kept.
    pub struct ResponseFuture<F, R: Body, E> {
        #[pin]
        step: Step<F, R, E>,
    }
}

pin_project! {
    #[project = StepProj]
    enum Step<F, R: Body, E> {
        Passing { #[pin] answer: F },
        Answered { answer: Option<Response<IdempotencyBody<R>>> },
        Working { work: Working<R, E> },
    }
}

impl<F, R: Body, E> ResponseFuture<F, R, E> {
    pub(super) fn passing(answer: F) -> Self {
        Self { step: Step::Passing { answer } }
    }

    pub(super) fn answered(answer: Response<IdempotencyBody<R>>) -> Self {
        Self { step: Step::Answered { answer: Some(answer) } }
    }

    pub(super) fn working(work: Working<R, E>) -> Self {
        Self { step: Step::Working { work } }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
{
    type Output = Answer<R, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().step.project() {
            StepProj::Passing { answer } => {
                answer.poll(context).map_ok(|response| response.map(IdempotencyBody::passing))
            }
            StepProj::Answered { answer } => {
                answer.take().map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer)))
            }
            StepProj::Working { work } => work.as_mut().poll(context),
        }
    }
}
