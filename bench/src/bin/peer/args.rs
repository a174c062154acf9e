//! `key=value` arguments. What nobody asks for is ignored: a harness may say more than one program needs.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result};

pub(crate) struct Args(HashMap<String, String>);

impl Args {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        let pair = |word: String| {
            let (key, value) = word.split_once('=').with_context(|| format!("`{word}` is not key=value"))?;
            Ok((key.to_owned(), value.to_owned()))
        };
        words.map(pair).collect::<Result<_>>().map(Self)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub(crate) fn needed(&self, key: &str) -> Result<&str> {
        self.text(key).with_context(|| format!("{key}= is missing"))
    }

    pub(crate) fn number<T: FromStr>(&self, key: &str, otherwise: T) -> Result<T> {
        self.text(key).map_or(Ok(otherwise), |text| parsed(key, text))
    }

    /// A time in whole or broken seconds.
    pub(crate) fn seconds(&self, key: &str, otherwise: f64) -> Result<Duration> {
        let seconds = self.number(key, otherwise)?;
        Duration::try_from_secs_f64(seconds).with_context(|| format!("{key}={seconds} is no time"))
    }

    /// A time in whole or broken milliseconds.
    pub(crate) fn milliseconds(&self, key: &str) -> Result<Duration> {
        let milliseconds: f64 = self.number(key, 0.0)?;
        Duration::try_from_secs_f64(milliseconds / 1e3)
            .with_context(|| format!("{key}={milliseconds} is no time"))
    }

    pub(crate) fn needed_number<T: FromStr>(&self, key: &str) -> Result<T> {
        parsed(key, self.needed(key)?)
    }
}

fn parsed<T: FromStr>(key: &str, text: &str) -> Result<T> {
    text.parse().ok().with_context(|| format!("{key}={text} is no number that fits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_found_and_nonsense_is_refused() {
        let words = ["secs=1.5", "hold_ms=1", "out=a=b", "tasks=x"].map(str::to_owned);
        let args = Args::parse(words.into_iter()).unwrap();
        assert_eq!(args.seconds("secs", 9.0).unwrap(), Duration::from_millis(1500));
        assert_eq!(args.seconds("warm", 0.3).unwrap(), Duration::from_millis(300));
        assert_eq!(args.milliseconds("hold_ms").unwrap(), Duration::from_millis(1));
        assert_eq!(args.needed("out").unwrap(), "a=b");
        assert!(args.number("tasks", 1).is_err() && args.needed("key").is_err());
        assert!(Args::parse(std::iter::once("word".to_owned())).is_err());
    }
}
