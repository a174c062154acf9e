//! Reading a body, up to a size.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body;

/// What was read.
pub(super) enum Collected<B: Body> {
    Whole(Whole),
    /// There is more than was to be read. Of what follows, nothing was read.
    Larger {
        front: Vec<Bytes>,
        rest: Pin<Box<B>>,
    },
    Broken {
        front: Bytes,
        error: B::Error,
    },
}

/// A body that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    pub(super) trailers: Option<HeaderMap>,
}

/// Reads `body` to its end, unless it has more than `most` bytes. Keeps at most so many, and the piece beyond that came.
pub(super) async fn collect<B: Body>(body: B, most: usize) -> Collected<B> {
    let mut body = Box::pin(body);
    if body.size_hint().lower() > most as u64 {
        return Collected::Larger { front: Vec::new(), rest: body };
    }
    let mut read = BytesMut::new();
    let mut trailers: Option<HeaderMap> = None;
    loop {
        let frame = match poll_fn(|context| body.as_mut().poll_frame(context)).await {
            None => return Collected::Whole(Whole { bytes: read.freeze(), trailers }),
            Some(Err(error)) => return Collected::Broken { front: read.freeze(), error },
            Some(Ok(frame)) => frame,
        };
        match frame.into_data() {
            Ok(mut data) if data.remaining() > most - read.len() => {
                let beyond = data.copy_to_bytes(data.remaining());
                let front = [read.freeze(), beyond].into_iter().filter(|bytes| !bytes.is_empty());
                return Collected::Larger { front: front.collect(), rest: body };
            }
            Ok(data) => {
                read.reserve(data.remaining());
                bytes::BufMut::put(&mut read, data);
            }
            Err(frame) => {
                if let Ok(more) = frame.into_trailers() {
                    trailers.get_or_insert_default().extend(more);
                }
            }
        }
    }
}
