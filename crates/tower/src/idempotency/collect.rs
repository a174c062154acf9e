//! Reading a body, up to a size.

use std::future::poll_fn;
use std::pin::{Pin, pin};

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body;

/// What was read.
pub(super) enum Collected<B: Body> {
    Whole(Whole),
    /// There is more than was to be read, or it took too long. Of what follows, nothing was read.
    Begun {
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

/// Reads `body` to its end, unless it has more than `most` bytes, or `too_long` ends before. Keeps at most so many, and the
/// piece beyond that came.
pub(super) async fn collect<B: Body>(
    body: B,
    most: usize,
    too_long: impl Future<Output = ()>,
) -> Collected<B> {
    let (mut body, mut too_long) = (Box::pin(body), pin!(too_long));
    if body.size_hint().lower() > most as u64 {
        return Collected::Begun { front: Vec::new(), rest: body };
    }
    let mut read = BytesMut::new();
    let mut trailers: Option<HeaderMap> = None;
    loop {
        let next = tokio::select! {
            biased; // What is there already is read.
            next = poll_fn(|context| body.as_mut().poll_frame(context)) => next,
            () = &mut too_long => return Collected::Begun { front: pieces([read.freeze()]), rest: body },
        };
        let frame = match next {
            None => return Collected::Whole(Whole { bytes: read.freeze(), trailers }),
            Some(Err(error)) => return Collected::Broken { front: read.freeze(), error },
            Some(Ok(frame)) => frame,
        };
        match frame.into_data() {
            Ok(mut data) if data.remaining() > most - read.len() => {
                let beyond = data.copy_to_bytes(data.remaining());
                return Collected::Begun { front: pieces([read.freeze(), beyond]), rest: body };
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

fn pieces<const N: usize>(all: [Bytes; N]) -> Vec<Bytes> {
    all.into_iter().filter(|bytes| !bytes.is_empty()).collect()
}
