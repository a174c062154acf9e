//! What lies under the limits' prefix: keys of ours that never end.

use std::time::Instant;

use lockkeeper::core::Error;
use lockkeeper::core::key::Escaped;
use lockkeeper::redis::RedisStore;
use tokio::task::JoinSet;

use super::facts::{LOOK, words};
use super::finding::{Finding, Level};
use super::keys::{AT_ONCE, LIMIT, MOST, PAGE, first};
use super::permissions::escaped;

/// What PTTL says of a key without an expiry.
const NO_EXPIRY: i64 = -1;

/// Walks over the limits with SCAN and asks each for its expiry. `None`: there are none.
pub(super) async fn check(servers: &[RedisStore], prefix: &str) -> Option<Finding> {
    if prefix.is_empty() {
        let title = "The limits were not looked at";
        return Some(
            Finding::new("limits", Level::Note, title).seen("With an empty prefix every key may be one."),
        );
    }
    match walk(servers, prefix).await {
        Ok((0, _)) => None,
        Ok((looked_at, mut endless)) => {
            // SCAN may show a key twice.
            endless.sort();
            endless.dedup();
            Some(finding(looked_at, &endless))
        }
        Err(error) => {
            let title = "The limits were not looked at";
            Some(Finding::new("limits", Level::Note, title).seen(format!("{}.", words(&error))))
        }
    }
}

/// How many were looked at, and those that never end.
async fn walk(servers: &[RedisStore], prefix: &str) -> Result<(usize, Vec<String>), Error> {
    let (mut looked_at, mut endless, started) = (0, vec![], Instant::now());
    for store in servers {
        walk_one(store, prefix, &mut looked_at, &mut endless, started).await?;
    }
    Ok((looked_at, endless))
}

async fn walk_one(
    store: &RedisStore,
    prefix: &str,
    looked_at: &mut usize,
    endless: &mut Vec<String>,
    started: Instant,
) -> Result<(), Error> {
    let pattern = format!("{}*", escaped(prefix));
    let mut cursor = "0".to_owned();
    loop {
        let page = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", PAGE];
        let (next, keys): (String, Vec<Vec<u8>>) = store.query(&page, LOOK).await?;
        let keys = keys.into_iter().filter_map(|key| String::from_utf8(key).ok());
        let ours: Vec<String> = keys.filter(|key| is_ours(key, prefix)).collect();
        for some in ours.chunks(AT_ONCE) {
            *looked_at += some.len();
            endless.extend(without_expiry(store, some).await?);
        }
        if next == "0" || *looked_at >= MOST || started.elapsed() >= LIMIT {
            return Ok(());
        }
        cursor = next;
    }
}

async fn without_expiry(store: &RedisStore, keys: &[String]) -> Result<Vec<String>, Error> {
    let mut looks = JoinSet::new();
    for key in keys.iter().cloned() {
        let store = store.clone();
        looks.spawn(async move { (store.query::<i64>(&["PTTL", &key], LOOK).await, key) });
    }
    let mut found = vec![];
    for (left, key) in looks.join_all().await {
        if left? == NO_EXPIRY {
            found.push(Escaped(key.as_bytes()).to_string());
        }
    }
    Ok(found)
}

/// `NAME:TAG:SUBJECT`, with a tag of four: what is kept, and three of a digest.
fn is_ours(key: &str, prefix: &str) -> bool {
    let mut parts = key.strip_prefix(prefix).unwrap_or("").splitn(3, ':');
    let is_name = parts.next().is_some_and(|name| !name.is_empty());
    let is_tag = parts.next().is_some_and(|tag| tag.len() == 4 && tag.starts_with(['w', 'f', 'l', 'c', 't']));
    is_name && is_tag && parts.next().is_some_and(|subject| !subject.is_empty())
}

fn finding(looked_at: usize, endless: &[String]) -> Finding {
    let count = |number: usize| {
        if number == 1 { "1 key of a limit".to_owned() } else { format!("{number} keys of limits") }
    };
    if endless.is_empty() {
        return Finding::new("limits", Level::Ok, format!("{} with an expiry", count(looked_at)));
    }
    let has = if endless.len() == 1 { "has" } else { "have" };
    Finding::new("limits", Level::Warning, format!("{} {has} no expiry", count(endless.len())))
        .seen(
            "Limits of this library always have one; somebody took it away. The next check repairs it, but a key that \
             nobody checks any more stays for good.",
        )
        .items(first(endless))
        .advice("Find out what takes expiries away (PERSIST, or a restore without them), and reset:")
        .command("lockkeeper limit reset NAME KEY --encoded --limit LIMIT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_limits_are_told_from_others() {
        for ours in ["limit:login:tODn:a", "limit:api:lO-_:{user:42}"] {
            assert!(is_ours(ours, "limit:"), "{ours}");
        }
        for other in
            ["limit:login", "limit:login:tODn:", "limit::tODn:a", "limit:a:xODn:b", "limit:a:tODnn:b", "l"]
        {
            assert!(!is_ours(other, "limit:"), "{other}");
        }
    }
}
