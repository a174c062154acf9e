//! From the lock to the exit code.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockkeeper::{Acquired, Keeper, KeeperBuilder, LockGuard, Released};

use super::options::Plan;
use super::watch::{Watch, Watched};
use crate::common;
use crate::exit::{BUSY, LOST, say};
use crate::run::{AskedToEnd, ChildSpec, Ended, Interrupt, Signals, Supervisor};

/// The variables that the command finds.
const KEY: &str = "LOCKKEEPER_KEY";
const TOKEN: &str = "LOCKKEEPER_TOKEN";
const FENCE: &str = "LOCKKEEPER_FENCE";
const LEASE_MS: &str = "LOCKKEEPER_LEASE_MS";

/// How it ended: our exit code, and whether a Ctrl-C is to be passed on.
struct Finish {
    code: u8,
    ended: Option<Ended>,
}

/// Does everything. A signal before the command runs ends it, and leaves no lock.
pub(super) async fn run(
    plan: Plan,
    builder: KeeperBuilder,
    mut signals: Signals,
) -> anyhow::Result<ExitCode> {
    let keeper = tokio::select! {
        biased;
        signal = signals.fatal() => return Ok(Finish::of_signal(signal).exit()),
        keeper = builder.connect() => keeper?,
    };
    let finish = locked(&plan, &keeper, signals).await;
    common::close(&keeper).await;
    Ok(finish?.exit())
}

async fn locked(plan: &Plan, keeper: &Keeper, mut signals: Signals) -> anyhow::Result<Finish> {
    common::refuse_sentinel(keeper).await?;
    let lock = plan.lock(keeper)?;
    let acquired = tokio::select! {
        biased;
        signal = signals.fatal() => return Ok(Finish::of_signal(signal)),
        acquired = lock.acquire() => acquired?,
    };
    match acquired {
        Acquired::Held(guard) => held(plan, keeper, guard, signals).await,
        Acquired::Busy(_) if plan.skip_if_busy => Ok(Finish::of_code(0)),
        Acquired::Busy(busy) => {
            let left = busy.remaining.map_or_else(|| "no expiry".to_owned(), common::rounded);
            say(&format!("{} is busy: held by {}, {left} left", busy.key, busy.holder));
            Ok(Finish::of_code(BUSY))
        }
    }
}

async fn held(plan: &Plan, keeper: &Keeper, guard: LockGuard, signals: Signals) -> anyhow::Result<Finish> {
    let acquired = Instant::now();
    let asked = signals.asked_to_end();
    let supervisor = match Supervisor::start(spec(plan, keeper, &guard), signals) {
        Ok(supervisor) => supervisor,
        Err(error) => {
            release(guard).await;
            return Err(error.into());
        }
    };
    let watched = Watch::new(plan, &guard, supervisor, acquired).run().await;
    let is_lost = watched.was_stopped || !guard.is_valid();
    if is_lost && !watched.was_stopped {
        let reason = guard.loss().map_or_else(|| "the lease ended".to_owned(), |reason| reason.to_string());
        say(&format!("{} was lost before the command ended: {reason}", guard.key()));
    }
    if !is_lost && watched.may_be_kept() {
        keep(&guard, plan.min_hold.saturating_sub(acquired.elapsed()), asked).await?;
    }
    complain(plan, &watched.ended);
    release_and_tell(guard, is_lost).await;
    let code = if is_lost { LOST } else { watched.ended.code() };
    Ok(Finish { code, ended: (!is_lost).then_some(watched.ended) })
}

