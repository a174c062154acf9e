//! Names under which nothing is sold: strangers invent them, and the database is not asked for each of their requests.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::names::Sku;

/// For how long a process believes that there is no such sale. One that another process opens is seen this much later.
pub const UNKNOWN_FOR: Duration = Duration::from_secs(1);
/// How many names are remembered.
const MAX_UNKNOWN: usize = 1000;

/// What the database said a moment ago.
#[derive(Debug, Default)]
pub(super) struct Unknown {
    until: Mutex<HashMap<Sku, Instant>>,
}

impl Unknown {
    pub(super) fn has(&self, sku: &Sku) -> bool {
        self.until.lock().get(sku).is_some_and(|until| Instant::now() < *until)
    }

    pub(super) fn note(&self, sku: &Sku) {
        let (mut noted, now) = (self.until.lock(), Instant::now());
        if noted.len() >= MAX_UNKNOWN {
            noted.retain(|_, until| now < *until);
        }
        if noted.len() < MAX_UNKNOWN {
            noted.insert(sku.clone(), now + UNKNOWN_FOR);
        }
    }

    pub(super) fn forget(&self, sku: &Sku) {
        self.until.lock().remove(sku);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sku(n: usize) -> Sku {
        format!("sku-{n}").parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn names_are_remembered_for_a_moment_and_no_more_of_them_than_there_is_room_for() {
        let unknown = Unknown::default();
        (0..2 * MAX_UNKNOWN).for_each(|n| unknown.note(&sku(n)));
        assert!(unknown.has(&sku(0)) && !unknown.has(&sku(MAX_UNKNOWN)));
        assert_eq!(unknown.until.lock().len(), MAX_UNKNOWN);
        unknown.forget(&sku(0));
        assert!(!unknown.has(&sku(0)));
        tokio::time::advance(UNKNOWN_FOR).await;
        assert!(!unknown.has(&sku(1)));
        (0..2).for_each(|n| unknown.note(&sku(MAX_UNKNOWN + n)));
        assert!(unknown.has(&sku(MAX_UNKNOWN + 1)));
        assert_eq!(unknown.until.lock().len(), 2, "those of before made room");
    }
}
