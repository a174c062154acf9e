//! Finding those who have used something.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lockkeeper::{Error, ErrorKind, Keeper, Limiter, Subject};

use crate::doctor::escaped;
use crate::exit::Failure;

/// So many are watched.
const MOST: usize = 10_000;
/// One look walks for so long at most.
const LIMIT: Duration = Duration::from_secs(5);
/// One command gets so long.
const WITHIN: Duration = Duration::from_secs(2);
const PAGE: &str = "1000";

/// Where the keys of a limiter lie: what stands before and after a subject.
pub(super) struct Places(Vec<(Vec<u8>, Vec<u8>)>);

impl Places {
    /// Seen by the keys of somebody.
    pub(super) fn of(limiter: &Limiter) -> anyhow::Result<Self> {
        let somebody = Subject::new("somebody")?;
        let around = |key: &lockkeeper::Key| {
            let (key, who) = (key.as_bytes(), somebody.as_bytes());
            let at = key.windows(who.len()).rposition(|window| window == who)?;
            Some((key[..at].to_vec(), key[at + who.len()..].to_vec()))
        };
        let places: Option<Vec<_>> = limiter.keys(&somebody)?.iter().map(around).collect();
        match places {
            Some(places) if !places.is_empty() => Ok(Self(places)),
            _ => Err(Failure::usage("there is nothing to watch: these limits count nothing").into()),
        }
    }

    /// Those whose keys are there, by their encoded names; and whether there may be more.
    pub(super) async fn find(&self, keeper: &Keeper) -> Result<(BTreeSet<Vec<u8>>, bool), Error> {
        let Some(store) = keeper.redis_store() else {
            return Err(Error::new(ErrorKind::Unsupported, "watch", "the store is not a Redis server"));
        };
        let (mut found, started) = (BTreeSet::new(), Instant::now());
        let servers = match store.servers(WITHIN).await? {
            Some(servers) => servers.into_iter().map(|(_, server)| server).collect(),
            None => vec![store.clone()],
        };
        let each = servers.iter().flat_map(|server| self.0.iter().map(move |place| (server, place)));
        for (store, (before, after)) in each {
            // Prefixes that are not text find too much rather than too little.
            let literal = escaped(&String::from_utf8_lossy(before)).replace(char::REPLACEMENT_CHARACTER, "*");
            let pattern = format!("{literal}*");
            let mut cursor = "0".to_owned();
            loop {
                let page = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", PAGE];
                let (next, keys): (String, Vec<Vec<u8>>) = store.query(&page, WITHIN).await?;
                found.extend(keys.iter().filter_map(|key| between(key, before, after)));
                if found.len() > MOST || started.elapsed() > LIMIT {
                    let beyond = found.iter().nth(MOST).cloned();
                    beyond.map(|name| found.split_off(&name));
                    return Ok((found, true));
                }
                if next == "0" {
                    break;
                }
                cursor = next;
            }
        }
        Ok((found, false))
    }
}

/// A name has no braces: such a key belongs to a limiter with other limits.
fn between(key: &[u8], before: &[u8], after: &[u8]) -> Option<Vec<u8>> {
    let name = key.strip_prefix(before)?.strip_suffix(after)?;
    (!name.is_empty() && !name.iter().any(|byte| matches!(byte, b'{' | b'}'))).then(|| name.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_stands_between() {
        assert_eq!(between(b"l:a:tOxx:user:42", b"l:a:tOxx:", b""), Some(b"user:42".to_vec()));
        assert_eq!(between(b"l:a:tOxx:{user:42}", b"l:a:tOxx:{", b"}"), Some(b"user:42".to_vec()));
        assert_eq!(between(b"l:a:tOxx:{user:42}", b"l:a:tOxx:", b""), None);
        assert_eq!(between(b"l:a:tOxx:", b"l:a:tOxx:", b""), None);
        assert_eq!(between(b"l:a:tOxy:user", b"l:a:tOxx:", b""), None);
    }
}
