//! A verdict for people and for programs.

use std::process::ExitCode;
use std::time::Duration;

use lockkeeper::{LimitState, Limiter, Subject, Verdict};
use serde::Serialize;

use crate::common::{self, rounded};
use crate::exit::{DENIED, NEVER};
use crate::table::table;

/// What was asked.
pub(super) struct Question<'a> {
    pub(super) limiter: &'a Limiter,
    pub(super) subject: &'a Subject,
    pub(super) asked: u64,
    /// Something was to be taken; else it is a look.
    pub(super) takes: bool,
}

/// What JSON shows. Times are rounded up: nobody is to come back too early.
#[derive(Serialize)]
pub(super) struct Report {
    limiter: String,
    subject: String,
    outcome: &'static str,
    cost: u64,
    granted: u64,
    remaining: Option<u64>,
    retry_after_ms: Option<u64>,
    refused_by: Option<String>,
    source: String,
    limits: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    limit: String,
    key: String,
    capacity: u64,
    remaining: u64,
    retry_after_ms: Option<u64>,
    reset_ms: u64,
}

pub(super) fn code(verdict: &Verdict) -> ExitCode {
    ExitCode::from(match verdict {
        Verdict::Denied { .. } => DENIED,
        Verdict::Never { .. } => NEVER,
        _ => 0,
    })
}

impl Question<'_> {
    pub(super) fn print(&self, verdict: &Verdict, json: bool) -> anyhow::Result<ExitCode> {
        if json {
            common::print_json(&self.report(verdict)?)?;
        } else {
            common::print(&self.text(verdict))?;
        }
        Ok(code(verdict))
    }

    pub(super) fn report(&self, verdict: &Verdict) -> anyhow::Result<Report> {
        let keys = self.limiter.keys(self.subject)?;
        let rows = verdict.detail().states().zip(keys).map(|(state, key)| Row {
            limit: state.limit.to_string(),
            key: common::text_of(key.as_bytes()),
            capacity: capacity(&state),
            remaining: state.remaining,
            retry_after_ms: state.retry_after.map(millis_up),
            reset_ms: millis_up(state.reset),
        });
        let limits: Vec<Row> = rows.collect();
        Ok(Report {
            limiter: self.limiter.name().to_owned(),
            subject: self.subject.to_string(),
            outcome: match verdict {
                Verdict::Denied { .. } => "denied",
                Verdict::Never { .. } => "never",
                _ => "allowed",
            },
            cost: self.asked,
            granted: if self.takes { verdict.granted() } else { 0 },
            remaining: (!limits.is_empty()).then(|| verdict.remaining()),
            retry_after_ms: verdict.retry_after().map(millis_up),
            refused_by: refused_by(verdict),
            source: format!("{:?}", verdict.detail().source()).to_lowercase(),
            limits,
        })
    }

    fn text(&self, verdict: &Verdict) -> String {
        let states: Vec<LimitState<'_>> = verdict.detail().states().collect();
        let head = self.head(verdict);
        match &states[..] {
            [] => head,
            [state] => {
                let facts = facts(state).into_iter();
                head + &facts.map(|(name, value)| format!("\n  {name:<9}  {value}")).collect::<String>()
            }
            states => {
                let rows = states.iter().map(|state| {
                    let times = [state.retry_after.unwrap_or_default(), state.reset].map(in_time);
                    let [retry, full] = times;
                    [state.limit.to_string(), left(state), retry, full]
                });
                format!("{head}\n{}", table(["LIMIT", "REMAINING", "RETRY IN", "FULL IN"], rows))
            }
        }
    }

    /// Who, and the answer.
    fn head(&self, verdict: &Verdict) -> String {
        let who = format!("{} {}", self.limiter.name(), self.subject);
        let is = if self.takes { "is" } else { "would be" };
        match verdict {
            Verdict::Denied { retry_after, .. } => {
                let by = match verdict.detail().states().count() {
                    1 => String::new(),
                    _ => refused_by(verdict).map(|limit| format!(" by {limit}")).unwrap_or_default(),
                };
                format!("{who} {is} denied{by}: come back in {}", rounded_up(*retry_after))
            }
            Verdict::Never { .. } => match refused_by(verdict) {
                Some(limit) => {
                    format!("{who} can never be allowed: {} is more than {limit} can hold", self.asked)
                }
                None => format!("{who} can never be allowed: the limit `none` lets nothing pass"),
            },
            Verdict::Allowed { granted, .. } if self.takes && *granted < self.asked => {
                format!("{who} is allowed: {granted} of {} taken", self.asked)
            }
            Verdict::Allowed { granted, .. } if self.takes && *granted > 1 => {
                format!("{who} is allowed: {granted} taken")
            }
            _ => format!("{who} {is} allowed"),
        }
    }
}

fn facts(state: &LimitState<'_>) -> Vec<(&'static str, String)> {
    let mut facts = vec![("limit", state.limit.to_string()), ("remaining", left(state))];
    facts.extend(
        state.retry_after.filter(|retry| !retry.is_zero()).map(|retry| ("retry in", rounded_up(retry))),
    );
    facts.extend((!state.reset.is_zero()).then(|| ("full in", rounded_up(state.reset))));
    facts
}

fn refused_by(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Denied { by, detail, .. } | Verdict::Never { by, detail } => {
            detail.state(*by).map(|state| state.limit.to_string())
        }
        _ => None,
    }
}

fn capacity(state: &LimitState<'_>) -> u64 {
    state.limit.quota().map_or(u64::MAX, |quota| quota.capacity())
}

/// `3 of 10`
pub(super) fn left(state: &LimitState<'_>) -> String {
    format!("{} of {}", state.remaining, capacity(state))
}

/// Something of it is used.
pub(super) fn is_used(state: &LimitState<'_>) -> bool {
    state.remaining < capacity(state) || !state.reset.is_zero()
}

/// A time in a table.
pub(super) fn in_time(time: Duration) -> String {
    if time.is_zero() { "-".to_owned() } else { rounded_up(time) }
}

pub(super) fn millis_up(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// For people, and never too short: whole milliseconds below ten seconds, whole seconds above.
pub(super) fn rounded_up(time: Duration) -> String {
    let ms = millis_up(time);
    rounded(Duration::from_millis(if ms < 10_000 { ms } else { ms.div_ceil(1000) * 1000 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r79_r80_times_are_never_shown_too_short() {
        assert_eq!(rounded_up(Duration::from_micros(1)), "1ms");
        assert_eq!(rounded_up(Duration::from_micros(1_500_001)), "1s 501ms");
        assert_eq!(rounded_up(Duration::from_millis(59_001)), "1m");
        assert_eq!(millis_up(Duration::from_micros(2_001)), 3);
    }
}
