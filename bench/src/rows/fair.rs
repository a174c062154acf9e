//! Who releases asks again at once: how long does the unluckiest wait?

use std::time::Duration;

use anyhow::Result;

use crate::contest::{Arena, Side};
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::server;
use crate::spread::Spread;
use crate::units::Unit;

const SIDE: Side = Side { hold_ms: 1, ..Side::lockkeeper(4) };
const TIME: Duration = Duration::from_secs(5);
const MOST_SHARES: f64 = 4.0;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let server = server::start()?;
    let found = Arena { program: plan.peer, server: &server }.fight(&[SIDE, SIDE], TIME)?;
    let history = &found.history;
    let others = (2 * SIDE.waiters - 1) as f64;
    let share = others * history.median_period();
    let longest = history.longest_wait(|_| true);
    let (fewest, most) = history.shares();
    let note = format!(
        "the ratio is to a fair share, {others} holds and gaps: {}; {TIME:?}; {:.0} sections/s, {fewest} to {most} per waiter",
        Unit::Nanoseconds.show(share),
        found.rate()
    );
    let work = "2 processes of 4 waiters, 1 ms held, no pause: longest wait";
    let (longest, ratio) = (Spread::single(longest), Spread::single(longest / share));
    Ok(vec![
        Row::divided(work, Unit::Nanoseconds, longest, ratio).mark(Mark::RatioAtMost(MOST_SHARES)).note(note),
    ])
}
