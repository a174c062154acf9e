//! Answers of limiters.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::limit::{Checked, Limit, Outcome, Standings};

use super::plan::Plan;

/// What a limiter says. A refusal is a value that says when to come back; *never* is apart from *not now*.
#[derive(Clone, Debug)]
#[must_use = "a verdict that is not looked at limits nothing"]
#[non_exhaustive]
pub enum Verdict {
    /// Go on.
    Allowed {
        /// How much was charged: the cost, or what there was of it.
        granted: u64,
        /// What a call right after this one could take at once, in the tightest of the limits.
        remaining: u64,
        /// How each limit stands.
        detail: Detail,
    },
    /// Not now; nothing was charged.
    Denied {
        /// The same call would be granted after this time if nobody else came. Never zero.
        retry_after: Duration,
        /// The limit that refuses for longest, as an index into [`Detail::states`].
        by: usize,
        /// How each limit stands.
        detail: Detail,
    },
    /// Never: it costs more than this limit can ever hold. Nothing was charged.
    Never {
        /// The limit, as an index into [`Detail::states`].
        by: usize,
        /// How each limit stands.
        detail: Detail,
    },
}

/// How the limits stand, and who says so.
#[derive(Clone)]
pub struct Detail {
    plan: Arc<Plan>,
    standings: Standings,
    source: Source,
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The store.
    Store,
    /// This process remembered a refusal of the store, at most a second old.
    Remembered,
    /// This process, out of tokens that it had leased from the store.
    Leased,
    /// This process, within its share, because the store is away. *Degraded.*
    Share,
    /// Nobody: the store is away, and the limiter allows then. *Degraded.*
    Unchecked,
    /// Nobody has to be asked: unlimited, or nothing at all.
    Constant,
}

/// One limit's state in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitState<'a> {
    /// The limiter's name.
    pub limiter: &'a str,
    /// The limit.
    pub limit: Limit,
    /// What could be taken at once.
    pub remaining: u64,
    /// When this limit would grant the call that was refused; zero where it would now. `None`: never.
    pub retry_after: Option<Duration>,
    /// When everything is there again, if nobody came.
    pub reset: Duration,
}

impl Source {
    /// The store did not decide, because it is away.
    pub fn is_degraded(self) -> bool {
        matches!(self, Self::Share | Self::Unchecked)
    }
}

impl Verdict {
    /// The store's decision in a caller's words.
    pub(super) fn new(plan: &Arc<Plan>, checked: Checked, source: Source) -> Self {
        let detail = Detail { plan: plan.clone(), standings: checked.standings, source };
        match checked.outcome {
            Outcome::Allowed { granted } => Self::Allowed { granted, remaining: detail.remaining(), detail },
            Outcome::Denied { by } => {
                let retry_after = detail.standings.get(by).and_then(|standing| standing.retry_after);
                let retry_after = retry_after.unwrap_or_default().max(Duration::from_micros(1));
                Self::Denied { retry_after, by, detail }
            }
            Outcome::Never { by } => Self::Never { by, detail },
        }
    }

    /// Go on.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }

    /// How the limits stand.
    pub fn detail(&self) -> &Detail {
        match self {
            Self::Allowed { detail, .. } | Self::Denied { detail, .. } | Self::Never { detail, .. } => detail,
        }
    }

    /// How much was charged.
    pub fn granted(&self) -> u64 {
        match self {
            Self::Allowed { granted, .. } => *granted,
            _ => 0,
        }
    }

    /// What a call right after this one could take at once, in the tightest of the limits.
    pub fn remaining(&self) -> u64 {
        self.detail().remaining()
    }

    /// When to come back; `None` where that is now or never.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Denied { retry_after, .. } => Some(*retry_after),
            _ => None,
        }
    }

    /// The store did not decide, because it is away.
    pub fn is_degraded(&self) -> bool {
        self.detail().source.is_degraded()
    }
}

impl Detail {
    /// Who decided.
    pub fn source(&self) -> Source {
        self.source
    }

    /// How each limit stands, in the order of the limits.
    pub fn states(&self) -> impl Iterator<Item = LimitState<'_>> {
        (0..self.standings.len()).filter_map(|at| self.state(at))
    }

    /// One of them.
    pub fn state(&self, at: usize) -> Option<LimitState<'_>> {
        let (part, standing) = (self.plan.parts.get(at)?, self.standings.get(at)?);
        Some(LimitState {
            limiter: &part.limiter,
            limit: part.limit,
            remaining: standing.remaining,
            retry_after: standing.retry_after,
            reset: standing.reset,
        })
    }

    pub(super) fn standings(&self) -> &Standings {
        &self.standings
    }

    fn remaining(&self) -> u64 {
        let least = self.standings.iter().map(|standing| standing.remaining).min();
        least.unwrap_or(if self.plan.passes_nothing { 0 } else { u64::MAX })
    }
}

/// For people: what the methods say. The keys and the plan behind them would be a page of bytes.
impl fmt::Debug for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states: Vec<_> = self.states().collect();
        f.debug_struct("Detail").field("source", &self.source).field("states", &states).finish()
    }
}

/// The verdicts of limiters that are asked in turn, put together as one.
pub(super) struct Verdicts {
    plan: Arc<Plan>,
    standings: Standings,
    source: Option<Source>,
    outcome: Outcome,
}

impl Verdicts {
    /// None so far.
    pub(super) fn of(plan: &Arc<Plan>) -> Self {
        let outcome = Outcome::Allowed { granted: u64::MAX };
        Self { plan: plan.clone(), standings: Standings::new(), source: None, outcome }
    }

    /// And the next limiter's.
    pub(super) fn and(mut self, next: &Verdict) -> Self {
        let before = self.standings.len();
        self.outcome = match next {
            Verdict::Allowed { granted, .. } => match self.outcome {
                Outcome::Allowed { granted: most } => Outcome::Allowed { granted: most.min(*granted) },
                refused => refused,
            },
            Verdict::Denied { by, .. } => Outcome::Denied { by: before + by },
            Verdict::Never { by, .. } => Outcome::Never { by: before + by },
        };
        let detail = next.detail();
        self.standings.extend(detail.standings.iter().copied());
        // What was not decided by the store is said of all, and what nobody decided of none.
        let is_said = self.source.is_none_or(|source| {
            source == Source::Constant || !source.is_degraded() && detail.source != Source::Constant
        });
        if is_said {
            self.source = Some(detail.source);
        }
        self
    }

    pub(super) fn is_allowed(&self) -> bool {
        matches!(self.outcome, Outcome::Allowed { .. })
    }

    pub(super) fn into_verdict(self) -> Verdict {
        let checked = Checked { outcome: self.outcome, standings: self.standings };
        Verdict::new(&self.plan, checked, self.source.unwrap_or(Source::Constant))
    }
}
