//! When to come back, as an answer tells it: `Retry-After`, or else the `t` of the `RateLimit` field.
//!
//! Of several values the latest counts, because "never earlier than told" is the rule. What cannot be read is no hint.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, HeaderName, HeaderValue, RETRY_AFTER};
use httpdate::parse_http_date;
use sfv::{BareItem, Item, List, ListEntry, Parser};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    RetryAfter,
    RateLimit,
}

/// How long the server wants us to stay away, from the arrival of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// As told: not bounded, not jittered.
    pub(crate) wait: Duration,
    pub(crate) source: Source,
}

/// The hint of an answer that arrived at `now`.
pub(crate) fn hint(headers: &HeaderMap, now: SystemTime) -> Option<Hint> {
    let retry_after = retry_after(headers, now).map(|wait| Hint { wait, source: Source::RetryAfter });
    retry_after.or_else(|| Some(Hint { wait: rate_limit(headers)?, source: Source::RateLimit }))
}

fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    // A date is one of the server's clock, so it is compared with that clock where the answer says what it showed.
    let now = headers.get(DATE).and_then(text).and_then(|date| parse_http_date(date).ok()).unwrap_or(now);
    headers.get_all(RETRY_AFTER).iter().filter_map(text).filter_map(|value| told(value, now)).max()
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim)
}

fn told(value: &str, now: SystemTime) -> Option<Duration> {
    seconds(value).or_else(|| until(value, now)).or_else(|| latest_of_list(value))
}

/// `120`. Some servers send `1.5`, which is rounded up.
fn seconds(value: &str) -> Option<Duration> {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    // Digits that do not fit are a time too far away to be waited for, not garbage.
    let whole: u64 = whole.parse().unwrap_or(u64::MAX);
    let begun = u64::from(fraction.bytes().any(|digit| digit != b'0'));
    Some(Duration::from_secs(whole.saturating_add(begun)))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, and the two older forms. A date that has passed is zero.
fn until(value: &str, now: SystemTime) -> Option<Duration> {
    let date = parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// `5, 10`: what a proxy makes of two header lines.
fn latest_of_list(value: &str) -> Option<Duration> {
    let parts: Option<Vec<Duration>> = value.split(',').map(|part| seconds(part.trim())).collect();
    parts?.into_iter().max()
}

/// `"name";r=0;t=30`: the time until the quota that has least left is there again.
fn rate_limit(headers: &HeaderMap) -> Option<Duration> {
    let lines: Option<Vec<&str>> = headers.get_all(RATE_LIMIT).iter().map(text).collect();
    let list: List = Parser::new(&lines?.join(", ")).parse().ok()?;
    let quotas: Vec<(i64, u64)> = list.iter().filter_map(quota).collect();
    let (least, _) = *quotas.iter().min()?;
    let short = quotas.iter().filter(|(remaining, _)| *remaining == least);
    short.map(|(_, seconds)| Duration::from_secs(*seconds)).max()
}

/// What remains of a quota, nothing at least, and the seconds until it is reset.
fn quota(entry: &ListEntry) -> Option<(i64, u64)> {
    let ListEntry::Item(item) = entry else { return None };
    let remaining = integer(item, "r")?.max(0);
    Some((remaining, u64::try_from(integer(item, "t")?).ok()?))
}

fn integer(item: &Item, name: &str) -> Option<i64> {
    match item.params.get(name)? {
        BareItem::Integer(number) => Some(i64::from(*number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: &str = "Sun, 06 Nov 1994 12:00:00 GMT";

    fn read(lines: &[(&'static str, &str)]) -> Option<Hint> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        hint(&headers, parse_http_date(NOON).unwrap())
    }

    fn secs(lines: &[(&'static str, &str)]) -> Option<u64> {
        read(lines).map(|hint| hint.wait.as_secs())
    }

    #[test]
    fn seconds_and_dates_are_read() {
        for (value, wait) in [
            ("0", 0),
            ("120", 120),
            (" 7 ", 7),
            ("1.5", 2),
            ("2.0", 2),
            ("Sun, 06 Nov 1994 12:00:30 GMT", 30),
            ("Sunday, 06-Nov-94 12:00:30 GMT", 30),
            ("Sun Nov  6 12:00:30 1994", 30),
            ("Sun, 06 Nov 1994 11:00:00 GMT", 0),
        ] {
            assert_eq!(secs(&[("retry-after", value)]), Some(wait), "{value}");
        }
    }

    #[test]
    fn a_date_is_measured_by_the_servers_own_clock() {
        let slow_server = ("date", "Sun, 06 Nov 1994 10:00:00 GMT");
        assert_eq!(secs(&[slow_server, ("retry-after", "Sun, 06 Nov 1994 10:00:30 GMT")]), Some(30));
        assert_eq!(secs(&[("date", "soon"), ("retry-after", "Sun, 06 Nov 1994 12:00:30 GMT")]), Some(30));
    }

    #[test]
    fn garbage_is_no_hint() {
        for value in
            ["", "-5", "+5", "soon", "5s", "5 10", "5, soon", "1e9", "0x10", ".", "5.", "\u{fc}", ","]
        {
            assert_eq!(read(&[("retry-after", value)]), None, "{value}");
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_far_away_and_not_garbage() {
        assert_eq!(secs(&[("retry-after", "99999999999999999999999999")]), Some(u64::MAX));
        assert_eq!(secs(&[("retry-after", "18446744073709551615.9")]), Some(u64::MAX));
    }

    #[test]
    fn of_several_the_latest_counts_and_garbage_among_them_does_not() {
        assert_eq!(secs(&[("retry-after", "5"), ("retry-after", "10"), ("retry-after", "x")]), Some(10));
        assert_eq!(secs(&[("retry-after", "5, 10 ,7")]), Some(10));
    }

    #[test]
    fn the_rate_limit_field_speaks_where_retry_after_does_not() {
        let field = ("ratelimit", r#""burst";r=0;t=30"#);
        assert_eq!(read(&[field]), Some(Hint { wait: Duration::from_secs(30), source: Source::RateLimit }));
        let both = read(&[field, ("retry-after", "5")]);
        assert_eq!(both, Some(Hint { wait: Duration::from_secs(5), source: Source::RetryAfter }));
        assert_eq!(secs(&[field, ("retry-after", "soon")]), Some(30));
    }

    #[test]
    fn of_several_quotas_the_exhausted_ones_count_and_of_these_the_latest() {
        let both = r#""second";r=0;t=1, "hour";r=900;t=3000"#;
        assert_eq!(secs(&[("ratelimit", both)]), Some(1));
        let lines = [("ratelimit", r#""second";r=0;t=1"#), ("ratelimit", r#""hour";r=0;t=3000"#)];
        assert_eq!(secs(&lines), Some(3000));
        // A refused cost of 5 leaves 3: the quota with least left is the one that said no.
        assert_eq!(secs(&[("ratelimit", r#""a";r=3;t=9, "b";r=70;t=99"#)]), Some(9));
    }

    #[test]
    fn a_rate_limit_field_that_cannot_be_read_is_no_hint() {
        for value in [
            "",
            "limit=10, remaining=0, reset=5",
            r#""a";r=0"#,
            r#""a";t=5"#,
            r#""a";r=0;t=-5"#,
            r#""a";r=0;t=1.5"#,
            r#""a";r=0;t=9999999999999999"#,
            r#"("a");r=0;t=5"#,
            r#""a;r=0;t=5"#,
        ] {
            assert_eq!(read(&[("ratelimit", value)]), None, "{value}");
        }
    }
}
