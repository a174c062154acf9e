//! A primary and its replicas.

use std::thread;
use std::time::{Duration, Instant};

use lockkeeper_faults::{RedisServer, Replicated, ServerKind, available};

#[test]
fn a_replica_has_what_was_written_and_nothing_that_was_written_while_its_line_was_held() {
    if !available(ServerKind::Redis) {
        return;
    }
    let group = Replicated::start(&RedisServer::builder(), 2).unwrap();
    let get = |at: usize| group.replicas()[at].server.command(&["GET", "a"]).unwrap();
    group.primary().command(&["SET", "a", "1"]).unwrap();
    group.wait_in_sync().unwrap();
    assert_eq!((get(0).as_str(), get(1).as_str()), (Some("1"), Some("1")));

    group.replicas()[0].line.hold();
    group.primary().command(&["SET", "a", "2"]).unwrap();
    assert!(soon(|| get(1).as_str() == Some("2")));
    assert_eq!(get(0).as_str(), Some("1"));
    group.replicas()[0].line.release();
    group.wait_in_sync().unwrap();
    assert_eq!(get(0).as_str(), Some("2"));
}

/// Looks until it is so, at most ten seconds.
fn soon(mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}
