//! A group with Sentinels.

use std::time::Duration;

use lockkeeper_faults::{SentinelGroup, ServerKind, available};

#[test]
fn a_planned_failover_keeps_what_was_replicated() {
    if !available(ServerKind::Redis) {
        return;
    }
    let group = SentinelGroup::builder().replicas(1).start().unwrap();
    assert_eq!(group.primary(), Some(0));
    group.servers()[0].command(&["SET", "a", "1"]).unwrap();
    group.wait_in_sync(0).unwrap();
    assert_eq!(group.failover().unwrap(), 1);
    group.wait_settled(1, 1).unwrap();
    assert_eq!(group.primary(), Some(1));
    let get = |at: usize, key: &str| group.servers()[at].command(&["GET", key]).unwrap();
    assert_eq!(get(1, "a").as_str(), Some("1"));
}

#[test]
fn what_a_killed_primary_wrote_after_replication_was_cut_is_lost() {
    if !available(ServerKind::Redis) {
        return;
    }
    let group = SentinelGroup::builder().replicas(1).down_after(Duration::from_millis(500)).start().unwrap();
    group.cut_replication(0).unwrap();
    assert!(!group.servers()[0].command(&["SET", "a", "1"]).unwrap().is_error(), "it still acknowledges");
    group.servers()[0].kill().unwrap();
    assert_eq!(group.wait_for_another(0).unwrap(), 1);
    assert!(group.servers()[1].command(&["GET", "a"]).unwrap().is_nil());
}
