//! Whose request it is, when proxies stand between the client and us.
//!
//! Each proxy appends the address of its own peer to a header, on the right. Whatever stands further left was sent by
//! the client and may be a lie. So the header is read from the right, and no further than there is reason to believe:
//! [`ClientAddress`] says how far that is.

mod config;
mod elements;
mod find;
mod node;
mod watch;

#[cfg(test)]
mod tests;

pub use config::{ClientAddress, ForwardedHeader, MAX_TRUSTED_HOPS};
pub use find::NoAddress;
pub use watch::{SingleAddressWatch, WATCHED_REQUESTS};
