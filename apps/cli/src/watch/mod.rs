//! `lockkeeper watch`: one lock, looked at again and again.

mod changes;
mod screen;
mod show;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use lockkeeper::core::lock::Inspection;
use lockkeeper::{Error, Keeper};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::common::{self, Common, Namespace, bytes_of};
use crate::exit::{INTERRUPTED, NOT_A_LOCK, code_of};
use crate::show::full_key;
use changes::Changes;
use show::Show;

/// How often one may look.
const EVERY: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Watch a lock: who holds it, who waits, and how often it changes hands.
///
/// On a terminal it redraws a few lines in place; otherwise it prints a line for each look, and with --json an object
/// for each. When the server cannot be reached it says so and goes on looking.
///
/// Changes are counted from one look to the next, so at most one for each: there may have been more. A keeper that
/// passes the lock on among its own callers does so without the server, and nobody else can see that.
///
/// Exit codes after --for or --count are those of the last look: 0; 65 the key is no lock; 69 no answer. 130 after
/// Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// The lock's name; with --exact, its whole key.
    key: OsString,

    #[command(flatten)]
    namespace: Namespace,

    /// Look so often; 100ms to 1h.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = every)]
    every: Duration,

    /// End after so long.
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    length: Option<Duration>,

    /// End after so many looks.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

/// What one look saw.
type Look = Result<Inspection, Error>;

fn every(text: &str) -> Result<Duration, String> {
    let every = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if EVERY.contains(&every) { Ok(every) } else { Err("one may look every 100ms to 1h".to_owned()) }
}

pub(crate) async fn run(args: WatchArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let name = bytes_of(&args.key, "the key")?;
    // Lazily: a server that is away is no reason not to wait for it.
    let keeper = common.builder()?.prefix(args.namespace.prefix()?)?.lazy().connect().await?;
    let mut show = Show::new(full_key(&keeper, name), args.every, common.json);
    let end = tokio::select! {
        biased;
        pressed = tokio::signal::ctrl_c() => pressed.map(|()| None).map_err(Into::into),
        end = watch(&keeper, name, &args, &mut show) => end.map(Some),
    };
    if let Ok(None) = end {
        show.end();
    }
    common::close(&keeper).await;
    Ok(end?.unwrap_or(ExitCode::from(INTERRUPTED)))
}

/// Until the time is up, or nobody reads any more.
async fn watch(keeper: &Keeper, name: &[u8], args: &WatchArgs, show: &mut Show) -> anyhow::Result<ExitCode> {
    let mut changes = Changes::default();
    let mut ticks = interval(args.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ends = args.length.and_then(|length| Instant::now().checked_add(length));
    let (mut looks, mut code) = (0, ExitCode::SUCCESS);
    loop {
        tokio::select! {
            biased;
            () = reached(ends), if looks > 0 => return Ok(code),
            _ = ticks.tick() => {}
        }
        let look = keeper.inspect(name).await;
        if let Ok(seen) = &look {
            changes.saw(seen, Instant::now().into_std());
        }
        looks += 1;
        code = ExitCode::from(code_for(&look));
        match show.look(&look, &changes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            shown => shown?,
        }
        if args.count == Some(looks) {
            return Ok(code);
        }
    }
}

async fn reached(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn code_for(look: &Look) -> u8 {
    match look {
        Ok(seen) if seen.wrong_type => NOT_A_LOCK,
        Ok(_) => 0,
        Err(error) => code_of(&error.clone().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_one_may_look_is_bounded() {
        assert_eq!(every("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(every("1h"), Ok(Duration::from_secs(3600)));
        for bad in ["99ms", "61m", "often"] {
            assert!(every(bad).is_err(), "{bad}");
        }
    }
}
