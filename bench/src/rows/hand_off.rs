//! A hand-off between two processes, forced: who releases pauses, so somebody else has to be next.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::contest::{Arena, Outcome, Side};
use crate::history::Section;
use crate::pair::{Compared, Plan};
use crate::round_trip::RoundTrip;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, on};
use crate::spread::{Spread, quantile};
use crate::stage::Stage;
use crate::units::Unit;

const SIDE: Side = Side { hold_ms: 1, pause_ms: 5, ..Side::lockkeeper(4) };
const TIME: Duration = Duration::from_secs(2);
const CONTESTS: u32 = 3;
const MOST_ROUND_TRIPS: f64 = 2.5;
const MOST_NS: f64 = 300_000.0;
const MOST_COMMANDS: f64 = 3.0;

/// A contest, and what a call took around it.
struct Measured {
    round_trip: RoundTrip,
    outcome: Outcome,
}

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let stage = Stage::set(Flavour::TwoWorkers)?;
    let arena = Arena { program: plan.peer, server: &stage.server };
    let mut found = Vec::new();
    for _ in 0..CONTESTS {
        let before = round_trip(&stage)?;
        let outcome = arena.fight(&[SIDE, SIDE], TIME)?;
        let round_trip = RoundTrip::between(before, round_trip(&stage)?);
        found.push(Measured { round_trip, outcome });
    }
    stage.strike()?;
    rows(&found)
}

fn round_trip(stage: &Stage) -> Result<RoundTrip> {
    let rest = Duration::from_millis(SIDE.hold_ms);
    on(&stage.runtime, RoundTrip::measure(stage.bare.clone(), rest))
}

fn rows(found: &[Measured]) -> Result<Vec<Row>> {
    let any = by(found, |_, _| true)?;
    let other = by(found, |one, next| one.process != next.process)?;
    let commands: Vec<f64> = found.iter().map(|one| one.outcome.commands_per_section()).collect();
    let work = |what: &str| format!("hand-off, 2 processes of 4 waiters, 1 ms held: {what}");
    let ratio = Mark::RatioAtMost(MOST_ROUND_TRIPS);
    Ok(vec![
        Row::compared(work("median gap"), Unit::Nanoseconds, any).mark(ratio).note(note(found)),
        Row::alone(work("median gap itself"), Unit::Nanoseconds, any.lockkeeper).mark(Mark::Below(MOST_NS)),
        Row::compared(work("median gap to the other process"), Unit::Nanoseconds, other).mark(ratio),
        Row::alone(work("commands"), Unit::Commands, Spread::of(commands).unwrap_or(Spread::single(0.0)))
            .mark(Mark::AtMost(MOST_COMMANDS)),
    ])
}

/// The median gaps between those sections that count, beside the round trip of the same seconds.
fn by(found: &[Measured], counts: fn(&Section, &Section) -> bool) -> Result<Compared> {
    let pair = |one: &Measured| {
        let mut gaps = one.outcome.history.gaps(counts);
        ensure!(!gaps.is_empty(), "there was no hand-off");
        Ok((one.round_trip.busy, quantile(&mut gaps, 0.5)))
    };
    Compared::of(&found.iter().map(pair).collect::<Result<Vec<_>>>()?)
}

fn note(found: &[Measured]) -> String {
    let rested: Vec<f64> = found.iter().map(|one| one.round_trip.rested).collect();
    let rested = Spread::of(rested).map_or(0.0, |spread| spread.median);
    let rates: Vec<String> = found.iter().map(|one| format!("{:.0}", one.outcome.rate())).collect();
    format!(
        "gap: release called to next acquire returned; bare: one EVALSHA, one after the other ({} after a rest of 1 ms); \
         {CONTESTS} contests of {TIME:?}; sections/s {}",
        Unit::Nanoseconds.show(rested),
        rates.join(", ")
    )
}
