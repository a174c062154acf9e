//! The ports of limits. The scripts change the state and answer what it was before; what each call is answered is worked
//! out from that here, by the model's own code. So a batch of calls costs no more bytes than one.

use std::iter;

use lockkeeper_core::Timestamp;
use lockkeeper_core::limit::{
    Algorithm, Ask, Bucket, Check, CheckReply, Checked, Level, MAX_COUNT, Peek, Quota, Refund, Refunded,
    Reset, Stored, Times, WindowStart,
};
use redis::{Cmd, Value};
use smallvec::SmallVec;

use super::UNKNOWN_STATUS;
use crate::port::{EXACT, Part, Port, time};
use crate::reply::{Fields, Malformed};
use crate::script::{self, Script};

const DISAGREE: Malformed = Malformed("not what the model says");

impl Port for Check {
    const SCRIPT: &'static Script = &script::CHECK;
    const KEYS: &'static [Part] = &[Part::Main];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(time(self.not_after));
        for quota in self.quotas.iter() {
            let (kind, numbers) = numbers(*quota);
            command.arg(kind).arg(&numbers);
        }
        let runs = runs(&self.quotas, &self.asks);
        command.arg(runs.len());
        for run in runs {
            run.arguments(&self.quotas, command);
        }
    }

    fn read(&self, at: Timestamp, status: &[u8], mut fields: Fields) -> Result<CheckReply, Malformed> {
        if status != b"checked" {
            return Err(UNKNOWN_STATUS);
        }
        let (granted, repaired) = (fields.unsigned()?, fields.index()?);
        let mut levels = levels(&self.quotas, fields, at)?;
        let reply = CheckReply::of(&mut levels, &self.asks);
        let agree = reply.granted() == granted && reply.repaired == repaired;
        if agree { Ok(reply) } else { Err(DISAGREE) }
    }
}

