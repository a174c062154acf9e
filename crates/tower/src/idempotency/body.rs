//! Bodies on their way through the layer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::collect::{Collected, Whole};

pin_project! {
    /// The body of a request that goes to the service within, or of an answer that comes from the layer: one that was
    /// not touched, one that was read, or one of which the beginning was read.
    pub struct IdempotencyBody<B: Body> {
        front: vec::IntoIter<Bytes>,
        #[pin]
        then: Then<B>,
    }
}

pin_project! {
    #[project = ThenProj]
    enum Then<B: Body> {
        Passing { #[pin] body: B },
        Resumed { rest: Pin<Box<B>> },
        Ended { trailers: Option<HeaderMap> },
        Broken { error: Option<B::Error> },
    }
}

impl<B: Body> IdempotencyBody<B> {
    pub(super) fn passing(body: B) -> Self {
        Self { front: Vec::new().into_iter(), then: Then::Passing { body } }
    }

    pub(super) fn whole(bytes: Bytes, trailers: Option<HeaderMap>) -> Self {
        let front = if bytes.is_empty() { Vec::new() } else { vec![bytes] };
        Self { front: front.into_iter(), then: Then::Ended { trailers } }
    }

    /// What was read, and what follows.
    pub(super) fn resumed(collected: Collected<B>) -> Self {
        match collected {
            Collected::Whole(Whole { bytes, trailers }) => Self::whole(bytes, trailers),
            Collected::Begun { front, rest } => {
                Self { front: front.into_iter(), then: Then::Resumed { rest } }
            }
            Collected::Broken { front, error } => {
                Self { front: vec![front].into_iter(), then: Then::Broken { error: Some(error) } }
            }
        }
    }
}

impl<B: Body> Body for IdempotencyBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if let Some(bytes) = this.front.next() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let polled = match this.then.project() {
            ThenProj::Passing { body } => body.poll_frame(context),
            ThenProj::Resumed { rest } => rest.as_mut().poll_frame(context),
            ThenProj::Ended { trailers } => return Poll::Ready(trailers.take().map(Frame::trailers).map(Ok)),
            ThenProj::Broken { error } => return Poll::Ready(error.take().map(Err)),
        };
        polled.map_ok(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())))
    }

    fn is_end_stream(&self) -> bool {
        self.front.as_slice().is_empty()
            && match &self.then {
                Then::Passing { body } => body.is_end_stream(),
                Then::Resumed { rest } => rest.is_end_stream(),
                Then::Ended { trailers } => trailers.is_none(),
                Then::Broken { error } => error.is_none(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let front = self.front.as_slice().iter().map(|bytes| bytes.len() as u64).sum();
        let then = match &self.then {
            Then::Passing { body } => body.size_hint(),
            Then::Resumed { rest } => rest.size_hint(),
            Then::Ended { trailers: None } => SizeHint::with_exact(0),
            // Of an exact size, servers announce the length, and send no trailers.
            Then::Ended { trailers: Some(_) } | Then::Broken { .. } => SizeHint::new(),
        };
        let mut hint = SizeHint::new();
        hint.set_lower(then.lower().saturating_add(front));
        if let Some(upper) = then.upper() {
            hint.set_upper(upper.saturating_add(front));
        }
        hint
    }
}

impl<B: Body> fmt::Debug for IdempotencyBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyBody").field("size", &self.size_hint()).finish_non_exhaustive()
    }
}
