//! Runs a program like `lockkeeper run`, with files in place of a lease: the tests of the supervision use it.
//!
//! `supervise [--lose-after-file PATH] [--verify-file PATH] [--within-ms N] [--grace-ms N] [--wait-group]
//! [--pid-file PATH] [--start-after-file PATH] PROGRAM [ARGUMENT…]`
//!
//! * `--lose-after-file`: the lock is lost when this file appears; the program must have ended `--within-ms` later.
//! * `--verify-file`: after a stop, the lock is still held if this file exists.
//! * `--pid-file`: where this process writes its number.
//! * `--start-after-file`: the lock is acquired when this file appears.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockkeeper_cli::run::{ChildSpec, Ended, Event, Signals, Supervisor};

struct Options {
    spec: ChildSpec,
    lose_after: Option<PathBuf>,
    verify: Option<PathBuf>,
    pid_file: Option<PathBuf>,
    start_after: Option<PathBuf>,
    within: Duration,
}

fn options() -> Options {
    let mut options = Options {
        spec: ChildSpec::new(""),
        lose_after: None,
        verify: None,
        pid_file: None,
        start_after: None,
        within: Duration::from_secs(5),
    };
    let mut words = std::env::args_os().skip(1);
    let value = |words: &mut dyn Iterator<Item = OsString>| words.next().expect("the option's value");
    let millis = |word: OsString| word.to_str().and_then(|word| word.parse().ok()).map(Duration::from_millis);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--lose-after-file") => options.lose_after = Some(value(&mut words).into()),
            Some("--verify-file") => options.verify = Some(value(&mut words).into()),
            Some("--pid-file") => options.pid_file = Some(value(&mut words).into()),
            Some("--start-after-file") => options.start_after = Some(value(&mut words).into()),
            Some("--within-ms") => options.within = millis(value(&mut words)).expect("a number"),
            Some("--grace-ms") => options.spec.grace = millis(value(&mut words)).expect("a number"),
            Some("--wait-group") => options.spec.wait_group = true,
            _ => {
                options.spec.program = word;
                options.spec.args = words.collect();
                break;
            }
        }
    }
    options.spec.env.push(("SUPERVISED".into(), "yes".into()));
    options
}

/// Returns when the file exists.
async fn appears(path: Option<PathBuf>) {
    let Some(path) = path else { return std::future::pending().await };
    while !path.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for the lock. The signal that ended the wait, if one did.
async fn acquire(start_after: Option<PathBuf>, signals: &mut Signals) -> Option<i32> {
    let path = start_after?;
    tokio::select! {
        () = appears(Some(path)) => None,
        signal = signals.fatal() => Some(signal),
    }
}

async fn supervise(options: Options, mut signals: Signals) -> std::io::Result<Ended> {
    let Options { spec, lose_after, verify, within, start_after, .. } = options;
    if let Some(signal) = acquire(start_after, &mut signals).await {
        return Ok(Ended::Exited(128 + signal));
    }
    let mut supervisor = Supervisor::start(spec, signals)?;
    let lost = appears(lose_after);
    tokio::pin!(lost);
    let mut is_lost = false;
    loop {
        tokio::select! {
            event = supervisor.event() => match event {
                Event::Ended(ended) => return Ok(ended),
                Event::Resumed(question) if verify.as_ref().is_some_and(|path| path.exists()) => question.go_on(),
                Event::Resumed(question) => question.stop_by(Instant::now() + within),
            },
            () = &mut lost, if !is_lost => {
                is_lost = true;
                supervisor.stop_by(Instant::now() + within);
            }
        }
    }
}

fn main() -> std::io::Result<ExitCode> {
    let options = options();
    let signals = Signals::install()?;
    if let Some(path) = &options.pid_file {
        std::fs::write(path, std::process::id().to_string())?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let ended = runtime.block_on(supervise(options, signals))?;
    ended.pass_on_interrupt();
    Ok(ExitCode::from(ended.code()))
}
