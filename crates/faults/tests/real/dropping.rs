//! Lost replies and the black hole.

use lockkeeper_faults::DropReply;

use crate::support::{BOUND, Conn, proxied};

#[test]
fn silently_dropped_replies_leave_the_connection_open_and_the_work_done() {
    let Some((server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    assert_eq!(conn.ask("PING"), "+PONG");
    proxy.drop_replies(DropReply::Silently);
    conn.send("SET k v");
    assert!(proxy.wait_until(BOUND, |stats| stats.dropped_bytes == 5));
    assert_eq!(server.command(&["GET", "k"]).unwrap().as_str(), Some("v"));
    assert!(conn.is_silent());
    conn.send("SET k w");
    assert!(proxy.wait_until(BOUND, |stats| stats.dropped_bytes == 10));
    assert!(conn.is_silent());
    assert_eq!(proxy.connections(), 1);
    proxy.heal();
    conn.assert_closed();
    assert_eq!(Conn::open(proxy.addr()).ask("PING"), "+PONG");
}

#[test]
fn a_healthy_connection_survives_the_healing() {
    let Some((_server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    assert_eq!(conn.ask("PING"), "+PONG");
    proxy.drop_replies(DropReply::Silently);
    proxy.black_hole();
    proxy.heal();
    assert_eq!(conn.ask("PING"), "+PONG");
    assert_eq!(proxy.accepted(), 1);
}

#[test]
fn each_connection_is_closed_with_its_first_dropped_reply() {
    let Some((server, proxy)) = proxied() else { return };
    proxy.drop_replies(DropReply::ThenClose);
    for n in 1..=2 {
        let mut conn = Conn::open(proxy.addr());
        conn.send("INCR n");
        conn.assert_closed();
        assert_eq!(server.command(&["GET", "n"]).unwrap().as_int(), Some(n));
    }
    proxy.heal();
    assert_eq!(Conn::open(proxy.addr()).ask("INCR n"), ":3");
}

#[test]
fn the_next_reply_is_dropped_with_its_connection_and_no_other() {
    let Some((server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    assert_eq!(conn.ask("PING"), "+PONG");
    proxy.drop_next_reply(DropReply::ThenClose);
    conn.send("INCR n");
    conn.assert_closed();
    assert_eq!(server.command(&["GET", "n"]).unwrap().as_int(), Some(1));
    assert_eq!(Conn::open(proxy.addr()).ask("INCR n"), ":2");
}

#[test]
fn a_connection_never_delivers_a_reply_in_place_of_a_lost_one() {
    let Some((server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    let mut other = Conn::open(proxy.addr());
    assert_eq!((conn.ask("PING"), other.ask("PING")), ("+PONG".to_owned(), "+PONG".to_owned()));
    proxy.drop_next_reply(DropReply::Silently);
    conn.send("INCR n");
    assert!(proxy.wait_until(BOUND, |stats| stats.dropped_bytes == 4));
    assert_eq!(other.ask("INCR n"), ":2");
    conn.send("INCR n");
    assert!(proxy.wait_until(BOUND, |stats| stats.dropped_bytes == 8));
    assert!(conn.is_silent());
    assert_eq!(server.command(&["GET", "n"]).unwrap().as_int(), Some(3));
    proxy.heal();
    conn.assert_closed();
    assert_eq!(other.ask("INCR n"), ":4");
}

#[test]
fn replies_that_were_held_before_the_dropping_are_delivered() {
    let Some((_server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    proxy.hold_replies();
    conn.send("INCR n");
    assert!(proxy.wait_until(BOUND, |stats| stats.kept_reply_bytes == 4));
    proxy.drop_replies(DropReply::Silently);
    conn.send("INCR n");
    assert!(proxy.wait_until(BOUND, |stats| stats.dropped_bytes == 4));
    proxy.release();
    assert_eq!(conn.read_line().unwrap(), ":1");
    assert!(conn.is_silent());
}

#[test]
fn a_black_hole_swallows_both_directions() {
    let Some((server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    assert_eq!(conn.ask("PING"), "+PONG");
    // What is held falls in as well.
    proxy.hold_replies();
    conn.send("INCR n");
    assert!(proxy.wait_until(BOUND, |stats| stats.kept_reply_bytes == 4));
    proxy.black_hole();
    assert!(proxy.wait_until(BOUND, |stats| stats.kept_reply_bytes == 0 && stats.dropped_bytes == 4));
    let mut new = Conn::open(proxy.addr());
    let sent = conn.send("INCR n") + new.send("INCR n");
    assert!(proxy.wait_until(BOUND, |stats| stats.dropped_bytes == 4 + sent));
    assert_eq!(server.command(&["GET", "n"]).unwrap().as_int(), Some(1));
    assert!(conn.is_silent() && new.is_silent());
    assert_eq!(proxy.connections(), 2);
    proxy.heal();
    conn.assert_closed();
    new.assert_closed();
    assert_eq!(Conn::open(proxy.addr()).ask("INCR n"), ":2");
}

#[test]
fn the_end_of_a_server_does_not_leave_the_black_hole() {
    let Some((server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    assert_eq!(conn.ask("PING"), "+PONG");
    proxy.black_hole();
    server.kill().unwrap();
    // A connection that is made now finds no server, which must not be seen either.
    let mut new = Conn::open(proxy.addr());
    assert!(proxy.wait_until(BOUND, |stats| stats.accepted == 2));
    assert!(conn.is_silent() && new.is_silent());
    proxy.heal();
    conn.assert_closed();
    new.assert_closed();
}
