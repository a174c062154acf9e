//! Every command against a cluster.

use lockkeeper_faults::{ClusterServers, RedisServer};

use super::bench::{Bench, HOLD, Running, wait_for};

fn clustered() -> Option<(ClusterServers, Bench)> {
    let bench = Bench::new()?;
    let cluster = ClusterServers::start(&RedisServer::builder()).unwrap();
    let url = cluster.url();
    Some((cluster, bench.reaching(url)))
}

#[test]
fn locks_are_run_under_listed_shown_and_released_on_every_server() {
    let Some((_cluster, bench)) = clustered() else { return };
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        let output = bench.lockkeeper(&["run", name, "--", "true"]);
        assert_eq!(output.code, Some(0), "{name}: {output:?}");
    }
    let running = Running::start(bench.command(&["run", "a", "--", "sh", "-c", HOLD]));
    bench.wait_for_file("holds");
    let output = bench.lockkeeper(&["run", "--wait", "0s", "a", "--", "true"]);
    assert_eq!(output.code, Some(75), "{output:?}");
    let output = bench.lockkeeper(&["ls"]);
    assert!(output.stdout.contains("lock:a ") && output.stdout.ends_with("\n1 lock\n"), "{output:?}");
    let output = bench.lockkeeper(&["show", "a"]);
    assert!(output.code == Some(0) && output.stdout.starts_with("lock:a is held"), "{output:?}");
    let output = bench.lockkeeper(&["release", "a", "--force", "--yes"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    wait_for("nothing to be held", || bench.lockkeeper(&["ls"]).stdout == "0 locks\n");
    bench.touch("go");
    drop(running);
}

#[test]
fn limits_and_operations_are_reached_on_every_server() {
    let Some((_cluster, bench)) = clustered() else { return };
    for subject in ["a", "b", "c", "d"] {
        let output = bench.lockkeeper(&["limit", "check", "api", subject, "--limit", "1/h"]);
        assert_eq!(output.code, Some(0), "{output:?}");
        let output = bench.lockkeeper(&["limit", "check", "api", subject, "--limit", "1/h"]);
        assert_ne!(output.code, Some(0), "{output:?}");
    }
    let output = bench.lockkeeper(&["once", "ls"]);
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[test]
fn doctor_examines_every_server() {
    let Some((cluster, bench)) = clustered() else { return };
    let output = bench.lockkeeper(&["doctor"]);
    for part in ["A cluster: 16384 of 16384 slots served by 3 servers", "1 replica", "clock"] {
        assert!(output.stdout.contains(part), "{part}: {output:?}");
    }
    cluster.nodes()[1].command(&["CONFIG", "SET", "maxmemory", "100mb"]).unwrap();
    cluster.nodes()[1].command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
    let output = bench.lockkeeper(&["doctor"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    let place = format!("on 127.0.0.1:{}", cluster.nodes()[1].port());
    assert!(output.stdout.contains("allkeys-lru") && output.stdout.contains(&place), "{output:?}");
}

#[test]
fn doctor_says_which_server_is_away_and_what_the_others_say() {
    let Some((cluster, bench)) = clustered() else { return };
    let away = &cluster.nodes()[1];
    away.pause().unwrap();
    let output = bench.lockkeeper(&["doctor"]);
    away.resume().unwrap();
    assert_eq!(output.code, Some(2), "{output:?}");
    for part in
        ["1 of 3 servers cannot be reached from here", &format!("127.0.0.1:{}", away.port()), "User default"]
    {
        assert!(output.stdout.contains(part), "{part}: {output:?}");
    }
}

#[test]
fn a_listing_of_one_node_says_that_it_is_a_part() {
    let Some((cluster, bench)) = clustered() else { return };
    let part = "one node of a cluster";
    for args in [&["ls"][..], &["once", "ls"]] {
        let whole = bench.lockkeeper(args);
        assert!(whole.code == Some(0) && !whole.stderr.contains(part), "{args:?}: {whole:?}");
    }
    let bench = bench.reaching(format!("redis://127.0.0.1:{}", cluster.nodes()[0].port()));
    for args in [&["ls"][..], &["once", "ls"]] {
        let output = bench.lockkeeper(args);
        assert!(output.code == Some(0) && output.stderr.contains(part), "{args:?}: {output:?}");
    }
}
