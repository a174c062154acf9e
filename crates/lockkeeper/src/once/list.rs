//! Listing what is remembered of operations, a page at a time.

use futures_util::future::join_all;
use lockkeeper_core::idempotency::{InspectOnce, OnceInspection};
use lockkeeper_core::{Error, ErrorKind, Key, Keys, Prefix};
use lockkeeper_redis::{Cursor, Lane};

use crate::backend::Backend;
use crate::keeper::Keeper;
use crate::telemetry::check_once_name;

/// How many keys one page looks at.
const PAGE: u32 = 100;

/// What is remembered of an operation, as listed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OnceView {
    /// Its key on the server.
    pub full_key: Key,
    /// The operations' name.
    pub name: String,
    /// The caller's key.
    pub key: Vec<u8>,
    /// What is seen.
    pub seen: OnceInspection,
}

/// Part of a listing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OncePage {
    /// The records of this page; it may be empty although more follow.
    pub records: Vec<OnceView>,
    /// Where to go on; `None` at the end.
    pub next: Option<OnceCursor>,
}

/// Where a listing goes on.
#[derive(Clone, Debug)]
pub struct OnceCursor(At);

#[derive(Clone, Debug)]
enum At {
    Memory(Key),
    Redis(Cursor),
}

impl Keeper {
    /// One page of the operations that are remembered: those of `name`, or all under the
    /// [prefix](crate::KeeperBuilder::once_prefix). `None` as cursor starts.
    ///
    /// What is remembered all the time is listed at least once, possibly twice. Keys that hold something else are left out.
    ///
    /// # Redis
    /// One `SCAN`, then one read-only script for each key that was found, all at once: two round trips. Never `KEYS`.
    ///
    /// # Errors
    /// The name is not valid; refused; unreachable; a store of [your own](crate::KeeperBuilder::store), which has locks only.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn list_once(&self, name: Option<&str>, from: Option<OnceCursor>) -> Result<OncePage, Error> {
        name.map_or(Ok(()), check_once_name)?;
        let beginning = name.map(|name| format!("{name}:")).unwrap_or_default();
        let (keys, next) = self.page_of(beginning.as_bytes(), from).await?;
        let views = join_all(keys.iter().map(|key| self.view(key))).await;
        let records: Result<Vec<_>, Error> = views.into_iter().filter_map(Result::transpose).collect();
        Ok(OncePage { records: records?, next: next.map(OnceCursor) })
    }

    async fn page_of(
        &self,
        beginning: &[u8],
        from: Option<OnceCursor>,
    ) -> Result<(Vec<Key>, Option<At>), Error> {
        let inner = &self.inner;
        match (&inner.backend, from.map(|cursor| cursor.0)) {
            (Backend::Memory(store), from) => {
                let after = match from {
                    Some(At::Memory(key)) => Some(key),
                    _ => None,
                };
                let prefix = [inner.once_prefix.as_bytes(), beginning].concat();
                let (keys, more) = store.scan_once(&prefix, after.as_ref(), PAGE as usize);
                let next = keys.last().filter(|_| more).cloned().map(At::Memory);
                Ok((keys, next))
            }
            (Backend::Redis(lanes), from) => {
                let from = match from {
                    Some(At::Redis(cursor)) => Some(cursor),
                    _ => None,
                };
                let (store, within) = (lanes.on(Lane::Command), inner.response_timeout);
                let (keys, next) = store.scan_once(&inner.once_prefix, beginning, from, PAGE, within).await?;
                Ok((keys, next.map(At::Redis)))
            }
            (Backend::Quorum(_) | Backend::Other(_), _) => {
                Err(Error::new(ErrorKind::Unsupported, "list", "this store has locks only"))
            }
        }
    }

    /// `None`: it is gone meanwhile, or nothing of ours.
    async fn view(&self, full_key: &Key) -> Result<Option<OnceView>, Error> {
        let Some((name, key)) = parts(&self.inner.once_prefix, full_key) else { return Ok(None) };
        let (keys, within) = (Keys::from(full_key.clone()), self.inner.response_timeout);
        match self.inner.backend.apply(Lane::Command, &keys, InspectOnce, within).await {
            Ok(answer) => {
                Ok(answer.reply.map(|seen| OnceView { full_key: full_key.clone(), name, key, seen }))
            }
            Err(error) if error.kind() == ErrorKind::WrongType => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The name and the caller's key, if there can be such ones.
fn parts(prefix: &Prefix, full_key: &Key) -> Option<(String, Vec<u8>)> {
    let rest = full_key.as_bytes().strip_prefix(prefix.as_bytes())?;
    let colon = rest.iter().position(|byte| *byte == b':')?;
    let (name, key) = (std::str::from_utf8(&rest[..colon]).ok()?, &rest[colon + 1..]);
    (check_once_name(name).is_ok() && !key.is_empty()).then(|| (name.to_owned(), key.to_vec()))
}
