//! A primary that dies.

use std::time::{Duration, Instant};

use crate::common::{blocking, group, keeper, try_take, writable};
use crate::support::{command, ms, secs};

/// Acquisitions succeed again so soon after the new primary takes writes. A second is promised; a Sentinel alone, which asks
/// once a second, would use it up.
const AGAIN_WITHIN: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquisitions_succeed_again_within_a_second_after_the_new_primary_takes_writes() {
    let Some(group) = group(|group| group) else { return };
    let keeper = keeper(&group).await;
    let guard = keeper.lock("held").unwrap().lease(secs(30)).acquire().await.unwrap().or_busy().unwrap();
    blocking(|| group.wait_in_sync(0)).unwrap();
    blocking(|| group.servers()[0].kill()).unwrap();
    let killed = Instant::now();

    let taking = tokio::spawn({
        let keeper = keeper.clone();
        async move {
            // Each call waits for a primary within its own limit.
            loop {
                if let Ok(guard) = try_take(&keeper, "fresh").await {
                    return (guard, Instant::now());
                }
                assert!(killed.elapsed() < secs(60), "no acquisition succeeds");
                tokio::time::sleep(ms(1)).await;
            }
        }
    });
    let writable = writable(group.servers()[1..].iter()).await;
    let (fresh, taken) = tokio::time::timeout(secs(60), taking).await.unwrap().unwrap();
    let after = taken.saturating_duration_since(writable);
    println!(
        "taking writes {:?} after the kill; an acquisition succeeded {after:?} later",
        writable - killed
    );
    assert!(after < AGAIN_WITHIN, "{after:?}");

    // The held lock was replicated: it is the same one, renewed there.
    let primary = blocking(|| group.wait_for_another(0)).unwrap();
    assert!(guard.is_valid() && fresh.is_valid());
    assert!(try_take(&keeper, "held").await.is_err(), "it is held on the new primary");
    let server = &group.servers()[primary];
    assert_eq!(command(server, &["EXISTS", "lock:held", "lock:fresh"]).as_int(), Some(2));
    assert_eq!(guard.release().await.unwrap(), lockkeeper::Released::Released);
}
