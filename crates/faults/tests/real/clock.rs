//! A server's wall clock in a test's hands.

use std::time::Duration;

use lockkeeper_faults::{FakeClock, RedisServer, ServerKind, available, faketime_available};

const START: u64 = 1_704_164_645_000_000;

/// A server of each kind.
fn each_server(test: impl Fn(&RedisServer, &FakeClock)) {
    if !faketime_available() {
        return;
    }
    for kind in ServerKind::ALL {
        if available(kind) {
            let clock = FakeClock::new(START).unwrap();
            let server = RedisServer::builder().kind(kind).faketime(&clock).start().unwrap();
            test(&server, &clock);
        }
    }
}

fn int(server: &RedisServer, command: &[&str]) -> i64 {
    server.command(command).unwrap().as_int().unwrap()
}

fn time(server: &RedisServer) -> u64 {
    let reply = server.command(&["TIME"]).unwrap();
    let parts: Vec<i64> = reply.as_array().unwrap().iter().map(|part| part.as_int().unwrap()).collect();
    u64::try_from(parts[0] * 1_000_000 + parts[1]).unwrap()
}

#[test]
fn the_server_shows_the_set_time_to_the_microsecond() {
    each_server(|server, clock| {
        assert_eq!(time(server), START);
        // Fractions that a floating-point number cannot hold, and large steps both ways.
        for n in 0..200 {
            let micros = 1_000_000_000_000_000 + n * 14_999_999_999_989;
            clock.set(micros).unwrap();
            assert_eq!(time(server), micros);
        }
    });
}

#[test]
fn the_clock_stands_still_until_it_is_moved() {
    each_server(|server, clock| {
        let script = "local a = redis.call('TIME') for n = 1, 300000 do a[3] = n end return a[1] .. a[2]";
        let before = server.command(&["EVAL", script, "0"]).unwrap();
        assert_eq!(server.command(&["EVAL", script, "0"]).unwrap(), before);
        assert_eq!(clock.advance(Duration::from_millis(1500)).unwrap(), START + 1_500_000);
        assert_eq!(clock.now(), START + 1_500_000);
        assert_eq!(time(server), START + 1_500_000);
    });
}

#[test]
fn a_key_lives_up_to_and_with_its_expiry_millisecond() {
    each_server(|server, clock| {
        assert_eq!(server.command(&["SET", "k", "v", "PX", "1000"]).unwrap().as_str(), Some("OK"));
        for (millis, left) in [(0, 1000), (1, 999), (500, 500), (999, 1), (1000, 0)] {
            clock.set(START + millis * 1000).unwrap();
            assert_eq!(int(server, &["PTTL", "k"]), left, "after {millis} ms");
            assert_eq!(int(server, &["EXISTS", "k"]), 1, "after {millis} ms");
        }
        clock.set(START + 1_000_999).unwrap();
        assert_eq!((int(server, &["PTTL", "k"]), int(server, &["EXISTS", "k"])), (0, 1));
        clock.set(START + 1_001_000).unwrap();
        assert_eq!((int(server, &["PTTL", "k"]), int(server, &["EXISTS", "k"])), (-2, 0));
    });
}

#[test]
fn a_clock_that_is_set_back_lengthens_a_key() {
    each_server(|server, clock| {
        server.command(&["SET", "k", "v", "PX", "1000"]).unwrap();
        clock.set(START - 60_000_000).unwrap();
        assert_eq!(int(server, &["PTTL", "k"]), 61_000);
    });
}

#[test]
fn a_restart_keeps_the_clock() {
    each_server(|server, clock| {
        clock.advance(Duration::from_secs(7)).unwrap();
        server.restart().unwrap();
        assert_eq!(time(server), START + 7_000_000);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_server_leaves_no_shared_memory() {
    each_server(|server, _| {
        let pid = server.pid().unwrap();
        server.kill().unwrap();
        assert!(!std::path::Path::new(&format!("/dev/shm/faketime_shm_{pid}")).exists());
        assert!(!std::path::Path::new(&format!("/dev/shm/sem.faketime_sem_{pid}")).exists());
    });
}
