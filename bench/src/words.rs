//! What a check sends, as the server saw it: so a bare arm sends the very same words, whatever the algorithm.

use anyhow::{Context as _, Result, ensure};
use lockkeeper_faults::{RedisServer, Reply};

use crate::server::ask;

/// "Not after": never.
const NEVER: &str = "9007199254740992";
/// `EVALSHA HASH 1 KEY NOT-AFTER …`
const KEY: usize = 3;
const NOT_AFTER: usize = 4;

/// The words of one `EVALSHA`, without a "not after".
#[derive(Clone, Debug)]
pub(crate) struct Words(Vec<String>);

impl Words {
    /// Of the one call that `check` makes.
    pub(crate) fn of(server: &RedisServer, check: impl FnOnce() -> Result<()>) -> Result<Self> {
        log_slower_than(server, "0")?;
        ask(server, &["SLOWLOG", "RESET"])?;
        check()?;
        let log = ask(server, &["SLOWLOG", "GET", "64"])?;
        log_slower_than(server, "-1")?;
        let mut calls: Vec<Vec<String>> =
            log.as_array().unwrap_or_default().iter().filter_map(call).collect();
        let words = calls.pop().context("the check made no call")?;
        ensure!(calls.is_empty(), "the check made {} calls", calls.len() + 1);
        ensure!(words.len() > NOT_AFTER && words[2] == "1", "not the call of a check: {words:?}");
        Ok(Self(words).on_time())
    }

    fn on_time(mut self) -> Self {
        NEVER.clone_into(&mut self.0[NOT_AFTER]);
        self
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Hash and number of keys; the key; the arguments.
    pub(crate) fn parts(&self) -> (&[String], &str, &[String]) {
        (&self.0[1..KEY], &self.0[KEY], &self.0[NOT_AFTER..])
    }
}

fn log_slower_than(server: &RedisServer, micros: &str) -> Result<()> {
    ask(server, &["CONFIG", "SET", "slowlog-log-slower-than", micros]).map(drop)
}

/// The words of an entry of the log, if it is a script's call.
fn call(entry: &Reply) -> Option<Vec<String>> {
    let words = entry.as_array()?.get(3)?.as_array()?;
    let words: Vec<String> =
        words.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    (words.first()? == "EVALSHA").then_some(words)
}
