//! A client by hand: it sees each byte and each end of a connection, which a Redis client would hide.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use lockkeeper_faults::{FaultProxy, RedisServer, ServerKind, available};

pub(crate) const BOUND: Duration = Duration::from_secs(10);

/// A server and a proxy in front of it, or nothing where there is no server.
pub(crate) fn proxied() -> Option<(RedisServer, FaultProxy)> {
    if !available(ServerKind::Redis) {
        return None;
    }
    let server = RedisServer::builder().start().unwrap();
    let proxy = FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], server.port()))).unwrap();
    Some((server, proxy))
}

pub(crate) fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + BOUND;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) struct Conn(pub(crate) TcpStream);

impl Conn {
    pub(crate) fn open(address: SocketAddr) -> Conn {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        stream.set_write_timeout(Some(BOUND)).unwrap();
        Conn(stream)
    }

    /// Sends an inline command and answers how many bytes that were.
    pub(crate) fn send(&mut self, command: &str) -> u64 {
        let line = format!("{command}\r\n");
        self.0.write_all(line.as_bytes()).unwrap();
        line.len() as u64
    }

    pub(crate) fn read_line(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") {
            self.0.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        Ok(String::from_utf8(line).unwrap())
    }

    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.read_line().unwrap()
    }

    /// Whether the connection is open and nothing is there to be read at this moment.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let result = self.0.read(&mut [0]);
        self.0.set_nonblocking(false).unwrap();
        matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Asserts that the other side closes the connection without another byte.
    pub(crate) fn assert_closed(&mut self) {
        let result = self.0.read(&mut [0]);
        let closed = match &result {
            Ok(count) => *count == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        assert!(closed, "{result:?}");
    }
}
