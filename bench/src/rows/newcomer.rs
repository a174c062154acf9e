//! A process that hands the lock around among its own waiters: when does another process get its turn?

use std::time::Duration;

use anyhow::Result;

use crate::contest::{Arena, Side};
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::server;
use crate::spread::Spread;
use crate::units::Unit;

const CROWD: Side = Side::lockkeeper(50);
const NEWCOMER: Side = Side { pause_ms: 10, ..Side::lockkeeper(1) };
const TIME: Duration = Duration::from_secs(3);
const MOST_NS: f64 = 25_000_000.0;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let server = server::start()?;
    let found = Arena { program: plan.peer, server: &server }.fight(&[CROWD, NEWCOMER], TIME)?;
    let history = &found.history;
    let turns = history.sections_of(1);
    let note = format!("{TIME:?}; it had {turns} turns; {:.0} sections/s of all", found.rate());
    let work = "50 waiters of one process, one of another: longest wait of the latter";
    let longest = Spread::single(history.longest_wait(|process| process == 1));
    Ok(vec![Row::alone(work, Unit::Nanoseconds, longest).mark(Mark::AtMost(MOST_NS)).note(note)])
}
