//! Held and slow lines.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::{BOUND, Conn, proxied};

#[test]
fn held_requests_do_not_reach_the_server_until_released() {
    let Some((server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    assert_eq!(conn.ask("PING"), "+PONG");
    proxy.hold_requests();
    let mut sent = 0;
    for n in 0..5 {
        sent += conn.send(&format!("RPUSH list {n}"));
        assert!(proxy.wait_until(BOUND, |stats| stats.kept_request_bytes == sent));
    }
    assert_eq!(server.command(&["LLEN", "list"]).unwrap().as_int(), Some(0));
    proxy.release();
    for n in 1..=5 {
        assert_eq!(conn.read_line().unwrap(), format!(":{n}"));
    }
    let list = server.command(&["LRANGE", "list", "0", "-1"]).unwrap();
    let list: Vec<_> = list.as_array().unwrap().iter().map(|item| item.as_int().unwrap()).collect();
    assert_eq!(list, [0, 1, 2, 3, 4]);
}

#[test]
fn held_replies_leave_the_work_done() {
    let Some((server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    assert_eq!(conn.ask("PING"), "+PONG");
    proxy.hold_replies();
    conn.send("SET k v");
    assert!(proxy.wait_until(BOUND, |stats| stats.kept_reply_bytes == 5));
    assert_eq!(server.command(&["GET", "k"]).unwrap().as_str(), Some("v"));
    assert!(conn.is_silent());
    proxy.release();
    assert_eq!(conn.read_line().unwrap(), "+OK");
    assert_eq!(conn.ask("PING"), "+PONG");
}

#[test]
fn new_connections_are_held_as_well() {
    let Some((server, proxy)) = proxied() else { return };
    proxy.hold();
    let mut first = Conn::open(proxy.addr());
    let mut second = Conn::open(proxy.addr());
    let sent = first.send("SET first 1") + second.send("SET second 2");
    assert!(proxy.wait_until(BOUND, |stats| stats.accepted == 2 && stats.kept_request_bytes == sent));
    assert_eq!(server.command(&["DBSIZE"]).unwrap().as_int(), Some(0));
    proxy.release();
    assert_eq!(first.read_line().unwrap(), "+OK");
    assert_eq!(second.read_line().unwrap(), "+OK");
    assert_eq!(server.command(&["DBSIZE"]).unwrap().as_int(), Some(2));
}

#[test]
fn the_held_request_of_a_dead_client_still_arrives() {
    let Some((server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    assert_eq!(conn.ask("PING"), "+PONG");
    proxy.hold();
    let sent = conn.send("SET k v");
    assert!(proxy.wait_until(BOUND, |stats| stats.kept_request_bytes == sent));
    drop(conn);
    assert_eq!(proxy.connections(), 1);
    assert!(server.command(&["GET", "k"]).unwrap().is_nil());
    proxy.release();
    assert!(proxy.wait_until(BOUND, |stats| stats.connections == 0));
    assert_eq!(server.command(&["GET", "k"]).unwrap().as_str(), Some("v"));
}

#[test]
fn a_full_hold_makes_the_sender_wait_and_loses_nothing() {
    const MEBIBYTE: usize = 1024 * 1024;
    let Some((server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    proxy.hold_requests();
    let mut writer = conn.0.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for n in 0..40 {
            let head = format!("*3\r\n$3\r\nSET\r\n$2\r\n{n:02}\r\n${MEBIBYTE}\r\n");
            writer.write_all(head.as_bytes()).unwrap();
            writer.write_all(&vec![b'x'; MEBIBYTE]).unwrap();
            writer.write_all(b"\r\n").unwrap();
        }
    });
    let full = 16 * MEBIBYTE as u64;
    assert!(proxy.wait_until(BOUND, |stats| stats.kept_request_bytes >= full));
    assert!(proxy.stats().kept_request_bytes < full + 64 * 1024);
    assert!(!sender.is_finished(), "the sender did not have to wait");
    proxy.release();
    for _ in 0..40 {
        assert_eq!(conn.read_line().unwrap(), "+OK");
    }
    sender.join().unwrap();
    assert_eq!(server.command(&["DBSIZE"]).unwrap().as_int(), Some(40));
    assert!(proxy.wait_until(BOUND, |stats| stats.kept_request_bytes == 0));
}

#[test]
fn a_slow_line_delays_in_each_direction() {
    let Some((_server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    assert_eq!(conn.ask("PING"), "+PONG");
    proxy.slow(Duration::from_millis(150));
    let start = Instant::now();
    assert_eq!(conn.ask("PING"), "+PONG");
    assert!(start.elapsed() >= Duration::from_millis(300), "{:?}", start.elapsed());
}

#[test]
fn a_slow_line_carries_many_chunks_at_once_and_in_order() {
    let Some((_server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    let delay = Duration::from_secs(1);
    proxy.slow(delay);
    let start = Instant::now();
    let mut sent = 0;
    for _ in 0..10 {
        sent += conn.send("INCR n");
        let arrived =
            |stats: &lockkeeper_faults::Stats| stats.kept_request_bytes + stats.request_bytes == sent;
        assert!(proxy.wait_until(BOUND, arrived));
    }
    for n in 1..=10 {
        assert_eq!(conn.read_line().unwrap(), format!(":{n}"));
    }
    assert!(start.elapsed() >= 2 * delay);
    // One chunk at a time would take ten delays for the requests alone.
    assert!(start.elapsed() < 9 * delay, "{:?}", start.elapsed());
}

#[test]
fn a_line_that_is_slow_no_more_delivers_at_once() {
    let Some((_server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    proxy.slow(Duration::MAX);
    let sent = conn.send("PING");
    assert!(proxy.wait_until(BOUND, |stats| stats.kept_request_bytes == sent));
    assert!(conn.is_silent());
    proxy.slow(Duration::ZERO);
    assert_eq!(conn.read_line().unwrap(), "+PONG");
}
