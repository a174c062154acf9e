//! Processes that fight for one key, all from the same moment on. Exclusion is checked after each.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_faults::RedisServer;

use crate::child::Peer;
use crate::history::History;
use crate::monotonic;
use crate::server::{calls_of_any, clear};

/// Until then all processes have connected.
const HEAD_START: Duration = Duration::from_millis(700);
/// A process that has not ended so long after its time is stuck.
const PATIENCE: Duration = Duration::from_secs(10);
/// What Lockkeeper may send and its scripts never call; whatever else the server ran was inside of these, or set-up.
const SENT: [&str; 9] =
    ["eval", "evalsha", "fcall", "subscribe", "ssubscribe", "unsubscribe", "sunsubscribe", "blpop", "xread"];

/// One process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) arm: &'static str,
    pub(crate) waiters: usize,
    /// Between acquire and release.
    pub(crate) hold_ms: u64,
    /// Between release and the next acquire.
    pub(crate) pause_ms: u64,
}

impl Side {
    pub(crate) const fn lockkeeper(waiters: usize) -> Self {
        Self { arm: "lockkeeper", waiters, hold_ms: 0, pause_ms: 0 }
    }
}

/// What came of it.
pub(crate) struct Outcome {
    pub(crate) history: History,
    /// Sent by Lockkeeper from the start to the end; means nothing for other arms.
    commands: u64,
    time: Duration,
}

impl Outcome {
    pub(crate) fn rate(&self) -> f64 {
        self.history.len() as f64 / self.time.as_secs_f64()
    }

    pub(crate) fn commands_per_section(&self) -> f64 {
        self.commands as f64 / self.history.len() as f64
    }
}

/// Where a contest takes place.
pub(crate) struct Arena<'a> {
    pub(crate) program: &'a str,
    pub(crate) server: &'a RedisServer,
}

/// What one contest is about: its times and files.
struct Contest<'a> {
    arena: &'a Arena<'a>,
    start: u64,
    time: Duration,
}

impl Arena<'_> {
    /// Lets the sides fight for this time.
    pub(crate) fn fight(&self, sides: &[Side], time: Duration) -> Result<Outcome> {
        clear(self.server)?;
        let contest = Contest { arena: self, start: monotonic::now() + HEAD_START.as_nanos() as u64, time };
        fs::write(contest.counter(), [0; 8])?;
        contest.run(sides).with_context(|| format!("a contest of {sides:?}"))
    }

    /// What Lockkeeper sent since the server's start.
    fn sent(&self) -> Result<u64> {
        calls_of_any(self.server, &SENT)
    }
}

impl Contest<'_> {
    fn run(&self, sides: &[Side]) -> Result<Outcome> {
        let url = self.arena.server.url();
        let start = |(number, side)| Peer::start(self.arena.program, &url, &self.words(number, side));
        let peers: Vec<Peer> = sides.iter().enumerate().map(start).collect::<Result<_>>()?;
        sleep_until(self.start);
        let before = self.arena.sent()?;
        sleep_until(self.end());
        let commands = self.arena.sent()? - before;
        for peer in peers {
            let answer = peer.answer(PATIENCE)?;
            ensure!(answer.bad_release == 0, "{} releases did not release", answer.bad_release);
            ensure!(answer.fence_disorder == 0, "{} fences did not grow", answer.fence_disorder);
        }
        Ok(Outcome { history: self.history(sides)?, commands, time: self.time })
    }

    fn words(&self, number: usize, side: &Side) -> Vec<String> {
        let Side { arm, waiters, hold_ms, pause_ms } = side;
        let text = format!(
            "lock-contend arm={arm} key=hot waiters={waiters} hold_ms={hold_ms} think_ms={pause_ms} secs={} start_ns={} fences=1",
            self.time.as_secs_f64(),
            self.start
        );
        let files =
            [format!("counter={}", self.counter().display()), format!("out={}", self.out(number).display())];
        text.split(' ').map(str::to_owned).chain(files).collect()
    }

    /// Puts together what the processes saw, and checks it.
    fn history(&self, sides: &[Side]) -> Result<History> {
        let mut history = History::default();
        for process in 0..sides.len() {
            history.add(process, &fs::read_to_string(self.out(process))?, self.end())?;
        }
        let counter = fs::read(self.counter())?;
        let counted = u64::from_le_bytes(counter.try_into().ok().context("the counter has not eight bytes")?);
        history.check(counted)?;
        Ok(history)
    }

    fn end(&self) -> u64 {
        self.start + self.time.as_nanos() as u64
    }

    /// The files go with the server's folder.
    fn counter(&self) -> PathBuf {
        self.arena.server.folder().join("counter")
    }

    fn out(&self, process: usize) -> PathBuf {
        self.arena.server.folder().join(format!("process-{process}"))
    }
}

fn sleep_until(moment: u64) {
    sleep(Duration::from_nanos(moment.saturating_sub(monotonic::now())));
}
