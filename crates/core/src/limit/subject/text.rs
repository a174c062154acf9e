//! Encoded bytes that cost nothing to copy: few of them lie in place, more are shared.

use std::sync::Arc;

/// The longest encoded subject, in bytes.
pub const MAX_SUBJECT_BYTES: usize = 200;
/// Room for `@user:` and a UUID; with length and tag, 48 bytes.
const IN_PLACE: usize = 46;

#[derive(Clone)]
pub(super) enum Text {
    InPlace { length: u8, bytes: [u8; IN_PLACE] },
    Shared(Arc<[u8]>),
}

impl Text {
    /// The pieces, one after the other. Where they end up depends on their length alone.
    pub(super) fn of(pieces: &[&[u8]]) -> Self {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        if total > IN_PLACE {
            return Self::Shared(pieces.concat().into());
        }
        let mut bytes = [0; IN_PLACE];
        let mut at = 0;
        for piece in pieces {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        Self::InPlace { length: at as u8, bytes }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::InPlace { length, bytes } => &bytes[..usize::from(*length)],
            Self::Shared(bytes) => bytes,
        }
    }
}
