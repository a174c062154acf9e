//! What can be measured.

mod bare;
mod lockkeeper;
#[cfg(feature = "peers")]
mod rslock;

pub(crate) use self::bare::Bare;
pub(crate) use self::lockkeeper::Lockkeeper;
#[cfg(feature = "peers")]
pub(crate) use self::rslock::Rslock;
