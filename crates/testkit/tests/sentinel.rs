//! A primary and a replica with three Sentinels obey every contract, as one server does.

use lockkeeper_faults::ServerKind;
use lockkeeper_testkit::arm::SteppedRedis;
use lockkeeper_testkit::{conformance, limits, once, permits};

/// Its clock can be stepped. The Sentinels' clocks are real: they do not see leases.
const KIND: ServerKind = ServerKind::Valkey;

#[tokio::test]
async fn locks_permits_limits_and_records_obey_their_contracts_with_sentinels() {
    let Some(arm) = SteppedRedis::start_with_sentinels(KIND).await else { return };
    conformance::all(&arm).await;
    permits::conformance::all(&arm).await;
    once::conformance::all(&arm).await;
    // The last: it leaves the clock between two milliseconds.
    limits::conformance::all(&arm).await;
}
