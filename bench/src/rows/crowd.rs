//! Many waiters of one process on one key, with nothing to do inside: what does a section cost?

use std::time::Duration;

use anyhow::Result;

use crate::contest::{Arena, Outcome, Side};
use crate::pair::{Compared, Plan};
use crate::row::{Mark, Row};
use crate::server;
use crate::spread::Spread;
use crate::units::Unit;

const CROWDS: [usize; 2] = [50, 1_000];
const TIME: Duration = Duration::from_secs(2);
const MOST_COMMANDS: f64 = 0.1;
/// Times the sections of the best other library.
const LEAST_TIMES: f64 = 30.0;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let server = server::start()?;
    let arena = Arena { program: plan.peer, server: &server };
    let mut rows = Vec::new();
    for waiters in CROWDS {
        rows.append(&mut measure_crowd(&arena, waiters)?);
    }
    Ok(rows)
}

fn measure_crowd(arena: &Arena<'_>, waiters: usize) -> Result<Vec<Row>> {
    let fight = |arm| arena.fight(&[Side { arm, ..Side::lockkeeper(waiters) }], TIME);
    let (bare, ours) = (fight("bare")?, fight("lockkeeper")?);
    let work = |what: &str| format!("{waiters} waiters of one process, nothing inside: {what}");
    let (fewest, most) = ours.history.shares();
    let note = format!(
        "bare: SET NX PX, a poll of 10 ms; {TIME:?} each; longest wait {}, {fewest} to {most} sections per waiter",
        Unit::Nanoseconds.show(ours.history.longest_wait(|_| true))
    );
    let commands = Spread::single(ours.commands_per_section());
    Ok(vec![
        Row::compared(work("sections"), Unit::PerSecond, rates(&bare, &ours)?).note(note),
        against_rslock(work("sections; bare: rslock"), &ours, fight)?,
        Row::alone(work("commands"), Unit::Commands, commands).mark(Mark::AtMost(MOST_COMMANDS)),
    ])
}

#[cfg(feature = "peers")]
fn against_rslock(
    work: String,
    ours: &Outcome,
    fight: impl Fn(&'static str) -> Result<Outcome>,
) -> Result<Row> {
    let rates = rates(&fight("rslock")?, ours)?;
    Ok(Row::compared(work, Unit::PerSecond, rates).mark(Mark::RatioAtLeast(LEAST_TIMES)))
}

#[cfg(not(feature = "peers"))]
fn against_rslock(work: String, _: &Outcome, _: impl Fn(&'static str) -> Result<Outcome>) -> Result<Row> {
    Ok(Row::missing(work, Unit::PerSecond, "it needs the feature `peers`")
        .mark(Mark::RatioAtLeast(LEAST_TIMES)))
}

fn rates(bare: &Outcome, ours: &Outcome) -> Result<Compared> {
    Compared::of(&[(bare.rate(), ours.rate())])
}
