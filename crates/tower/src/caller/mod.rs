//! Who asks: from a request to a subject. Limits count it, and idempotency keys belong to it.

mod peer;
mod who;

pub use peer::PeerAddress;
pub use who::Who;
pub(crate) use who::{Unknown, only_value};
