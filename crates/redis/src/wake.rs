//! Being told that a key changed, by server-assisted client tracking on the waiting connection.
//!
//! A keyed read inside a script registers the key for the connection that ran it; the next change of the key, by
//! anybody, uses the registration up and sends one notice. Expiry is different: its notice comes when the server
//! happens to look at the key, seconds late or never. So a notice is a reason to try again, and its absence is no
//! reason to sleep on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_core::{Key, Keys};
use parking_lot::Mutex;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

/// Who wants to be told of which key.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    keys: Mutex<HashMap<Key, Vec<Arc<Notify>>>>,
    /// That tracking was refused has been said.
    refusal_reported: AtomicBool,
}

/// Wants to be told when one of its keys changed; until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    watched: Arc<Watched>,
    keys: Keys,
    changed: Arc<Notify>,
}

impl Watched {
    pub(crate) fn watch(self: &Arc<Self>, keys: &Keys) -> Watcher {
        let changed = Arc::new(Notify::new());
        let mut watched = self.keys.lock();
        for key in keys.as_slice() {
            watched.entry(key.clone()).or_default().push(changed.clone());
        }
        Watcher { watched: self.clone(), keys: keys.clone(), changed }
    }

    /// Takes one push message of the waiting connection. Notices of names that nobody watches are ignored: Redis up to
    /// 7.0 registers every declared key of a script.
    pub(crate) fn hear(&self, push: &PushInfo) {
        match (&push.kind, push.data.first()) {
            (PushKind::Invalidate, Some(Value::Array(names))) => {
                for name in names {
                    if let Value::BulkString(name) = name {
                        self.has_changed(name);
                    }
                }
            }
            // The database was flushed, or the connection is gone: everything may have changed.
            (PushKind::Invalidate | PushKind::Disconnection, _) => self.everything_changed(),
            _ => {}
        }
    }

    fn has_changed(&self, name: &[u8]) {
        if let Some(watchers) = self.keys.lock().get(name) {
            watchers.iter().for_each(|changed| changed.notify_one());
        }
    }

    /// Whoever watches a key that `is_meant` is to look again.
    pub(crate) fn have_changed(&self, is_meant: impl Fn(&Key) -> bool) {
        let watched = self.keys.lock();
        let meant = watched.iter().filter(|(key, _)| is_meant(key));
        meant.flat_map(|(_, watchers)| watchers).for_each(|changed| changed.notify_one());
    }

    pub(crate) fn everything_changed(&self) {
        self.keys.lock().values().flatten().for_each(|changed| changed.notify_one());
    }

    pub(crate) fn was_refused(&self) -> bool {
        self.refusal_reported.load(Ordering::Relaxed)
    }

    /// Said once per store: waiting works by polling alone.
    pub(crate) fn report_refusal(&self, reason: &str) {
        if !self.refusal_reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(reason, "this server or user may not track keys: who waits for a lock polls");
        }
    }
}

impl Watcher {
    /// Waits until one of the keys has, or may have, changed since the last call returned.
    ///
    /// # Cancel safety
    /// Yes: a change that nobody took is kept.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut watched = self.watched.keys.lock();
        for key in self.keys.as_slice() {
            if let Some(watchers) = watched.get_mut(key) {
                watchers.retain(|changed| !Arc::ptr_eq(changed, &self.changed));
                if watchers.is_empty() {
                    watched.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_core::Prefix;
    use tokio::time::timeout;

    use super::*;

    fn keys(name: &str) -> Keys {
        Key::new(&Prefix::new("lock:").unwrap(), name).unwrap().into()
    }

    fn invalidate(data: Value) -> PushInfo {
        PushInfo { kind: PushKind::Invalidate, data: vec![data] }
    }

    async fn was_told(watcher: &Watcher) -> bool {
        timeout(Duration::ZERO, watcher.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn a_notice_reaches_those_who_watch_its_key_and_is_kept_for_them() {
        let watched = Arc::new(Watched::default());
        let (one, other) = (watched.watch(&keys("a")), watched.watch(&keys("b")));
        let names = ["lock:a", "lock:~fence:{lock:a}"].map(|name| Value::BulkString(name.into()));
        watched.hear(&invalidate(Value::Array(names.to_vec())));
        assert!(was_told(&one).await && !was_told(&one).await && !was_told(&other).await);
    }

    #[tokio::test]
    async fn a_flush_and_a_lost_connection_tell_everybody() {
        let watched = Arc::new(Watched::default());
        let (one, other) = (watched.watch(&keys("a")), watched.watch(&keys("b")));
        watched.hear(&invalidate(Value::Nil));
        assert!(was_told(&one).await && was_told(&other).await);
        watched.hear(&PushInfo { kind: PushKind::Disconnection, data: vec![] });
        assert!(was_told(&one).await && was_told(&other).await);
    }

    #[test]
    fn l25_nothing_is_kept_of_a_watcher_that_is_gone() {
        let watched = Arc::new(Watched::default());
        let (one, other) = (watched.watch(&keys("a")), watched.watch(&keys("a")));
        drop(one);
        assert_eq!(watched.keys.lock().len(), 1);
        drop(other);
        assert!(watched.keys.lock().is_empty());
    }
}
