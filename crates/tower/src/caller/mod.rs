//! Who asks: from a request to a subject. Limits count it, and idempotency keys belong to it.

mod peer;
mod who;

pub use peer::PeerAddress;
#[cfg(feature = "rate-limit")]
pub(crate) use who::Unknown;
pub use who::Who;