impl Port for Peek {
    const SCRIPT: &'static Script = &script::PEEK;
    const KEYS: &'static [Part] = &[Part::Main];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.ask.least().min(NEVER));
        for quota in self.quotas.iter() {
            let (kind, numbers) = numbers(*quota);
            command.arg(kind).arg(&numbers);
        }
    }

    fn read(&self, at: Timestamp, status: &[u8], fields: Fields) -> Result<Checked, Malformed> {
        match status {
            b"peeked" => Ok(Self::of(&levels(&self.quotas, fields, at)?, self.ask)),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Refund {
    const SCRIPT: &'static Script = &script::REFUND;
    const KEYS: &'static [Part] = &[Part::Main];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(time(self.not_after)).arg(self.cost.min(EXACT));
        for quota in self.quotas.iter() {
            let (kind, numbers) = numbers(*quota);
            // No bucket lacks more than its capacity.
            let step = step(*quota, self.cost.min(quota.capacity())).unwrap_or_default();
            command.arg(kind).arg(&numbers).arg(step.0).arg(step.1);
        }
    }

    fn read(&self, at: Timestamp, status: &[u8], mut fields: Fields) -> Result<Refunded, Malformed> {
        match status {
            b"refunded" => {
                let repaired = fields.index()?;
                Ok(Refunded::of(&levels(&self.quotas, fields, at)?, repaired))
            }
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Reset {
    const SCRIPT: &'static Script = &script::RESET;
    const KEYS: &'static [Part] = &[Part::Main];

    fn arguments(&self, command: &mut Cmd) {
        for quota in self.quotas.iter() {
            let (kind, [_, _, refill, _]) = numbers(*quota);
            command.arg(kind).arg(refill);
        }
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<usize, Malformed> {
        match status {
            b"reset" => fields.index(),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

/// A quota as the scripts take it: its kind, and four numbers that mean what `check.lua` says.
fn numbers(quota: Quota) -> (&'static str, [u64; 4]) {
    match quota.algorithm() {
        Algorithm::TokenBucket { capacity, refill, period_us } => {
            let (full_us, full_part) = Bucket::step(capacity, refill, period_us);
            ("t", [full_us, full_part, refill, 0])
        }
        Algorithm::FixedWindow { count, window_us, from: WindowStart::Aligned } => {
            ("w", [count, window_us, 0, 0])
        }
        Algorithm::FixedWindow { count, window_us, from: WindowStart::FirstCall } => {
            ("f", [count, window_us, 0, 0])
        }
        Algorithm::SlidingLog { count, window_us } => ("l", [count, window_us, 0, 0]),
        Algorithm::SlidingCounter { count, window_us } => {
            let (unit_us, units) = Quota::counter_unit(count, window_us);
            ("c", [count, window_us, unit_us, units])
        }
    }
}

/// What `cost` is of a bucket. `None`: it is no bucket.
fn step(quota: Quota, cost: u64) -> Option<(u64, u64)> {
    match quota.algorithm() {
        Algorithm::TokenBucket { refill, period_us, .. } => Some(Bucket::step(cost, refill, period_us)),
        _ => None,
    }
}

/// A cost that no limit can ever grant.
const NEVER: u64 = MAX_COUNT + 1;

/// Calls that are alike, one after another: as many are granted as fit. Calls for less than they ask for are calls
/// for one, as many as they would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    most: u64,
    cost: u64,
}

/// Most calls are alike, and alone.
type Runs = SmallVec<[Run; 1]>;

/// `asks` in runs. What can never be granted is left out, except that a log has to say when it would have room.
fn runs(quotas: &[Quota], asks: &[Ask]) -> Runs {
    let capacity = quotas.iter().map(|quota| quota.capacity()).min().unwrap_or(0);
    let has_log = quotas.iter().any(|quota| matches!(quota.algorithm(), Algorithm::SlidingLog { .. }));
    let mut runs = Runs::new();
    let mut rest = asks;
    while let Some(ask) = rest.first() {
        let alike = rest.iter().take_while(|other| *other == ask).count();
        rest = &rest[alike..];
        let (many, cost) = (alike as u64, ask.least().min(NEVER));
        if ask.cost == 0 || (cost > capacity && !has_log) {
            continue;
        }
        // One more than can be there, so that the script sees whether something was refused.
        let room = (capacity / cost).saturating_add(1);
        let asked = if ask.partial { many.saturating_mul(ask.cost) } else { many };
        runs.push(Run { most: asked.min(room), cost });
    }
    runs
}

impl Run {
    fn arguments(self, quotas: &[Quota], command: &mut Cmd) {
        let bits = u64::BITS - self.most.leading_zeros();
        command.arg(self.most).arg(self.cost).arg(bits);
        for quota in quotas {
            let steps = (0..bits).map_while(|bit| step(*quota, self.cost.saturating_mul(1 << bit)));
            for (step_us, part) in steps {
                command.arg(step_us).arg(part);
            }
        }
    }
}

/// Most limiters have one limit.
type Levels = SmallVec<[Level; 1]>;

/// What is kept of each quota, as levels.
fn levels(quotas: &[Quota], fields: Fields, at: Timestamp) -> Result<Levels, Malformed> {
    let levels: Result<Levels, Malformed> =
        iter::zip(quotas, fields.rest()).map(|(quota, kept)| level(*quota, kept, at)).collect();
    levels.and_then(
        |levels| if levels.len() == quotas.len() { Ok(levels) } else { Err(Malformed("too short")) },
    )
}

fn level(quota: Quota, kept: Value, at: Timestamp) -> Result<Level, Malformed> {
    let text = match kept {
        Value::Array(_) => return log_level(quota, Fields::of(kept)?, at),
        Value::BulkString(text) => text,
        _ => return Err(Malformed("a state was expected")),
    };
    let (text, is_bare) = match text.strip_prefix(b"!") {
        Some(text) => (text, true),
        None => (&text[..], false),
    };
    let stored = match text {
        b"" => Stored::Empty,
        text => Stored::parse(quota.algorithm(), text).ok_or(Malformed("a state that is not ours"))?,
    };
    let mut level = Level::load(quota, stored, at).map_err(|_| Malformed("a state that is not ours"))?;
    level.needs_repair |= is_bare;
    Ok(level)
}

fn log_level(quota: Quota, mut fields: Fields, at: Timestamp) -> Result<Level, Malformed> {
    let (used, newest, is_damaged) = (fields.unsigned()?, fields.int()?, fields.int()? != 0);
    let mut ranks = Vec::new();
    while !fields.is_empty() {
        ranks.push((fields.unsigned()?, fields.unsigned()?));
    }
    let times = Times::Seen { used, newest_us: u64::try_from(newest).ok(), ranks };
    let mut level = Level::of_log(quota, times, at);
    level.needs_repair |= is_damaged;
    Ok(level)
}
