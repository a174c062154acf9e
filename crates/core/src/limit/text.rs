//! Limits as text: `100/20s token-bucket burst=150`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::quota::{Algorithm, Limit, OPERATION, Quota, WindowStart};
use crate::error::Error;
use crate::key::Escaped;

const FORM: &str =
    "write COUNT/WINDOW [ALGORITHM] [burst=N], such as `100/20s token-bucket`, or `unlimited`, or `none`";
/// Longer text is no limit.
const MAX_TEXT: usize = 200;

/// A unit of time. A month has 30 days, a year 365 (`y` is not a calendar year).
pub(super) struct Unit;

/// Name and microseconds. The first that divides a duration is the one that shows it.
const UNITS: [(&str, u64); 8] = [
    ("y", 365 * 86_400_000_000),
    ("w", 7 * 86_400_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Further names that are understood.
const ALIASES: [(&str, &str); 16] = [
    ("year", "y"),
    ("years", "y"),
    ("week", "w"),
    ("weeks", "w"),
    ("day", "d"),
    ("days", "d"),
    ("hour", "h"),
    ("hours", "h"),
    ("m", "min"),
    ("minute", "min"),
    ("minutes", "min"),
    ("sec", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("µs", "us"),
    ("μs", "us"),
];

impl Unit {
    fn micros(name: &str) -> Option<u64> {
        let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
        match name {
            "mo" | "month" | "months" => Some(30 * 86_400_000_000),
            name => UNITS.iter().find(|(unit, _)| *unit == name).map(|(_, micros)| *micros),
        }
    }

    /// A duration as a limit's text has it: `20s`, `90min`.
    pub(super) fn show(duration: Duration) -> String {
        let micros = crate::time::micros_of(duration);
        let fitting = UNITS.iter().find(|(_, unit)| micros >= *unit && micros.is_multiple_of(*unit));
        fitting.map_or_else(|| format!("{micros}us"), |(name, unit)| format!("{}{name}", micros / unit))
    }
}

/// `20s`, `s`, `1.5`-like fractions are refused.
fn window(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = match number {
        "" => 1,
        number => number.parse().map_err(|_| format!("the window `{text}` is too large"))?,
    };
    let unit = Unit::micros(unit.trim()).ok_or_else(|| {
        format!("`{text}` is no window: a whole number and one of us, ms, s, min, h, d, w, mo (30 days), y (365 days)")
    })?;
    number
        .checked_mul(unit)
        .map(Duration::from_micros)
        .ok_or_else(|| format!("the window `{text}` is too large"))
}

fn count(what: &str, text: &str) -> Result<u64, String> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    match plain.parse::<i128>() {
        Ok(number) if number < 0 => Err(format!("the {what} is {number}; it cannot be negative")),
        Ok(number) => u64::try_from(number).map_err(|_| format!("the {what} {text} is too large")),
        Err(_) => Err(format!("the {what} `{text}` is no whole number")),
    }
}

/// As written in configuration files and on command lines. Names of algorithms: `token-bucket` (the default),
/// `fixed-window`, `fixed-window-from-first`, `sliding-log`, `sliding-counter`.
impl FromStr for Limit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |why: String| {
            let detail = format!("`{}`: {why}; {FORM}", Escaped(text.as_bytes()));
            Error::bad_argument(OPERATION, detail)
        };
        if text.len() > MAX_TEXT {
            return Err(refuse(format!("{} bytes are no limit", text.len())));
        }
        match text.trim() {
            "unlimited" => Ok(Self::Unlimited),
            "none" => Ok(Self::Nothing),
            text => parse(text).map_err(refuse)?,
        }
    }
}

