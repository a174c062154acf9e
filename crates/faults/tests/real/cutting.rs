//! The proxy as a bare line, and the line cut.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use lockkeeper_faults::FaultProxy;

use crate::support::{BOUND, Conn, proxied, wait_for};

#[test]
fn a_healthy_proxy_forwards_and_counts() {
    let Some((server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    let sent = conn.send("SET k v");
    assert_eq!(conn.read_line().unwrap(), "+OK");
    assert_eq!(server.command(&["GET", "k"]).unwrap().as_str(), Some("v"));
    assert_eq!((proxy.connections(), proxy.accepted()), (1, 1));
    assert!(proxy.wait_until(BOUND, |stats| (stats.request_bytes, stats.reply_bytes) == (sent, 5)));
    assert_eq!(proxy.bytes_forwarded(), sent + 5);
    drop(conn);
    assert!(proxy.wait_until(BOUND, |stats| stats.connections == 0));
    assert_eq!(proxy.url(), format!("redis://{}", proxy.addr()));
}

#[test]
fn cut_closes_and_refuses_until_healed() {
    let Some((server, proxy)) = proxied() else { return };
    let mut old = Conn::open(proxy.addr());
    assert_eq!(old.ask("PING"), "+PONG");
    proxy.cut();
    assert_eq!(proxy.connections(), 0);
    old.assert_closed();
    // The reset may come before, with or after the end of the connect.
    if let Ok(stream) = TcpStream::connect(proxy.addr()) {
        stream.set_read_timeout(Some(BOUND)).unwrap();
        Conn(stream).assert_closed();
    }
    assert!(proxy.wait_until(BOUND, |stats| stats.refused == 1));
    assert_eq!(proxy.accepted(), 1);
    proxy.heal();
    assert_eq!(Conn::open(proxy.addr()).ask("SET k v"), "+OK");
    assert_eq!(server.command(&["GET", "k"]).unwrap().as_str(), Some("v"));
}

#[test]
fn cut_connections_goes_on_accepting() {
    let Some((_server, proxy)) = proxied() else { return };
    // Even one that the proxy has had no time to accept.
    let mut old: Vec<Conn> = (0..8).map(|_| Conn::open(proxy.addr())).collect();
    proxy.cut_connections();
    assert_eq!((proxy.connections(), proxy.accepted()), (0, 8));
    old.iter_mut().for_each(Conn::assert_closed);
    assert_eq!(Conn::open(proxy.addr()).ask("PING"), "+PONG");
}

#[test]
fn a_cut_loses_what_was_held() {
    let Some((server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    proxy.hold_requests();
    let sent = conn.send("SET k v");
    assert!(proxy.wait_until(BOUND, |stats| stats.kept_request_bytes == sent));
    proxy.cut_connections();
    assert_eq!(proxy.stats().kept_request_bytes, 0);
    proxy.heal();
    assert_eq!(Conn::open(proxy.addr()).ask("PING"), "+PONG");
    assert!(server.command(&["GET", "k"]).unwrap().is_nil());
}

#[test]
fn the_end_of_a_client_reaches_the_server() {
    let Some((server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    assert_eq!(conn.ask("CLIENT SETNAME through-the-proxy"), "+OK");
    let listed =
        || server.command(&["CLIENT", "LIST"]).unwrap().as_str().unwrap().contains("through-the-proxy");
    assert!(listed());
    drop(conn);
    wait_for("the server sees the end", || !listed());
}

#[test]
fn the_end_of_the_server_reaches_the_client() {
    let Some((server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    assert_eq!(conn.ask("PING"), "+PONG");
    server.kill().unwrap();
    conn.assert_closed();
    drop(conn);
    Conn::open(proxy.addr()).assert_closed();
    server.restart().unwrap();
    assert_eq!(Conn::open(proxy.addr()).ask("PING"), "+PONG");
}

#[tokio::test]
async fn a_blocked_runtime_does_not_stall_the_proxy() {
    let Some((_server, proxy)) = proxied() else { return };
    let mut conn = Conn::open(proxy.addr());
    assert_eq!(conn.ask("PING"), "+PONG");
    proxy.cut();
    conn.assert_closed();
}

#[test]
fn verbs_work_from_many_threads() {
    let Some((_server, proxy)) = proxied() else { return };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    proxy.hold();
                    proxy.cut();
                    proxy.heal();
                }
            });
        }
    });
    assert_eq!(Conn::open(proxy.addr()).ask("PING"), "+PONG");
}

#[test]
fn a_dropped_proxy_is_gone() {
    let Some((_server, proxy)) = proxied() else { return };
    let address = proxy.addr();
    let mut conn = Conn::open(address);
    assert_eq!(conn.ask("PING"), "+PONG");
    proxy.hold();
    let start = Instant::now();
    drop(proxy);
    assert!(start.elapsed() < Duration::from_secs(5), "the thread did not end by itself");
    conn.assert_closed();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_proxy_without_a_server_resets() {
    // Nobody listens on port 1, and it is not given to a test that runs at the same time.
    let proxy = FaultProxy::start(([127, 0, 0, 1], 1).into()).unwrap();
    Conn::open(proxy.addr()).assert_closed();
}
