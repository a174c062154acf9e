//! Listing locks and records of idempotency, a page at a time. Never `KEYS`.

use std::time::Duration;

use lockkeeper_core::idempotency::Record;
use lockkeeper_core::{Error, Key, Prefix};
use redis::cmd;

use crate::layout::MARKS;
use crate::store::RedisStore;

/// Where a listing goes on: with which server, and where there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    server: u16,
    at: u64,
}

impl RedisStore {
    /// One page of the main keys with this prefix; `None` as cursor starts, and `None` in the answer ends.
    ///
    /// As `SCAN` does: a key that is there all the time is seen at least once, possibly twice; a page may be empty. On a
    /// cluster the servers follow each other; a key whose slot moves meanwhile may be missed, or seen twice.
    ///
    /// # Redis
    /// One `SCAN … MATCH … COUNT … TYPE string`, one round trip.
    ///
    /// # Errors
    /// As for any command.
    pub async fn scan(
        &self,
        prefix: &Prefix,
        from: Option<Cursor>,
        count: u32,
        within: Duration,
    ) -> Result<(Vec<Key>, Option<Cursor>), Error> {
        let (names, next) = self.scan_strings(prefix.as_bytes(), from, count, within).await?;
        // Side keys of longer prefixes are among them.
        let is_side = |name: &[u8]| MARKS.iter().any(|mark| contains(name, mark));
        let is_main = |name: &Vec<u8>| name.len() >= prefix.as_bytes().len() && !is_side(name);
        let keys = names.iter().filter(|name| is_main(name)).filter_map(|name| {
            // Side keys, and names that no lock of ours can have, are not listed.
            Key::new(prefix, &name[prefix.as_bytes().len()..]).ok()
        });
        Ok((keys.collect(), next))
    }

    /// One page of the keys with this prefix whose names go on with `beginning`; else as [`scan`](Self::scan).
    ///
    /// # Redis
    /// Likewise.
    ///
    /// # Errors
    /// As for any command.
    pub async fn scan_once(
        &self,
        prefix: &Prefix,
        beginning: &[u8],
        from: Option<Cursor>,
        count: u32,
        within: Duration,
    ) -> Result<(Vec<Key>, Option<Cursor>), Error> {
        let whole = [prefix.as_bytes(), beginning].concat();
        let (names, next) = self.scan_strings(&whole, from, count, within).await?;
        let keys =
            names.iter().filter_map(|name| Key::new(prefix, name.strip_prefix(prefix.as_bytes())?).ok());
        Ok((keys.collect(), next))
    }

    /// What is kept under a key of idempotency. `None`: nothing, or nothing of ours.
    ///
    /// # Redis
    /// One `GET`, one round trip.
    ///
    /// # Errors
    /// It holds another type; as for any command.
    pub async fn once_record(&self, key: &Key, within: Duration) -> Result<Option<Record>, Error> {
        let mut command = cmd("GET");
        command.arg(key.as_bytes());
        let text: Option<Vec<u8>> = self.ask(Some(key.as_bytes()), "result", &command, within).await?;
        Ok(text.and_then(|text| Record::from_bytes(&text)))
    }

    async fn scan_strings(
        &self,
        prefix: &[u8],
        from: Option<Cursor>,
        count: u32,
        within: Duration,
    ) -> Result<(Vec<Vec<u8>>, Option<Cursor>), Error> {
        let from = from.unwrap_or(Cursor { server: 0, at: 0 });
        let Some((server, node)) = self.listed_from(from.server, within).await? else {
            return Ok((Vec::new(), None));
        };
        // The server that it was at keeps no slots any more: the next one begins.
        let at = if server == from.server { from.at } else { 0 };
        let mut command = cmd("SCAN");
        command.arg(at).arg("MATCH").arg(pattern(prefix));
        command.arg("COUNT").arg(count).arg("TYPE").arg("string");
        let (next, names): (u64, Vec<Vec<u8>>) = node.ask(self.lane(), "list", &command, within).await?;
        let next = match next {
            0 => {
                let other = self.listed_from(server.saturating_add(1), within).await?;
                other.map(|(server, _)| Cursor { server, at: 0 })
            }
            at => Some(Cursor { server, at }),
        };
        Ok((names, next))
    }
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|window| window == part)
}

/// A glob that matches the prefix literally.
pub(crate) fn pattern(prefix: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(prefix.len() + 1);
    for &byte in prefix {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'^' | b'\\') {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    pattern
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_prefix_is_matched_literally() {
        assert_eq!(super::pattern(b"a*[b"), b"a\\*\\[b*");
    }
}
