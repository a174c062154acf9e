//! The clocks: this machine's, the server's, and those of its replicas.

use std::time::Duration;

use lockkeeper::KeeperBuilder;
use tokio::task::JoinSet;

use super::finding::{Finding, Level};
use super::replication::Replica;
use crate::common::Common;

const CHECK: &str = "clock";
/// How long each replica has to answer.
const LIMIT: Duration = Duration::from_secs(1);
/// A difference that nobody needs to hear of.
const SMALL_US: u64 = 100_000;
/// A difference that hints at a clock without synchronisation.
const LARGE_US: u64 = 1_000_000;

/// By how much the server's clock is ahead of this machine's.
pub(super) fn check(ahead_us: i64) -> Finding {
    let off = ahead_us.unsigned_abs();
    let title = match off {
        ..SMALL_US => "The server's clock and this machine's agree".to_owned(),
        _ => format!("The server's clock is {} this machine's", difference(ahead_us)),
    };
    let level = level(off);
    let finding = Finding::new(CHECK, level, title);
    if level == Level::Ok {
        return finding;
    }
    finding
        .seen(
            "Leases are counted in the server's time, so a constant difference does no harm. A clock that jumps \
             ends leases early or late.",
        )
        .advice("Synchronise both (NTP, chrony), and let them be slewed rather than set.")
}

/// Compares the replicas' clocks with the primary's. Nothing without replicas.
pub(super) async fn replicas(
    common: &Common,
    url: &str,
    replicas: &[Replica],
    primary_ahead_us: i64,
) -> Option<Finding> {
    let mut asked = JoinSet::new();
    for replica in replicas {
        let name = format!("{}:{}", replica.host, replica.port);
        let builder = with_address(url, replica).and_then(|url| common.builder_for(&url).ok());
        asked.spawn(async move { (name, ahead_of_us(builder).await) });
    }
    let mut answers = asked.join_all().await;
    answers.sort();
    let worst = answers.iter().filter_map(|(_, ahead)| Some((ahead.as_ref()?) - primary_ahead_us));
    let worst = worst.map(i64::unsigned_abs).max();
    let items = answers.into_iter().map(|(name, ahead)| match ahead {
        Some(ahead) if ahead.abs_diff(primary_ahead_us) < SMALL_US => format!("{name}: agrees"),
        Some(ahead) => format!("{name}: {} the primary's", difference(ahead - primary_ahead_us)),
        None => format!("{name}: not reached from here with this URL's credentials"),
    });
    let items: Vec<String> = items.collect();
    (!items.is_empty()).then(|| compared(worst, items))
}

fn compared(worst: Option<u64>, items: Vec<String>) -> Finding {
    let level = worst.map_or(Level::Note, level);
    let title = match (worst, level) {
        (None, _) => "The replicas' clocks could not be compared",
        (_, Level::Ok) => "The replicas' clocks agree with the primary's",
        _ => "A replica's clock differs from the primary's",
    };
    let finding = Finding::new("replica-clocks", level, title).items(items);
    if level == Level::Ok {
        return finding;
    }
    finding
        .seen("After a failover, leases end by the new primary's clock: earlier or later by the difference.")
        .advice("Compare the clocks of all servers (redis-cli TIME), and synchronise them (NTP, chrony).")
}

fn level(off_us: u64) -> Level {
    if off_us < SMALL_US {
        Level::Ok
    } else if off_us < LARGE_US {
        Level::Note
    } else {
        Level::Warning
    }
}

async fn ahead_of_us(builder: Option<KeeperBuilder>) -> Option<i64> {
    let connecting = async {
        let keeper = builder?.connect().await.ok()?;
        let health = keeper.health().await;
        let ahead_us = health.round_trip.is_ok().then_some(health.server_ahead_us);
        keeper.close(Duration::ZERO).await;
        ahead_us
    };
    tokio::time::timeout(LIMIT, connecting).await.ok()?
}

/// The same URL (scheme, credentials, database) with another host and port. `None` for a unix socket.
fn with_address(url: &str, replica: &Replica) -> Option<String> {
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| scheme.starts_with("redis"))?;
    let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
    // Replicas that Sentinels see to are servers like others.
    let (is_sentinel, scheme) = match scheme.strip_suffix("+sentinel") {
        Some(scheme) => (true, scheme),
        None => (false, scheme),
    };
    let credentials =
        place.rsplit_once('@').map_or(String::new(), |(credentials, _)| format!("{credentials}@"));
    let host = if replica.host.contains(':') { format!("[{}]", replica.host) } else { replica.host.clone() };
    // After the service's name comes the database.
    let path = if is_sentinel {
        path.split('?').next()?.split_once('/').map_or("", |(_, database)| database)
    } else {
        path
    };
    Some(format!("{scheme}://{credentials}{host}:{}/{path}", replica.port))
}

fn difference(ahead_us: i64) -> String {
    let seconds = ahead_us.unsigned_abs() as f64 / 1e6;
    let size = if seconds < 1.0 { format!("{:.0} ms", seconds * 1e3) } else { format!("{seconds:.1} s") };
    format!("{size} {}", if ahead_us < 0 { "behind" } else { "ahead of" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_of_a_url_is_replaced() {
        let replica = Replica { host: "::1".into(), port: 7001 };
        let moved = with_address("rediss://al%40ce:p%2Fw@h:6379/3", &replica);
        assert_eq!(moved.as_deref(), Some("rediss://al%40ce:p%2Fw@[::1]:7001/3"));
        assert_eq!(with_address("redis://h", &replica).as_deref(), Some("redis://[::1]:7001/"));
        let moved = with_address("redis+sentinel://:pw@h1,h2:7/main/3?sentinel_password=x", &replica);
        assert_eq!(moved.as_deref(), Some("redis://:pw@[::1]:7001/3"));
        assert_eq!(with_address("unix:///run/redis.sock", &replica), None);
    }

    #[test]
    fn differences_are_graded_and_signed() {
        assert_eq!(check(-99_999).level, Level::Ok);
        assert_eq!(check(400_000).title, "The server's clock is 400 ms ahead of this machine's");
        assert_eq!(check(-90_000_000).title, "The server's clock is 90.0 s behind this machine's");
        assert_eq!(check(-90_000_000).level, Level::Warning);
    }
}
