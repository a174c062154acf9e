//! Servers of each kind and configuration.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use lockkeeper_faults::{RedisServer, Reply, ServerBuilder, ServerError, ServerKind, available, find_binary};

use crate::support::Conn;

fn start(builder: ServerBuilder) -> Option<RedisServer> {
    available(ServerKind::Redis).then(|| builder.start().unwrap())
}

fn address(server: &RedisServer) -> std::net::SocketAddr {
    ([127, 0, 0, 1], server.port()).into()
}

#[test]
fn every_kind_starts_and_answers() {
    for kind in ServerKind::ALL.into_iter().filter(|kind| available(*kind)) {
        let server = RedisServer::builder().kind(kind).start().unwrap();
        assert_eq!(server.command(&["PING"]).unwrap(), Reply::Status("PONG".to_owned()));
        assert!(server.is_running());
        assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
        let info = server.command(&["INFO", "server"]).unwrap();
        let pid = format!("process_id:{}\r\n", server.pid().unwrap());
        assert!(info.as_str().unwrap().contains(&pid), "{kind}");
        assert!(find_binary(kind).unwrap().is_absolute());
    }
}

#[test]
fn replies_of_every_type_are_read() {
    let Some(server) = start(RedisServer::builder()) else { return };
    let binary: &[u8] = b"\x00\r\n\xff";
    assert_eq!(server.command_bytes(&[b"SET", b"k", binary]).unwrap().as_str(), Some("OK"));
    assert_eq!(server.command(&["GET", "k"]).unwrap().as_bytes(), Some(binary));
    assert!(server.command(&["GET", "none"]).unwrap().is_nil());
    assert!(server.command(&["NONSENSE"]).unwrap().is_error());
    assert_eq!(server.command(&["DBSIZE"]).unwrap(), Reply::Int(1));
    let nested = server.command(&["EVAL", "return {1, {'a', false}}", "0"]).unwrap();
    let inner = Reply::Array(vec![Reply::Bytes(b"a".to_vec()), Reply::Nil]);
    assert_eq!(nested, Reply::Array(vec![Reply::Int(1), inner]));
}

#[test]
fn options_reach_the_server() {
    let builder = RedisServer::builder()
        .config("maxmemory-policy", "allkeys-lru")
        .config("save", "100 1")
        .config("client-output-buffer-limit", "pubsub 0 0 0");
    let Some(server) = start(builder) else { return };
    let get = |key| server.command(&["CONFIG", "GET", key]).unwrap().as_array().unwrap()[1].clone();
    assert_eq!(get("maxmemory-policy").as_str(), Some("allkeys-lru"));
    assert_eq!(get("save").as_str(), Some("100 1"));
    assert!(get("client-output-buffer-limit").as_str().unwrap().ends_with("pubsub 0 0 0"));
    assert_eq!(get("appendonly").as_str(), Some("no"));
}

#[test]
fn a_server_with_a_password_is_ready_and_closed_to_strangers() {
    let Some(server) = start(RedisServer::builder().password("open sesame")) else { return };
    assert_eq!(server.command(&["SET", "k", "v"]).unwrap().as_str(), Some("OK"));
    assert!(Conn::open(address(&server)).ask("PING").starts_with("-NOAUTH"));
}

#[test]
fn a_unix_socket_goes_with_tcp_or_alone() {
    let ping = |server: &RedisServer| {
        let mut stream = UnixStream::connect(server.socket_path().unwrap()).unwrap();
        stream.write_all(b"PING\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert_eq!(line, "+PONG\r\n");
    };
    let Some(both) = start(RedisServer::builder().unix_socket()) else { return };
    ping(&both);
    assert_eq!(Conn::open(address(&both)).ask("PING"), "+PONG");
    let alone = RedisServer::builder().unix_socket_only().start().unwrap();
    ping(&alone);
    assert_eq!(alone.port(), 0);
    assert!(alone.url().starts_with("unix:///"));
    alone.restart().unwrap();
    ping(&alone);
}

#[test]
fn a_server_that_cannot_start_says_why() {
    if !available(ServerKind::Redis) {
        return;
    }
    let error = RedisServer::builder().config("no-such-option", "1").start().unwrap_err();
    assert!(matches!(&error, ServerError::Exited { .. }), "{error:?}");
    assert!(error.to_string().contains("no-such-option"), "{error}");
}

#[test]
fn a_server_with_tls_speaks_tls_on_its_port() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-out", cert.to_str().unwrap(), "-keyout", key.to_str().unwrap()])
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: the test of TLS needs the openssl command");
        return;
    }
    let Some(server) = start(RedisServer::builder().tls(&cert, &key, &cert)) else { return };
    assert_eq!(server.command(&["PING"]).unwrap().as_str(), Some("PONG"));
    assert_eq!(server.url(), format!("rediss://127.0.0.1:{}", server.port()));
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-verify_return_error", "-CAfile", cert.to_str().unwrap()])
        .args(["-connect", &address(&server).to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    client.stdin.as_mut().unwrap().write_all(b"PING\r\nQUIT\r\n").unwrap();
    let output = client.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("+PONG"), "{output:?}");
}
