//! How often one looks, and for how long.

use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::common;

/// How often one may look.
const EVERY: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Options of what looks again and again.
#[derive(Debug, clap::Args)]
pub(crate) struct Pace {
    /// Look so often; 100ms to 1h.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = every)]
    pub(crate) every: Duration,

    /// End after so long.
    #[arg(long = "for", value_name = "DURATION", value_parser = common::duration)]
    length: Option<Duration>,

    /// End after so many looks.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

fn every(text: &str) -> Result<Duration, String> {
    let every = common::duration(text)?;
    if EVERY.contains(&every) { Ok(every) } else { Err("one may look every 100ms to 1h".to_owned()) }
}

impl Pace {
    /// Looks until the time is up, nobody reads any more, or a look fails. The code is that of the last look.
    ///
    /// # Errors
    /// Those of `look`, but for a reader that has gone away.
    pub(crate) async fn keep(
        &self,
        mut look: impl AsyncFnMut() -> anyhow::Result<u8>,
    ) -> anyhow::Result<ExitCode> {
        let mut ticks = interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ends = self.length.and_then(|length| Instant::now().checked_add(length));
        let (mut looks, mut code) = (0, ExitCode::SUCCESS);
        loop {
            tokio::select! {
                biased;
                () = reached(ends), if looks > 0 => return Ok(code),
                _ = ticks.tick() => {}
            }
            looks += 1;
            code = match look().await {
                Err(error) if nobody_reads(&error) => return Ok(ExitCode::SUCCESS),
                looked => ExitCode::from(looked?),
            };
            if self.count == Some(looks) {
                return Ok(code);
            }
        }
    }
}

fn nobody_reads(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

async fn reached(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
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