fn spec(plan: &Plan, keeper: &Keeper, guard: &LockGuard) -> ChildSpec {
    let mut spec = ChildSpec::new(&plan.program);
    spec.args.clone_from(&plan.args);
    spec.wait_group = plan.wait_group;
    spec.grace = plan.grace;
    // Empty where the store gives none, so that no other lock's is inherited.
    let fence = guard.fence().map(|fence| fence.to_string()).unwrap_or_default();
    spec.env = vec![
        (KEY.into(), os_string(&[keeper.prefix(), &plan.name].concat())),
        (TOKEN.into(), os_string(guard.token().as_bytes())),
        (FENCE.into(), fence.into()),
        (LEASE_MS.into(), plan.lease.as_millis().to_string().into()),
    ];
    spec
}

fn os_string(bytes: &[u8]) -> OsString {
    #[cfg(unix)]
    return <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes).to_owned();
    #[cfg(not(unix))]
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// Keeps the lock for `left`, until it is lost, or until a signal asks us to end. One that was passed to the command
/// counts as well.
async fn keep(guard: &LockGuard, left: Duration, mut asked: AskedToEnd) -> std::io::Result<()> {
    if left.is_zero() {
        return Ok(());
    }
    // The command had the first ones. Without these, Ctrl-Z would do nothing.
    let mut signals = Signals::install()?;
    let work = async {
        loop {
            signals.fatal().await;
        }
    };
    tokio::select! {
        () = tokio::time::sleep(left) => {}
        _ = guard.lost() => {}
        () = asked.wait() => {}
        () = work => {}
    }
    Ok(())
}

/// Says why the command did not run.
fn complain(plan: &Plan, ended: &Ended) {
    let program = plan.program.display();
    match ended {
        Ended::NotFound => say(&format!("{program}: there is no such command")),
        Ended::NotExecutable => say(&format!("{program}: it cannot be executed: permission denied")),
        Ended::Failed(error) => say(&format!("{program}: it cannot be executed: {error}")),
        Ended::Exited(_) | Ended::Signalled { .. } => {}
    }
}

async fn release_and_tell(guard: LockGuard, is_known_lost: bool) {
    let key = guard.key();
    match release(guard).await {
        None => {}
        // It was said before, and what the server answers to it now adds nothing.
        Some(_) if is_known_lost => {}
        Some(trouble) => say(&format!("{key} when it was released: {trouble}")),
    }
}

/// Releases. What is worth a warning, if anything: the command had ended, so its exit code stands.
async fn release(guard: LockGuard) -> Option<String> {
    match guard.release().await {
        Ok(Released::Released) => None,
        Ok(Released::Expired) => {
            Some("nobody held it any more: its lease had ended, or something removed it".to_owned())
        }
        Ok(Released::HeldByAnother(holder)) => Some(format!("it was held by another: {holder}")),
        Ok(_) => Some("the server did not answer; it ends with its lease at the latest".to_owned()),
        Err(error) => Some(format!("{error}; it ends with its lease at the latest")),
    }
}

impl Finish {
    fn of_code(code: u8) -> Self {
        Self { code, ended: None }
    }

    /// A signal ended us before there was a command.
    fn of_signal(signal: i32) -> Self {
        // To a shell script, Ctrl-C has to be a death by SIGINT, as it is with a command.
        let interrupt = if is_interrupt(signal) { Interrupt::Job } else { Interrupt::None };
        let ended = Ended::Signalled { signal, interrupt };
        Self { code: ended.code(), ended: Some(ended) }
    }

    fn exit(self) -> ExitCode {
        if let Some(ended) = self.ended {
            ended.pass_on_interrupt();
        }
        ExitCode::from(self.code)
    }
}

fn is_interrupt(signal: i32) -> bool {
    const SIGINT: i32 = 2;
    signal == SIGINT
}

impl Watched {
    /// Whether the lock is to be kept for `--min-hold`: there was a command, and no Ctrl-C ended it.
    fn may_be_kept(&self) -> bool {
        match self.ended {
            Ended::Exited(_) => true,
            Ended::Signalled { interrupt, .. } => interrupt == Interrupt::None,
            Ended::NotFound | Ended::NotExecutable | Ended::Failed(_) => false,
        }
    }
}
