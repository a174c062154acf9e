//! A process of the program `peer`, ended when this is dropped.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

const LOOK_EVERY: Duration = Duration::from_millis(5);

pub(crate) struct Peer(Child);

/// The last line of its output.
#[derive(Deserialize)]
pub(crate) struct Answer {
    pub(crate) bad_release: u64,
    pub(crate) fence_disorder: u64,
}

impl Peer {
    pub(crate) fn start(program: &str, url: &str, words: &[String]) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(words).env("REDIS_URL", url).stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(Self(command.spawn().with_context(|| format!("starting {program}"))?))
    }

    /// Waits until it has ended. Its answer is one line, which no pipe is too small for.
    pub(crate) fn answer(mut self, within: Duration) -> Result<Answer> {
        let until = Instant::now() + within;
        let status = loop {
            match self.0.try_wait()? {
                Some(status) => break status,
                None if Instant::now() < until => sleep(LOOK_EVERY),
                None => bail!("a process did not end within {within:?}"),
            }
        };
        ensure!(status.success(), "a process ended with {status}");
        let mut text = String::new();
        self.0.stdout.take().context("no output")?.read_to_string(&mut text)?;
        let line = text.lines().next_back().context("a process answered nothing")?;
        serde_json::from_str(line).with_context(|| format!("a process answered `{line}`"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // There is nobody to report to; a process that has ended already is what we want.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
