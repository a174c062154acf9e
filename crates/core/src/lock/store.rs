//! The dynamic edge: lock stores that other people write.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::{
    Acquire, AcquireReply, ForceRelease, ForceReleaseReply, Inspect, Inspection, Leave, Release,
    ReleaseReply, Renew, RenewReply, Swap, SwapReply, Watch, WatchReply,
};
use crate::decision::{Answer, Apply};
use crate::error::Error;
use crate::key::Keys;

/// What a [`LockStore`] returns.
pub type StoreFuture<'a, R> = Pin<Box<dyn Future<Output = Result<Answer<R>, Error>> + Send + 'a>>;

macro_rules! lock_store {
    ($($(#[$doc:meta])* $method:ident: $decision:ty => $reply:ty;)*) => {
        /// A store of locks behind a pointer. Whatever [`Apply`]s all decisions of locks is one, and the contract
        /// is that of [`Apply`].
        pub trait LockStore: Send + Sync {
            $($(#[$doc])* fn $method<'a>(&'a self, at: &'a Keys, decision: $decision, within: Duration) -> StoreFuture<'a, $reply>;)*
        }

        impl<S> LockStore for S
        where
            S: $(Apply<$decision> +)*
        {
            $(fn $method<'a>(&'a self, at: &'a Keys, decision: $decision, within: Duration) -> StoreFuture<'a, $reply> {
                Box::pin(self.apply(at, decision, within))
            })*
        }
    };
}

lock_store! {
    /// Applies an [`Acquire`].
    acquire: Acquire => AcquireReply;
    /// Applies a [`Watch`].
    watch: Watch => WatchReply;
    /// Applies a [`Leave`].
    leave: Leave => ();
    /// Applies a [`Renew`].
    renew: Renew => RenewReply;
    /// Applies a [`Release`].
    release: Release => ReleaseReply;
    /// Applies a [`Swap`].
    swap: Swap => SwapReply;
    /// Applies a [`ForceRelease`].
    force_release: ForceRelease => ForceReleaseReply;
    /// Applies an [`Inspect`].
    inspect: Inspect => Vec<Inspection>;
}
