//! The demonstration over several processes: this program, started again, and a counter in a file.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::counter::Counter;
use super::dialogue::{DID, DONE, GO, HELD, LOST, READY, WRITE, after, number};
use super::episodes::{self, Pair};
use super::metrics::Metrics;

use super::outcome::{Counted, Outcome, Stalled};
use super::progress::Progress;
use super::stall::{FIRST, LATE, Resources, SECOND};
use super::work::{Load, Tally};
use super::{LOG, Role, quiet, unique_name};

/// The processes and what they have in common.
pub(super) struct Crew {
    pub(super) url: String,
    pub(super) address: String,
    pub(super) processes: u32,
    pub(super) load: Load,
}

impl Crew {
    pub(super) async fn run(self, pair: Pair, show: bool, metrics: &Metrics) -> anyhow::Result<Outcome> {
        let name = unique_name();
        let folder =
            tempfile::Builder::new().prefix(&name).tempdir().context("making a folder for the counter")?;
        let without_lock = self.counted(Role::Free, &name, &folder.path().join("free"), show)?;
        let under_lock = self.counted(Role::Locked, &name, &folder.path().join("locked"), show)?;
        let stalled = self.stalled(&name)?;
        let (line, trouble) = episodes::run(pair, metrics).await?;
        let (processes, Load { workers, rounds }) = (self.processes, self.load);
        let store = self.address;
        Ok(Outcome { store, processes, workers, rounds, without_lock, under_lock, line, stalled, trouble })
    }

    fn counted(&self, role: Role, lock: &str, path: &Path, show: bool) -> anyhow::Result<Counted> {
        let counter = Counter::in_file(path.to_owned())?;
        let (lines, heard) = channel();
        let mut members = vec![];
        for at in 0..self.processes {
            let mut command = self.command(role, lock, self.share(at))?;
            command.arg("--counter").arg(path);
            members.push(Member::start(command, Some(lines.clone()))?);
        }
        drop(lines);
        for _ in &members {
            after(&next(&heard)?, READY)?;
        }
        let started = Instant::now();
        members.iter_mut().try_for_each(Member::go)?;
        let tally = self.listen(&heard, show)?;
        let took = started.elapsed();
        members.into_iter().try_for_each(Member::finish)?;
        Ok(Counted {
            updates: tally.updates,
            counter: counter.read()?,
            took,
            longest_wait: tally.longest_wait,
        })
    }

    /// Until every process has said that it is done.
    fn listen(&self, heard: &Receiver<String>, show: bool) -> anyhow::Result<Tally> {
        let (mut all, mut progress) = (Tally::default(), Progress::new(self.load.updates(), show));
        let mut working = self.processes;
        while working > 0 {
            let line = next(heard)?;
            if line.starts_with(DID) {
                progress.add(number(&line, DID)?);
                continue;
            }
            let (updates, wait_us) = after(&line, DONE)?.split_once(' ').context("half a line")?;
            all.updates += updates.parse::<u64>()?;
            all.longest_wait = all.longest_wait.max(Duration::from_micros(wait_us.parse()?));
            working -= 1;
        }
        Ok(all)
    }

    fn stalled(&self, lock: &str) -> anyhow::Result<Stalled> {
        let mut resources = Resources::default();
        let (mut first, said) = Member::alone(self.command(Role::Stalled, lock, 1)?)?;
        let first_fence = number(&next(&said)?, HELD)?;
        resources.write(first_fence, FIRST);
        let reason = after(&next(&said)?, LOST)?.to_owned();
        let (mut second, answered) = Member::alone(self.command(Role::Successor, lock, 1)?)?;
        let second_fence = number(&next(&answered)?, HELD)?;
        resources.write(second_fence, SECOND);
        first.go()?;
        let late_fence = number(&next(&said)?, WRITE)?;
        let late = resources.write(late_fence, LATE);
        second.go()?;
        first.finish()?;
        second.finish()?;
        Ok(resources.end((first_fence, reason), second_fence, late))
    }

    /// The workers of one process; the first ones take what is left over.
    fn share(&self, at: u32) -> u32 {
        let left_over = self.load.workers % self.processes;
        self.load.workers / self.processes + u32::from(at < left_over)
    }

    fn command(&self, role: Role, lock: &str, workers: u32) -> anyhow::Result<Command> {
        let role = clap::ValueEnum::to_possible_value(&role).context("a role without a name")?;
        let mut command = Command::new(std::env::current_exe().context("finding this program")?);
        command.args(["demo", "locks", "--role", role.get_name(), "--lock", lock]);
        command.args(["--workers", &workers.to_string(), "--rounds", &self.load.rounds.to_string()]);
        // Not as an argument: others can read those, and it may contain a password.
        command.env("LOCKKEEPER_URL", &self.url).stdin(Stdio::piped()).stdout(Stdio::piped());
        if quiet() {
            command.env(LOG, "error");
        }
        Ok(command)
    }
}

/// A process, killed when it is dropped before its end.
struct Member(Child);

impl Member {
    fn start(mut command: Command, lines: Option<Sender<String>>) -> anyhow::Result<Self> {
        let mut member = Self(command.spawn().context("starting this program again")?);
        if let (Some(output), Some(lines)) = (member.0.stdout.take(), lines) {
            let heard = BufReader::new(output).lines().map_while(Result::ok);
            thread::spawn(move || heard.map(|line| lines.send(line)).all(|sent| sent.is_ok()));
        }
        Ok(member)
    }

    /// One with a channel of its own.
    fn alone(command: Command) -> anyhow::Result<(Self, Receiver<String>)> {
        let (lines, heard) = channel();
        Ok((Self::start(command, Some(lines))?, heard))
    }

    fn go(&mut self) -> anyhow::Result<()> {
        let input = self.0.stdin.as_mut().context("a process without input")?;
        Ok(writeln!(input, "{GO}")?)
    }

    fn finish(mut self) -> anyhow::Result<()> {
        let status = self.0.wait()?;
        anyhow::ensure!(status.success(), "a process of the demo failed ({status})");
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // One that was waited for is left alone.
        if let Ok(None) = self.0.try_wait() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// The next line of any process. All of them have ended when there is none.
fn next(heard: &Receiver<String>) -> anyhow::Result<String> {
    heard.recv().context("the processes of the demo ended early")
}
