//! The arms of checks: Lockkeeper's, and the same call by hand.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper::{IntoLimits, Keeper, Limit, Limiter, Verdict};
use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::arm::Arm;
use crate::runtime::on;
use crate::stage::Stage;
use crate::words::Words;

/// Bounds nothing here: an arm that is late is slow, and shows in its figure.
const DECIDE_WITHIN: Duration = Duration::from_secs(5);
const NAME: &str = "login";
/// What no arm ever uses up.
const PLENTY: u64 = 1_000_000_000;

/// A limit that is never reached.
pub(crate) fn plenty() -> Result<Limit> {
    Ok(Limit::token_bucket(PLENTY).refill(PLENTY, Duration::from_secs(60))?)
}

/// A limiter as a service makes it, apart from its patience.
pub(crate) fn limiter(keeper: &Keeper, limits: impl IntoLimits) -> Result<Limiter> {
    Ok(keeper.limiter(NAME, limits)?.decide_within(DECIDE_WITHIN))
}

/// Each algorithm with about the same quota.
pub(crate) fn algorithms(count: u64, window: Duration) -> Result<[(&'static str, Limit); 5]> {
    Ok([
        ("token bucket", Limit::token_bucket(count).refill(count, window)?),
        ("fixed window", Limit::fixed_window(count, window)?),
        ("fixed window from the first call", Limit::fixed_window_from_first(count, window)?),
        ("sliding counter", Limit::sliding_counter(count, window)?),
        ("sliding log", Limit::sliding_log(count, window)?),
    ])
}

pub(crate) fn subject(number: u64) -> String {
    format!("user:{number:06}")
}

pub(crate) fn ensure_allowed(verdict: &Verdict) -> Result<()> {
    ensure!(verdict.is_allowed(), "Lockkeeper's arm: it was to be allowed: {verdict:?}");
    Ok(())
}

/// Which subject is checked next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subjects {
    /// So many, one after another.
    InTurn(u64),
    /// Any of so many; each task from a start of its own.
    Random { of: u64, state: u64 },
}

impl Subjects {
    fn next(&mut self, number: u64) -> String {
        match self {
            Self::InTurn(count) => subject(number % *count),
            Self::Random { of, state } => {
                // Marsaglia's xorshift, whose state is never zero.
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                subject(*state % *of)
            }
        }
    }
}

/// Lockkeeper.
pub(crate) struct Checks(pub(crate) Limiter, pub(crate) Subjects);

impl Arm for Checks {
    async fn cycle(&mut self, number: u64) -> Result<()> {
        ensure_allowed(&self.0.check(self.1.next(number)).await?)
    }
}

/// The same script with the same arguments through the same client.
pub(crate) struct BareChecks {
    call: BareCall,
    subjects: Subjects,
}

/// What is the same in every call.
#[derive(Clone)]
pub(crate) struct BareCall {
    connection: MultiplexedConnection,
    words: Arc<Words>,
    prefix: Arc<str>,
}

impl BareCall {
    /// Looks at a check of `limiter`, and remembers what it sends.
    pub(crate) fn like(limiter: &Limiter, stage: &Stage) -> Result<Self> {
        let words = words(limiter, stage)?;
        let prefix = words.parts().1.strip_suffix(&subject(0)).context("a key ends with its subject")?.into();
        Ok(Self { connection: stage.bare.connection(), words: Arc::new(words), prefix })
    }

    pub(crate) fn on(&self, subjects: Subjects) -> BareChecks {
        BareChecks { call: self.clone(), subjects }
    }
}

/// What a check of the first subject sends.
pub(crate) fn words(limiter: &Limiter, stage: &Stage) -> Result<Words> {
    let limiter = limiter.clone();
    let check = async move { ensure_allowed(&limiter.check(subject(0)).await?) };
    Words::of(&stage.server, || on(&stage.runtime, check))
}

impl Arm for BareChecks {
    async fn cycle(&mut self, number: u64) -> Result<()> {
        let key = [&*self.call.prefix, &*self.subjects.next(number)].concat();
        let (head, _, arguments) = self.call.words.parts();
        let mut command = redis::cmd("EVALSHA");
        command.arg(head).arg(key).arg(arguments);
        is_granted(&command.query_async(&mut self.call.connection).await?)
    }
}

/// Time, status, how much was granted.
fn is_granted(reply: &Value) -> Result<()> {
    match reply {
        Value::Array(fields) => match &fields[..] {
            [_, Value::BulkString(status), Value::Int(1), ..] if status == b"checked" => Ok(()),
            _ => bail!("the bare arm: a grant was expected, not {reply:?}"),
        },
        _ => bail!("the bare arm: a grant was expected, not {reply:?}"),
    }
}
