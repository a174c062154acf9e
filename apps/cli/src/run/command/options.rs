//! The options of `lockkeeper run`: as typed, then checked and resolved.

use std::ffi::OsString;
use std::time::Duration;

use lockkeeper::core::lock::{Lease, MIN_RENEWED_LEASE};
use lockkeeper::{Durability, Error, Keeper, KeeperBuilder, Lock};

use crate::common::{self, Common, Namespace, bytes_of, is_found_by_asking, rounded};
use crate::exit::Failure;

/// How long we wait for a busy lock unless something else is said.
const DEFAULT_WAIT: Duration = Duration::from_secs(10);
/// How long the command has between SIGTERM and SIGKILL unless something else is said.
const DEFAULT_GRACE: Duration = Duration::from_secs(5);
/// At most this part of the lease is grace. A lease that is renewed in time has two thirds left at least; the rest
/// is for renewals that have to be tried again.
const GRACE_SHARE: u32 = 4;

const AFTER_HELP: &str = "\
The command finds in its environment:
  LOCKKEEPER_KEY       the whole key on the server (for `lockkeeper show --exact`)
  LOCKKEEPER_TOKEN     what proves the ownership: a secret
  LOCKKEEPER_FENCE     the fencing number: let the resource refuse smaller ones
  LOCKKEEPER_LEASE_MS  the length of the lease

Exit codes: that of the command (128 + n if signal n killed it, 127 if there is no such command, 126 if it cannot be \
executed), or
  64  wrong usage
  65  the key holds something that is not a lock
  69  the server is unreachable, refuses, or cannot meet --durability; the command did not run
  75  the lock is busy; the command did not run
  76  the lock was lost, or held for longer than --max-hold; the command was ended

The command is in a process group of its own, which gets the signals that we get. The lock is released when the \
command itself has ended; a daemon it leaves behind works without a lock (see --wait-group).";

/// Run a command under a lock.
///
/// Takes the lock, runs the command, renews the lease while it runs, and releases the lock. When the lease cannot be
/// renewed, the command gets SIGTERM before it ends, and SIGKILL at the latest when it ends.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    namespace: Namespace,

    /// The length of the lease: how long others wait at most if this machine dies. It is renewed every third of it.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = common::duration)]
    lease: Duration,

    /// Wait for a busy lock at most this long [default: 10s].
    #[arg(long, value_name = "DURATION", value_parser = common::duration)]
    wait: Option<Duration>,

    /// Do not wait for a busy lock.
    #[arg(long = "try", conflicts_with = "wait")]
    once: bool,

    /// Wait for a busy lock without a limit.
    #[arg(long, conflicts_with_all = ["wait", "once"])]
    wait_forever: bool,

    /// When the lock is busy, exit with 0 and say nothing. Does not wait unless told to.
    #[arg(short = 'x', long)]
    skip_if_busy: bool,

    /// Keep the lock at least this long from its acquisition, after the command has ended if need be.
    ///
    /// For a short job that cron starts on several hosts whose clocks differ: with a time above the difference, one
    /// of them runs it. A signal (HUP, INT, QUIT, TERM) ends the keeping, and the exit code is the command's. A
    /// command that could not be started keeps nothing.
    #[arg(long, value_name = "DURATION", value_parser = common::duration)]
    min_hold: Option<Duration>,

    /// End the command when it has held the lock for this long: SIGTERM then, SIGKILL after the grace period.
    #[arg(long, value_name = "DURATION", value_parser = common::duration)]
    max_hold: Option<Duration>,

    /// How long the command has between SIGTERM and SIGKILL, at most a quarter of the lease [default: 5s, or a
    /// quarter of the lease if that is less].
    #[arg(long, value_name = "DURATION", value_parser = common::duration)]
    grace: Option<Duration>,

    /// Hold the lock until all processes of the command's process group have ended.
    #[arg(long)]
    wait_group: bool,

    /// Who must have the lock before it counts: `accepted` (the primary), `replicas=N`, `replicas=all`, `fsync` (the primary's
    /// disk) or `fsync+replicas=N`. The same goes for each renewal.
    ///
    /// A lock that too few have in time is given back, and the command does not run. No level makes a loss impossible:
    /// with `replicas=1`, another replica may be promoted.
    #[arg(long, value_name = "LEVEL", default_value_t, value_parser = durability)]
    durability: Durability,

    /// A label that others see beside host and process.
    #[arg(long, value_name = "LABEL")]
    owner: Option<String>,

    /// The lock's name; any bytes will do.
    key: OsString,

    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What is to be done, checked.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) name: Vec<u8>,
    pub(super) lease: Duration,
    /// `None`: without a limit.
    wait: Option<Duration>,
    pub(super) skip_if_busy: bool,
    pub(super) min_hold: Duration,
    pub(super) max_hold: Option<Duration>,
    pub(super) grace: Duration,
    durability: Durability,
    pub(super) wait_group: bool,
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
}

