//! What lies under the prefix: locks that never end, and keys that are no locks.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use lockkeeper::Keeper;
use lockkeeper::core::lock::Inspection;
use lockkeeper::core::{Error, Key, Prefix};
use lockkeeper::redis::RedisStore;
use tokio::task::JoinSet;

use super::facts::{LOOK, words};
use super::finding::{Finding, Level};

/// The most keys that are printed of each kind.
const SHOWN: usize = 10;
/// The most keys that are looked at, and for how long at most.
pub(super) const MOST: usize = 20_000;
pub(super) const LIMIT: Duration = Duration::from_secs(5);
pub(super) const PAGE: &str = "1000";
/// So many looks are under way at once.
pub(super) const AT_ONCE: usize = 100;

/// What was found under the prefix.
#[derive(Default)]
struct Found {
    /// SCAN may show a key twice, and so may several servers.
    seen: HashSet<Vec<u8>>,
    looked_at: usize,
    held: usize,
    endless: Vec<String>,
    wrong: Vec<String>,
    /// Not all of them were looked at.
    partial: bool,
}

/// Walks over the keys under the prefix with SCAN and looks at each.
pub(super) async fn check(keeper: &Keeper, servers: &[RedisStore], prefix: &Prefix) -> Vec<Finding> {
    if prefix.as_bytes().is_empty() {
        return vec![skipped("with an empty prefix every key may be a lock")];
    }
    match walk(keeper, servers, prefix).await {
        Ok(mut found) => {
            found.endless.sort();
            found.wrong.sort();
            findings(&found)
        }
        Err(error) => vec![skipped(&words(&error))],
    }
}

fn skipped(why: &str) -> Finding {
    Finding::new("keys", Level::Note, "The keys under the prefix were not looked at").seen(format!("{why}."))
}

/// Over all servers, one after another.
async fn walk(keeper: &Keeper, servers: &[RedisStore], prefix: &Prefix) -> Result<Found, Error> {
    let (mut found, started) = (Found::default(), Instant::now());
    for store in servers {
        if !found.partial {
            walk_one(keeper, store, prefix, &mut found, started).await?;
        }
    }
    Ok(found)
}

async fn walk_one(
    keeper: &Keeper,
    store: &RedisStore,
    prefix: &Prefix,
    found: &mut Found,
    started: Instant,
) -> Result<(), Error> {
    let pattern = format!("{}*", super::permissions::escaped(&String::from_utf8_lossy(prefix.as_bytes())));
    let mut cursor = "0".to_owned();
    loop {
        let page = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", PAGE];
        let (next, names): (String, Vec<Vec<u8>>) = store.query(&page, LOOK).await?;
        // Side keys and names that no lock has are passed over.
        let names = names.iter().filter_map(|name| name.strip_prefix(prefix.as_bytes()));
        let keys = names.filter_map(|name| Key::new(prefix, name).ok());
        let keys: Vec<Key> = keys.filter(|key| found.seen.insert(key.as_bytes().to_vec())).collect();
        for some in keys.chunks(AT_ONCE) {
            look_at(keeper, some, found).await?;
        }
        if next == "0" {
            return Ok(());
        }
        if found.looked_at >= MOST || started.elapsed() >= LIMIT {
            found.partial = true;
            return Ok(());
        }
        cursor = next;
    }
}

async fn look_at(keeper: &Keeper, keys: &[Key], found: &mut Found) -> Result<(), Error> {
    let mut looks = JoinSet::new();
    for key in keys.iter().cloned() {
        let keeper = keeper.clone();
        looks.spawn(async move { (keeper.inspect(key.name()).await, key) });
    }
    for (seen, key) in looks.join_all().await {
        found.add(&key, &seen?);
    }
    Ok(())
}

impl Found {
    fn add(&mut self, key: &Key, seen: &Inspection) {
        self.looked_at += 1;
        if seen.wrong_type {
            self.wrong.push(key.to_string());
        }
        let Some(holder) = &seen.holder else { return };
        self.held += 1;
        if seen.remaining.is_none() {
            self.endless.push(format!("{}, held by {holder}", key));
        }
    }
}

fn findings(found: &Found) -> Vec<Finding> {
    let mut findings = vec![];
    if !found.endless.is_empty() {
        let finding = Finding::new("endless", Level::Warning, count(found.endless.len(), "never ends", "never end"))
            .seen(
                "Without an expiry nobody else gets the lock when its holder has crashed. Locks of this library always \
                 have one; other clients or people wrote these.",
            )
            .items(first(&found.endless))
            .advice("Find out whether the holder lives. If it does not, remove the lock:");
        findings.push(finding.command("lockkeeper release NAME --force"));
    }
    if !found.wrong.is_empty() {
        let finding = Finding::new("wrong-type", Level::Warning, not_locks(found.wrong.len()))
            .seen(
                "They are lists, hashes or the like. These names cannot be locked; nothing touches the keys.",
            )
            .items(first(&found.wrong))
            .advice("Use a prefix that nothing else uses.");
        findings.push(finding);
    }
    if findings.is_empty() || found.partial {
        findings.push(summary(found));
    }
    findings
}

fn summary(found: &Found) -> Finding {
    let held = match found.held {
        0 => "No lock is held".to_owned(),
        held => count(held, "is held", "are held"),
    };
    if found.partial {
        let title = format!("Only the first {} keys were looked at", found.looked_at);
        return Finding::new("keys", Level::Note, title).seen(format!("{held} among them."));
    }
    Finding::new("keys", Level::Ok, held)
}

fn count(number: usize, one: &str, more: &str) -> String {
    if number == 1 { format!("1 lock {one}") } else { format!("{number} locks {more}") }
}

fn not_locks(number: usize) -> String {
    if number == 1 {
        "1 key under the prefix is not a lock".to_owned()
    } else {
        format!("{number} keys under the prefix are not locks")
    }
}

pub(super) fn first(all: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = all.iter().take(SHOWN).cloned().collect();
    if all.len() > SHOWN {
        shown.push(format!("and {} more", all.len() - SHOWN));
    }
    shown
}
