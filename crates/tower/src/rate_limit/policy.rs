//! A limit as clients see it: a name, a quota, a window.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{Error, Limit, LimitState, Limiter};

use crate::problem::whole_seconds;

/// The longest name of a policy, in characters.
pub const MAX_POLICY_NAME: usize = 64;

/// One limit of a rule.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) name: Arc<str>,
    /// The name as a structured field's string, in quotes.
    pub(super) quoted: String,
    pub(super) limit: Limit,
    limiter: Arc<str>,
}

impl Policy {
    /// Those of `limiters`, named after them (`search`; with several limits `search-1`, `search-2`) or by `names`.
    ///
    /// # Errors
    /// Not as many names as limits; a name is empty, too long, or not printable ASCII.
    pub(super) fn all(limiters: &[Limiter], names: Option<&[String]>) -> Result<Vec<Self>, Error> {
        let of_limiters = limiters.iter().flat_map(|limiter| {
            let several = limiter.limits().count() > 1;
            limiter.limits().enumerate().map(move |(at, limit)| {
                let name =
                    if several { format!("{}-{}", limiter.name(), at + 1) } else { limiter.name().into() };
                (name, limiter.name(), limit)
            })
        });
        let mut policies: Vec<_> = of_limiters.collect();
        if let Some(names) = names {
            if names.len() != policies.len() {
                return Err(refuse(format!("{} names for {} limits", names.len(), policies.len())));
            }
            policies.iter_mut().zip(names).for_each(|(policy, name)| policy.0.clone_from(name));
        }
        policies.into_iter().map(|(name, limiter, limit)| Self::new(&name, limiter, limit)).collect()
    }

    fn new(name: &str, limiter: &str, limit: Limit) -> Result<Self, Error> {
        let is_plain = name.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if name.is_empty() || name.len() > MAX_POLICY_NAME || !is_plain {
            let shown: String = name.chars().take(MAX_POLICY_NAME).collect();
            let shown = shown.escape_debug();
            let detail = format!(
                "the policy name `{shown}` must be 1 to {MAX_POLICY_NAME} characters of printable ASCII"
            );
            return Err(refuse(detail));
        }
        Ok(Self { name: name.into(), quoted: quoted(name), limit, limiter: limiter.into() })
    }

    /// Which of `policies` the `at`-th state of a verdict with `count` states is about.
    pub(super) fn of<'a>(
        policies: &'a [Self],
        count: usize,
        at: usize,
        state: &LimitState<'_>,
    ) -> Option<&'a Self> {
        if count == policies.len() {
            return policies.get(at);
        }
        // Asked in sequence, a verdict has the states of one limiter only.
        policies.iter().find(|policy| *policy.limiter == *state.limiter && policy.limit == state.limit)
    }

    /// The most that can be taken at once.
    pub(super) fn capacity(&self) -> u64 {
        self.limit.quota().map_or(0, |quota| quota.capacity())
    }

    /// Appends `"search";q=20;w=60`.
    pub(super) fn write(&self, field: &mut String) {
        let window = self.limit.quota().map_or(Duration::ZERO, |quota| quota.window());
        separate(field);
        let _ = write!(field, "{};q={};w={}", self.quoted, self.capacity(), whole_seconds(window).max(1));
    }

    /// Appends `"search";r=19;t=3`.
    pub(super) fn write_state(&self, field: &mut String, remaining: u64, until: u64) {
        separate(field);
        let _ = write!(field, "{};r={remaining};t={until}", self.quoted);
    }
}

fn separate(field: &mut String) {
    if !field.is_empty() {
        field.push_str(", ");
    }
}

/// As RFC 9651 writes a string of printable ASCII.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', r"\\").replace('"', r#"\""#))
}

pub(super) fn refuse(detail: impl Into<String>) -> Error {
    Error::bad_argument("rate limit layer", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_need_it_are_escaped_and_others_refused() {
        assert_eq!(quoted(r#"a "b" \c"#), r#""a \"b\" \\c""#);
        let limit = "5/s".parse().unwrap();
        for bad in ["", "naïve", "a\nb", &"x".repeat(65)] {
            let error = Policy::new(bad, "l", limit).unwrap_err().to_string();
            assert!(error.contains("1 to 64 characters of printable ASCII"), "{error}");
        }
    }
}
