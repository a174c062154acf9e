//! What the library counts while the demo runs: read for the outcome, and offered to who scrapes.

use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::endpoint;
use crate::exit::{Failure, say};

/// The upper ends of the histograms' buckets, in seconds.
const BUCKETS: [f64; 12] = [0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0];
/// The longest time that the endpoint stays open when the demo is over, unless it is for ever.
const LONGEST_OPEN: Duration = Duration::from_secs(24 * 3600);

/// Where metrics are offered, and for how long.
#[derive(Debug, clap::Args)]
pub(super) struct MetricsArgs {
    /// Offer the metrics to Prometheus at this address while the demo runs; port 0 takes a free one. The address is
    /// printed on standard error.
    #[arg(long = "metrics", value_name = "ADDRESS:PORT")]
    address: Option<SocketAddr>,

    /// Keep them open after the demo: so long (at most 24h), or `forever`. Ctrl-C ends it.
    #[arg(long, value_name = "DURATION", requires = "address", value_parser = open)]
    keep_open: Option<Open>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    For(Duration),
    Forever,
}

fn open(text: &str) -> Result<Open, String> {
    if text == "forever" {
        return Ok(Open::Forever);
    }
    let length = crate::common::duration(text).map_err(|error| format!("{error}; or `forever`"))?;
    if length <= LONGEST_OPEN { Ok(Open::For(length)) } else { Err("at most 24h, or `forever`".to_owned()) }
}

/// Everything counted in this process.
#[derive(Clone)]
pub(super) struct Metrics(PrometheusHandle);

impl Metrics {
    /// Begins to count; before the first keeper is made.
    pub(super) fn install() -> anyhow::Result<Self> {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS)
            .context("choosing buckets")?;
        Ok(Self(builder.install_recorder().context("installing the metrics recorder")?))
    }

    /// As Prometheus reads it.
    pub(super) fn text(&self) -> String {
        self.0.render()
    }

    /// The sum of all counters of this name with all of these labels, such as `class="line"`.
    pub(super) fn count(&self, name: &str, labels: &[&str]) -> u64 {
        sum(&self.text(), name, labels)
    }
}

fn sum(text: &str, name: &str, labels: &[&str]) -> u64 {
    let series = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.split_once("} "));
    let wanted =
        series.filter(|(of, _)| labels.iter().all(|label| of.split(',').any(|known| known == *label)));
    wanted.filter_map(|(_, value)| value.trim().parse::<u64>().ok()).sum()
}

impl MetricsArgs {
    /// Opens the endpoint, if it is wanted.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub(super) fn offer(&self, metrics: &Metrics) -> anyhow::Result<()> {
        let Some(address) = self.address else { return Ok(()) };
        let refused = |error| Failure::usage(format!("--metrics {address}: {error}"));
        let bound = endpoint::open(address, metrics.clone()).map_err(refused)?;
        announce(&format!("metrics at http://{bound}/metrics"));
        Ok(())
    }

    /// Waits, if it is wanted, until the time is up or Ctrl-C is pressed.
    pub(super) async fn keep_open(&self) -> anyhow::Result<()> {
        let time = match self.keep_open {
            None => return Ok(()),
            Some(Open::For(length)) => length,
            Some(Open::Forever) => Duration::MAX,
        };
        let how_long = if time == Duration::MAX {
            String::new()
        } else {
            format!(" for {}", humantime::format_duration(time))
        };
        let mut pressed = std::pin::pin!(tokio::signal::ctrl_c());
        // It listens from its first poll on, so that is before anybody is told of it.
        if let Poll::Ready(pressed) =
            std::future::poll_fn(|context| Poll::Ready(pressed.as_mut().poll(context))).await
        {
            return Ok(pressed?);
        }
        say(&format!("the demo is over; its metrics stay open{how_long}, Ctrl-C ends it"));
        tokio::select! {
            pressed = pressed => Ok(pressed?),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }
}

fn announce(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_labels() {
        let text = "# TYPE a counter\na{class=\"x\",way=\"local\"} 3\na{class=\"x\",way=\"swap\"} 4\nab{class=\"x\"} 9\nc 1\n";
        assert_eq!(sum(text, "a", &["class=\"x\""]), 7);
        assert_eq!(sum(text, "a", &["way=\"local\"", "class=\"x\""]), 3);
        assert_eq!(sum(text, "a", &["class=\"y\""]), 0);
    }

    #[test]
    fn how_long_it_stays_open_is_bounded() {
        assert_eq!(open("5s"), Ok(Open::For(Duration::from_secs(5))));
        assert_eq!(open("forever"), Ok(Open::Forever));
        assert!(open("25h").is_err() && open("soon").unwrap_err().contains("forever"));
    }
}
