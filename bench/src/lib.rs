//! The benchmark of the marks: what Lockkeeper costs beside the bare calls that it is made of.
//!
//! `cargo bench` prints the table, `cargo bench -- --json` the same as JSON. A machine that does other work as well
//! makes every figure noisy. So a figure is compared with that of a bare arm which ran in the same seconds, in turns
//! with it: the ratio is the result, the figures beside it are a hint. A server of its own is started for each row.

mod allocations;
mod args;
mod arm;
mod bare;
mod child;
mod contest;
mod cpu;
mod history;
mod limits;
mod monotonic;
mod once;
mod pair;
mod report;
mod round_trip;
mod row;
mod rows;
mod runtime;
mod server;
mod spread;
mod stage;
mod together;
mod turn;
mod units;
mod words;

use clap::Parser as _;

use args::Args;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// Runs what the command line asks for; `peer` is the program of that name, for rows with several processes.
///
/// # Errors
/// A name that no row has; a server that does not start; an arm that did not do its work.
pub fn main(peer: &'static str) -> anyhow::Result<()> {
    let args = Args::parse();
    if !args.bench {
        println!("this measures, and only under `cargo bench`");
        return Ok(());
    }
    let mut rows = Vec::new();
    for kind in args.chosen()? {
        eprintln!("measuring {} …", kind.name);
        rows.extend((kind.measure)(&args.plan(peer))?);
    }
    report::print(&rows, &args)
}
