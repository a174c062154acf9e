//! What is kept of an operation's result.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;

/// The most that a record keeps of a result, in bytes. Front doors have lower bounds of their own.
pub const MAX_STORED_BYTES: usize = 16 * 1024 * 1024;

/// The bytes that are kept of a result: all of them, or what was to be kept of one that is too large.
#[derive(Clone, PartialEq, Eq)]
pub struct Stored {
    bytes: Arc<[u8]>,
    whole: bool,
}

impl Stored {
    /// The whole result.
    ///
    /// # Errors
    /// Larger than [`MAX_STORED_BYTES`].
    pub fn whole(bytes: impl Into<Arc<[u8]>>) -> Result<Self, Error> {
        Self::new(bytes.into(), true)
    }

    /// The operation completed, and its result was not kept. `about` says what is left to say of it; it may be empty.
    ///
    /// # Errors
    /// Larger than [`MAX_STORED_BYTES`].
    pub fn not_kept(about: impl Into<Arc<[u8]>>) -> Result<Self, Error> {
        Self::new(about.into(), false)
    }

    /// The operation completed, and nothing of its result was kept.
    pub fn nothing() -> Self {
        Self { bytes: Arc::from([]), whole: false }
    }

    fn new(bytes: Arc<[u8]>, whole: bool) -> Result<Self, Error> {
        if bytes.len() <= MAX_STORED_BYTES {
            return Ok(Self { bytes, whole });
        }
        let detail = format!("a result of {} bytes; at most {MAX_STORED_BYTES}", bytes.len());
        Err(Error::bad_argument("complete", detail))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// They are the whole result.
    pub fn is_whole(&self) -> bool {
        self.whole
    }
}

/// Results are nobody's business: only their size is shown.
impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stored({} bytes{})", self.bytes.len(), if self.whole { "" } else { ", not the result" })
    }
}
