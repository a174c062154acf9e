//! What the server itself can do, by its own benchmark: no client gets more calls per second out of it.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_faults::RedisServer;

use crate::bare::{hash_of, main_key, token};
use crate::pair::Plan;
use crate::row::Row;
use crate::server;
use crate::spread::Spread;
use crate::units::Unit;

const TOOL: &str = "redis-benchmark";
const WORK: &str = "the server's ceiling: release script by redis-benchmark -c 50 -P 1";
const CALLS: u64 = 100_000;
pub(super) const WHY_NOT: &str = "redis-benchmark is not on the PATH";

pub(crate) fn measure(_plan: &Plan) -> Result<Vec<Row>> {
    let server = server::start()?;
    let (key, token) = (main_key("ceiling"), token(1));
    let words = ["EVALSHA", hash_of("release")?, "1", &key, &token];
    let Some(rate) = ceiling(&server, words, CALLS)? else {
        return Ok(vec![Row::missing(WORK, Unit::PerSecond, WHY_NOT)]);
    };
    let note = format!("calls, not cycles, on a free key, Redis {}", server::version(&server)?);
    Ok(vec![Row::bare_alone(WORK, Unit::PerSecond, Spread::single(rate)).note(note)])
}

/// How many such calls per second the server answers to 50 connections that each wait for every answer. `None`: there is
/// no tool.
pub(super) fn ceiling<'a>(
    server: &RedisServer,
    words: impl IntoIterator<Item = &'a str>,
    calls: u64,
) -> Result<Option<f64>> {
    let before = server::calls_of(server, "evalsha")?;
    let mut command = Command::new(TOOL);
    command.args(["-h", "127.0.0.1", "-p", &server.port().to_string()]);
    command.args(["-c", "50", "-P", "1", "-n", &calls.to_string(), "--csv"]).args(words);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: the server's ceiling needs {TOOL} on the PATH: {error}");
            return Ok(None);
        }
    };
    ensure!(output.status.success(), "{TOOL}: {}", String::from_utf8_lossy(&output.stderr));
    // It did, and nothing else did, what was to be measured.
    let made = server::calls_of(server, "evalsha")? - before;
    ensure!(made == calls, "{TOOL} made {made} calls, not {calls}");
    rate(&String::from_utf8_lossy(&output.stdout)).map(Some)
}

/// The second column of the last line of its CSV.
fn rate(csv: &str) -> Result<f64> {
    let line =
        csv.lines().rfind(|line| !line.trim().is_empty()).context("redis-benchmark printed nothing")?;
    let mut columns = line.rsplit("\",\"");
    let count = columns.clone().count();
    // From the right: the first column holds the command, which may contain anything.
    let rate = if count >= 8 { columns.nth(6) } else { columns.next() };
    let rate = rate.with_context(|| format!("redis-benchmark printed `{line}`"))?;
    rate.trim_matches('"').parse().with_context(|| format!("redis-benchmark printed `{line}`"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_rate_is_found_in_old_and_new_outputs() {
        let new = "\"test\",\"rps\",\"avg\"\n\"EVALSHA x\",\"123.45\",\"1\",\"2\",\"3\",\"4\",\"5\",\"6\"\n";
        assert_eq!(super::rate(new).unwrap(), 123.45);
        assert_eq!(super::rate("\"EVALSHA x\",\"99.5\"\n").unwrap(), 99.5);
        assert!(super::rate("").is_err() && super::rate("\"a\",\"b\"").is_err());
    }
}
