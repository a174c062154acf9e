//! The command line of the benchmark.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser;

use crate::pair::Plan;
use crate::rows::{ALL, Kind};

/// Measures Lockkeeper against its marks.
#[derive(Debug, Parser)]
#[command(name = "cargo bench --", bin_name = "cargo bench --")]
pub(crate) struct Args {
    /// Prints JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Measures only what has this name; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// How long each arm runs before it is the other one's turn.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.3, value_parser = seconds)]
    seconds: f64,
    /// How many turns each arm has.
    #[arg(long, value_name = "COUNT", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) turns: u32,
    /// Added by cargo.
    #[arg(long, hide = true)]
    pub(crate) bench: bool,
}

impl Args {
    pub(crate) fn plan(&self, peer: &'static str) -> Plan {
        Plan { turns: self.turns, turn: self.turn(), peer }
    }

    pub(crate) fn turn(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// The kinds of rows to measure, in their order.
    pub(crate) fn chosen(&self) -> Result<Vec<&'static Kind>> {
        if let Some(unknown) = self.only.iter().find(|name| ALL.iter().all(|kind| kind.name != **name)) {
            let names: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
            bail!("nothing is called `{unknown}`; there is {}", names.join(", "));
        }
        let wanted = |kind: &&Kind| self.only.is_empty() || self.only.iter().any(|name| name == kind.name);
        Ok(ALL.iter().filter(wanted).collect())
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.01..=600.0).contains(&seconds) { Ok(seconds) } else { Err("0.01 to 600".to_owned()) }
}