impl RunArgs {
    /// Checks what can be checked without the server.
    pub(super) fn resolve(self, common: &Common) -> anyhow::Result<(Plan, KeeperBuilder)> {
        if common.json {
            return Err(Failure::usage("--json has no meaning for run: its output is the command's").into());
        }
        let mut builder = common.builder()?.prefix(self.namespace.prefix()?)?;
        // Connecting counts as waiting there: a failover that is under way ends.
        if is_found_by_asking(&common.url()?) {
            builder = builder.lazy();
        }
        if let Some(label) = &self.owner {
            builder = builder.owner(label);
        }
        Ok((self.plan()?, builder))
    }

    fn plan(self) -> anyhow::Result<Plan> {
        if self.lease < MIN_RENEWED_LEASE {
            let (lease, least) = (humantime::format_duration(self.lease), rounded(MIN_RENEWED_LEASE));
            return Err(Failure::usage(format!("--lease {lease} is too short: at least {least}")).into());
        }
        let lease = Lease::renewed(self.lease)?.as_duration();
        let (min_hold, max_hold) = (self.min_hold.unwrap_or_default(), self.max_hold);
        if max_hold.is_some_and(|max_hold| min_hold > max_hold) {
            return Err(Failure::usage("--min-hold is longer than --max-hold").into());
        }
        let wait = if self.wait_forever {
            None
        } else if self.once || (self.skip_if_busy && self.wait.is_none()) {
            Some(Duration::ZERO)
        } else {
            Some(self.wait.unwrap_or(DEFAULT_WAIT))
        };
        let mut words = self.command.into_iter();
        Ok(Plan {
            name: bytes_of(&self.key, "the key")?.to_vec(),
            lease,
            wait,
            skip_if_busy: self.skip_if_busy,
            min_hold,
            max_hold,
            grace: grace(self.grace, lease)?,
            durability: self.durability,
            wait_group: self.wait_group,
            program: words.next().ok_or_else(|| Failure::usage("no command is given"))?,
            args: words.collect(),
        })
    }
}

fn durability(text: &str) -> Result<Durability, String> {
    text.parse().map_err(|error: Error| error.detail().to_owned())
}

fn grace(asked: Option<Duration>, lease: Duration) -> anyhow::Result<Duration> {
    let most = lease / GRACE_SHARE;
    match asked {
        Some(asked) if asked > most => Err(Failure::usage(format!(
            "--grace {} is more than a quarter of the lease ({}): the command is ended before the lease is, and the rest is needed for renewals",
            rounded(asked),
            rounded(most)
        ))
        .into()),
        Some(asked) => Ok(asked),
        None => Ok(DEFAULT_GRACE.min(most)),
    }
}

impl Plan {
    /// The lock that is asked for.
    pub(super) fn lock(&self, keeper: &Keeper) -> Result<Lock, lockkeeper::Error> {
        // The bound on holding is ours: the command is to end while the lease still runs.
        let lock = keeper.lock(&self.name)?.lease(self.lease).max_hold(None).durability(self.durability);
        Ok(match self.wait {
            Some(limit) => lock.wait(limit),
            None => lock.wait_forever(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn grace_is_at_most_a_quarter_of_the_lease() {
        assert_eq!(grace(None, seconds(60)).unwrap(), seconds(5));
        assert_eq!(grace(None, seconds(2)).unwrap(), Duration::from_millis(500));
        assert_eq!(grace(Some(seconds(7)), seconds(28)).unwrap(), seconds(7));
        assert!(grace(Some(seconds(8)), seconds(28)).is_err());
    }
}
