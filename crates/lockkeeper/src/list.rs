//! Listing who holds what, a page at a time.

use std::time::Duration;

use futures_util::future::join_all;
use lockkeeper_core::lock::{Fence, Holder, Inspection, Waiter};
use lockkeeper_core::{Error, ErrorKind, Key, Keys};
use lockkeeper_redis::{Cursor, Lane, QuorumCursor};

use crate::backend::Backend;
use crate::keeper::Keeper;

/// How many keys one page looks at.
const PAGE: u32 = 100;

/// A held lock, as listed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockView {
    /// Its key.
    pub key: Key,
    /// Who holds it.
    pub holder: Holder,
    /// What is left; `None` where the key has no expiry.
    pub remaining: Option<Duration>,
    /// The last fence given out, while its side key lives.
    pub fence: Option<Fence>,
    /// Who waits for it, by keeper; see [`Inspection::waiters`].
    pub waiters: Vec<Waiter>,
}

impl LockView {
    /// How many callers wait, over all keepers.
    pub fn waiting(&self) -> u64 {
        Waiter::total(&self.waiters)
    }
}

/// Part of a listing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page {
    /// The locks of this page; it may be empty although more follow.
    pub locks: Vec<LockView>,
    /// Keys that some servers of a majority keep, and whether a majority does is for those to say that do not answer.
    /// Empty with every other store.
    pub undecided: Vec<Key>,
    /// Keys that could not be looked at, because their slot of the cluster is on its way to another server.
    pub unseen: Vec<Key>,
    /// Where to go on; `None` at the end.
    pub next: Option<ListCursor>,
}

/// Where a listing goes on.
#[derive(Clone, Debug)]
pub struct ListCursor(At);

#[derive(Clone, Debug)]
enum At {
    Memory(Key),
    Redis(Cursor),
    Quorum(QuorumCursor),
}

impl Keeper {
    /// One page of the held locks under this keeper's prefix. `None` starts.
    ///
    /// A lock that is held all the time is listed at least once, possibly twice; at a majority, once at each server that is
    /// looked through, if a majority has it. With an empty prefix, every string
    /// key of the database counts as a lock.
    ///
    /// # Redis
    /// One `SCAN` and one read-only script, two round trips; on a cluster, a script for each key, side by side. Never
    /// `KEYS`.
    ///
    /// # Errors
    /// Refused; unreachable; a store of your own that cannot list.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn list(&self, from: Option<ListCursor>) -> Result<Page, Error> {
        let inner = &self.inner;
        let (keys, next) = match (&inner.backend, from.map(|cursor| cursor.0)) {
            (Backend::Memory(store), from) => {
                let after = match from {
                    Some(At::Memory(key)) => Some(key),
                    _ => None,
                };
                let (keys, more) = store.scan(inner.prefix.as_bytes(), after.as_ref(), PAGE as usize);
                let next = keys.last().filter(|_| more).cloned().map(At::Memory);
                (keys, next)
            }
            (Backend::Redis(lanes), from) => {
                let store = lanes.on(Lane::Command);
                let from = match from {
                    Some(At::Redis(cursor)) => Some(cursor),
                    _ => None,
                };
                let (keys, next) = store.scan(&inner.prefix, from, PAGE, inner.response_timeout).await?;
                (keys, next.map(At::Redis))
            }
            (Backend::Quorum(store), from) => {
                let from = match from {
                    Some(At::Quorum(cursor)) => Some(cursor),
                    _ => None,
                };
                let (keys, next) = store.scan(&inner.prefix, from, PAGE, inner.response_timeout).await?;
                (keys, next.map(At::Quorum))
            }
            (Backend::Other(_), _) => {
                return Err(Error::new(ErrorKind::Unsupported, "list", "this store cannot list"));
            }
        };
        let (locks, undecided, unseen) = self.views(keys).await?;
        Ok(Page { locks, undecided, unseen, next: next.map(ListCursor) })
    }

    /// Looks at each of `keys`; leaves out those that are no longer held. Also those that are undecided, and those of a slot on
    /// its way.
    async fn views(&self, keys: Vec<Key>) -> Result<(Vec<LockView>, Vec<Key>, Vec<Key>), Error> {
        if self.inner.backend.is_cluster() {
            // They lie in different slots.
            let each = keys.iter().map(|key| self.view_of(key));
            let (mut views, mut unseen) = (Vec::new(), Vec::new());
            for (key, seen) in keys.iter().zip(join_all(each).await) {
                match seen {
                    Err(error) if error.detail().contains("TRYAGAIN") => unseen.push(key.clone()),
                    seen => views.extend(seen?),
                }
            }
            return Ok((views, vec![], unseen));
        }
        let (mut views, mut undecided) = (Vec::with_capacity(keys.len()), vec![]);
        for some in keys.chunks(lockkeeper_core::key::MAX_KEYS) {
            let keys = Keys::new(some.iter().cloned())?;
            let seen: Vec<_> = match &self.inner.backend {
                Backend::Quorum(store) => store.inspect_known(&keys, self.inner.response_timeout).await?,
                _ => self.inspect_all(&keys).await?.into_iter().map(Some).collect(),
            };
            for (key, seen) in keys.as_slice().iter().zip(seen) {
                match seen {
                    Some(seen) => views.extend(held(key, seen)),
                    None => undecided.push(key.clone()),
                }
            }
        }
        Ok((views, undecided, vec![]))
    }

    async fn view_of(&self, key: &Key) -> Result<Option<LockView>, Error> {
        let seen = self.inspect_all(&key.clone().into()).await?;
        Ok(seen.into_iter().next().and_then(|seen| held(key, seen)))
    }
}

fn held(key: &Key, seen: Inspection) -> Option<LockView> {
    let (holder, remaining, fence, waiters) = (seen.holder?, seen.remaining, seen.fence, seen.waiters);
    Some(LockView { key: key.clone(), holder, remaining, fence, waiters })
}
