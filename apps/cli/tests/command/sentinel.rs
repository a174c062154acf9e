//! Every command against a URL that names Sentinels, over a failover.

use std::time::Duration;

use lockkeeper_faults::{SentinelGroup, ServerKind, available};

use super::bench::{Bench, HOLD, wait_for};

#[test]
fn every_command_follows_the_primary() {
    if !available(ServerKind::Redis) {
        return;
    }
    let group = SentinelGroup::builder().replicas(1).start().unwrap();
    let Some(bench) = Bench::new().map(|bench| bench.reaching(group.url())) else { return };
    let holder = bench.run(&["--lease", "10s", "k"], HOLD);
    bench.wait_for_file("holds");
    group.wait_in_sync(0).unwrap();

    let doctor = bench.lockkeeper(&["doctor"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    for part in [
        "All 3 Sentinels agree, and can fail over",
        "The replicas follow the primary",
        "bytes behind, online",
    ] {
        assert!(doctor.stdout.contains(part), "{doctor:?}");
    }
    assert!(doctor.stdout.starts_with(&group.url()), "{doctor:?}");

    assert_eq!(group.failover().unwrap(), 1);
    group.wait_settled(1, 1).unwrap();
    let listed = bench.lockkeeper(&["ls"]);
    assert!(listed.code == Some(0) && listed.stdout.contains("lock:k "), "{listed:?}");
    let shown = bench.lockkeeper(&["show", "k"]);
    assert!(shown.code == Some(0) && shown.stdout.contains("held"), "{shown:?}");
    let watched = bench.lockkeeper(&["watch", "--count", "1", "k"]);
    assert!(watched.code == Some(0) && watched.stdout.contains("held"), "{watched:?}");
    bench.touch("go");
    let output = holder.output();
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "it held it all the time");
    let forced = bench.lockkeeper(&["release", "--force", "--yes", "k"]);
    assert!(forced.stdout.contains("free") || forced.stderr.contains("free"), "{forced:?}");
}

#[test]
fn the_doctor_names_sentinels_that_are_away_or_of_another_mind() {
    if !available(ServerKind::Redis) {
        return;
    }
    let group = SentinelGroup::builder().replicas(1).start().unwrap();
    let Some(bench) = Bench::new().map(|bench| bench.reaching(group.url())) else { return };
    group.sentinels()[2].kill().unwrap();
    let warned = bench.lockkeeper(&["doctor"]);
    assert_eq!(warned.code, Some(0), "{warned:?}");
    assert!(warned.stdout.contains("1 of 3 Sentinels cannot be asked from here"), "{warned:?}");
    assert!(warned.stdout.contains(&format!("127.0.0.1:{}: ", group.sentinels()[2].port())), "{warned:?}");

    group.sentinels()[1].kill().unwrap();
    wait_for("the last one to miss the others", || {
        let seen = bench.lockkeeper(&["doctor"]);
        seen.code == Some(2) && seen.stdout.contains("The Sentinels cannot fail over: NOQUORUM")
    });
    let wrong = bench.reaching(group.url().replace("/main", "/mian")).lockkeeper(&["ls"]);
    assert!(wrong.code != Some(0) && wrong.stderr.contains("`mian`"), "{wrong:?}");
}

#[test]
fn a_run_that_starts_during_a_failover_waits_for_its_end() {
    if !available(ServerKind::Redis) {
        return;
    }
    let group = SentinelGroup::builder().replicas(1).down_after(Duration::from_secs(4)).start().unwrap();
    let Some(bench) = Bench::new().map(|bench| bench.reaching(group.url())) else { return };
    group.wait_in_sync(0).unwrap();
    group.servers()[0].pause().unwrap();
    let ran = bench.lockkeeper(&["run", "--wait-forever", "k", "--", "echo", "ran"]);
    group.servers()[0].resume().unwrap();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "ran\n"), "{ran:?}");
}

#[test]
fn what_no_waiting_mends_is_told_at_once() {
    if !available(ServerKind::Redis) {
        return;
    }
    let group = SentinelGroup::builder().replicas(1).start().unwrap();
    let Some(mut bench) = Bench::new() else { return };
    let url = group.url();
    for (url, code) in [(url.replace("://", "://:hunter2@"), 69), (url.replace("/main", "/mian"), 64)] {
        bench = bench.reaching(url);
        let seen = bench.lockkeeper(&["run", "--wait-forever", "k", "--", "true"]);
        assert_eq!(seen.code, Some(code), "{seen:?}");
        assert!(!seen.stderr.contains("hunter2"), "{seen:?}");
    }
}

#[test]
fn the_doctor_says_what_the_sentinels_say_when_the_primary_is_away() {
    if !available(ServerKind::Redis) {
        return;
    }
    let slow = Duration::from_secs(30);
    let group = SentinelGroup::builder().replicas(1).down_after(slow).start().unwrap();
    let Some(bench) = Bench::new().map(|bench| bench.reaching(group.url())) else { return };
    let primary = format!("The primary is 127.0.0.1:{}.", group.servers()[0].port());
    let well = bench.lockkeeper(&["doctor"]);
    assert!(well.stdout.contains(&primary), "{well:?}");
    group.servers()[0].kill().unwrap();
    let seen = bench.lockkeeper(&["doctor"]);
    assert_eq!(seen.code, Some(2), "{seen:?}");
    for part in
        ["The primary cannot be reached from here", "All 3 Sentinels agree, and can fail over", &primary]
    {
        assert!(seen.stdout.contains(part), "no {part} in {seen:?}");
    }
}

#[test]
fn a_primary_that_lost_its_replicas_is_no_safe_one() {
    if !available(ServerKind::Redis) {
        return;
    }
    let group = SentinelGroup::builder().replicas(1).start().unwrap();
    let Some(bench) = Bench::new().map(|bench| bench.reaching(group.url())) else { return };
    group.servers()[1].kill().unwrap();
    wait_for("the primary to miss it", || {
        bench.lockkeeper(&["doctor"]).stdout.contains("it cannot fail over now")
    });
    assert!(!bench.lockkeeper(&["doctor"]).stdout.contains("No failover can lose a lock"));
}

#[test]
fn a_sentinel_is_told_from_a_server() {
    if !available(ServerKind::Redis) {
        return;
    }
    let group = SentinelGroup::builder().replicas(1).start().unwrap();
    let url = format!("redis://127.0.0.1:{}", group.sentinels()[0].port());
    let Some(bench) = Bench::new().map(|bench| bench.reaching(url)) else { return };
    for args in [&["ls"][..], &["show", "k"], &["run", "k", "--", "true"]] {
        let seen = bench.lockkeeper(args);
        assert!(seen.code == Some(69) && seen.stderr.contains("this is a Sentinel"), "{args:?}: {seen:?}");
    }
}
