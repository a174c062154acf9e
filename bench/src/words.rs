//! What a check sends, as the server saw it: so a bare arm sends the very same words, whatever the algorithm.

use anyhow::{Context as _, Result, ensure};
use lockkeeper_faults::{RedisServer, Reply};

use crate::server::ask;

/// "Not after": never.
const NEVER: &str = "9007199254740992";
/// `EVALSHA HASH 1 KEY ARGUMENT …`
const KEY: usize = 3;
const FIRST_ARGUMENT: usize = 4;

/// The words of one `EVALSHA`, with a "not after" that never comes.
#[derive(Clone, Debug)]
pub(crate) struct Words(Vec<String>);

impl Words {
    /// Of the one call that `check` makes.
    pub(crate) fn of(server: &RedisServer, check: impl FnOnce() -> Result<()>) -> Result<Self> {
        let mut calls = Self::all_of(server, check)?;
        let words = calls.pop().context("the check made no call")?;
        ensure!(calls.is_empty(), "the check made {} calls", calls.len() + 1);
        Ok(words)
    }

    /// Of the calls that `check` makes, in their order.
    pub(crate) fn all_of(server: &RedisServer, check: impl FnOnce() -> Result<()>) -> Result<Vec<Self>> {
        log_slower_than(server, "0")?;
        ask(server, &["SLOWLOG", "RESET"])?;
        check()?;
        let log = ask(server, &["SLOWLOG", "GET", "64"])?;
        log_slower_than(server, "-1")?;
        // The newest is the first.
        let calls = log.as_array().unwrap_or_default().iter().rev().filter_map(call);
        calls.map(|words| Self(words).on_time()).collect()
    }

    fn on_time(mut self) -> Result<Self> {
        ensure!(self.0.len() > FIRST_ARGUMENT && self.0[2] == "1", "not a call about one key: {:?}", self.0);
        if let Some(not_after) = self.0[FIRST_ARGUMENT..].iter_mut().find(|word| is_now(word)) {
            NEVER.clone_into(not_after);
        }
        Ok(self)
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Hash and number of keys; the key; the arguments.
    pub(crate) fn parts(&self) -> (&[String], &str, &[String]) {
        (&self.0[1..KEY], &self.0[KEY], &self.0[FIRST_ARGUMENT..])
    }
}

/// A moment of these years in microseconds: of all arguments, the "not after" alone is one.
fn is_now(word: &str) -> bool {
    word.parse().is_ok_and(|at: u64| (1_700_000_000_000_000..4_000_000_000_000_000).contains(&at))
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