fn parse(text: &str) -> Result<Result<Limit, Error>, String> {
    let mut words = text.split_whitespace();
    let rate = words.next().ok_or("it is empty")?;
    let (number, length) = rate.split_once('/').ok_or_else(|| format!("`{rate}` has no `/`"))?;
    let (number, length) = (count("count", number)?, window(length)?);
    let (mut algorithm, mut burst) = (None, None);
    for word in words {
        match word.strip_prefix("burst=") {
            Some(value) if burst.is_none() => burst = Some(count("burst", value)?),
            None if algorithm.is_none() => algorithm = Some(word),
            _ => return Err(format!("`{word}` is one word too many")),
        }
    }
    let algorithm = algorithm.unwrap_or("token-bucket");
    if burst.is_some() && algorithm != "token-bucket" {
        return Err(format!("`{algorithm}` has no burst"));
    }
    Ok(match algorithm {
        "token-bucket" => Limit::token_bucket(burst.unwrap_or(number)).refill(number, length),
        "fixed-window" => Limit::fixed_window(number, length),
        "fixed-window-from-first" => Limit::fixed_window_from_first(number, length),
        "sliding-log" => Limit::sliding_log(number, length),
        "sliding-counter" => Limit::sliding_counter(number, length),
        other => {
            return Err(format!(
                "`{other}` is no algorithm: token-bucket, fixed-window, fixed-window-from-first, sliding-log, sliding-counter"
            ));
        }
    })
}

/// As [`FromStr`] reads it.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::Nothing => f.write_str("none"),
            Self::Quota(quota) => quota.fmt(f),
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |us: u64| Unit::show(Duration::from_micros(us));
        match self.algorithm() {
            Algorithm::FixedWindow { count, window_us, from: WindowStart::Aligned } => {
                write!(f, "{count}/{} fixed-window", show(window_us))
            }
            Algorithm::FixedWindow { count, window_us, from: WindowStart::FirstCall } => {
                write!(f, "{count}/{} fixed-window-from-first", show(window_us))
            }
            Algorithm::SlidingLog { count, window_us } => {
                write!(f, "{count}/{} sliding-log", show(window_us))
            }
            Algorithm::SlidingCounter { count, window_us } => {
                write!(f, "{count}/{} sliding-counter", show(window_us))
            }
            Algorithm::TokenBucket { capacity, refill, period_us } => {
                write!(f, "{refill}/{} token-bucket", show(period_us))?;
                if capacity == refill { Ok(()) } else { write!(f, " burst={capacity}") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_reads_as_it_is_shown() {
        for text in [
            "100/20s token-bucket",
            "20/s token-bucket burst=100",
            "5/1min sliding-log",
            "1000/1h sliding-counter",
            "7/90us fixed-window",
            "7/3ms fixed-window-from-first",
            "unlimited",
            "none",
        ] {
            let limit: Limit = text.parse().unwrap();
            assert_eq!(limit.to_string().parse::<Limit>().unwrap(), limit, "{text}");
        }
        assert_eq!("100/20s".parse::<Limit>().unwrap().to_string(), "100/20s token-bucket");
        assert_eq!("5/minute sliding-log".parse::<Limit>().unwrap().to_string(), "5/1min sliding-log");
    }

    #[test]
    fn r107_units_have_fixed_lengths() {
        let window = |text: &str| text.parse::<Limit>().unwrap().quota().unwrap().window().as_secs();
        assert_eq!(window("1/mo fixed-window"), 30 * 86_400);
        assert_eq!(window("1/y fixed-window"), 365 * 86_400);
    }

    #[test]
    fn bad_text_names_what_is_wrong_with_it() {
        for (text, why) in [
            ("", "empty"),
            ("5", "no `/`"),
            ("-1/s", "the count is -1; it cannot be negative"),
            ("0/s", "the capacity is 0"),
            ("1.5/s", "no whole number"),
            ("1/0s", "the window is 0"),
            ("1/5", "is no window"),
            ("1/99999999999y", "too large"),
            ("1/101y fixed-window", "at most 100 years"),
            ("99999999999999999999/s", "too large"),
            ("5/s leaky", "`leaky` is no algorithm"),
            ("5/s fixed-window burst=3", "has no burst"),
            ("5/s a b", "one word too many"),
            ("1000000/s sliding-log", "at most 10000"),
            ("5/s burst=0", "the capacity is 0"),
        ] {
            let error = text.parse::<Limit>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(" ".repeat(300).parse::<Limit>().is_err());
    }
}
