//! What is measured: a library, and a lock of it.

use anyhow::Result;

/// The lease of all arms, in milliseconds.
pub(crate) const LEASE_MS: u64 = 10_000;

/// A library on its connection; one per process.
pub(crate) trait Arm: Send + Sync + 'static {
    type Lock: Lock;

    /// The lock on exactly this key.
    fn lock(&self, key: &str) -> Result<Self::Lock>;

    /// Leaves nothing behind.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// A lock, as one task uses it.
pub(crate) trait Lock: Send + 'static {
    type Held: Send;

    /// Waits until it is held.
    fn acquire(&mut self) -> impl Future<Output = Result<Self::Held>> + Send;

    /// Whether it said that it released.
    fn release(&mut self, held: Self::Held) -> impl Future<Output = bool> + Send;

    /// The fence, where the library has one.
    fn fence(held: &Self::Held) -> Option<u64>;
}
