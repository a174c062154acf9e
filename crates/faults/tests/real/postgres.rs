//! PostgreSQL starts, speaks, and is gone with its guard.

use std::io::{Read, Write};
use std::net::TcpStream;

use lockkeeper_faults::{PostgresServer, postgres_available};

use crate::support::{BOUND, wait_for};

/// `SSLRequest` of its protocol: a length of eight, and a code; answered by one letter.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

#[test]
fn a_postgres_answers_on_its_port_and_ends_with_its_guard() {
    if !postgres_available() {
        return;
    }
    let server = PostgresServer::start().unwrap();
    let address = server.url().split(['@', '/']).nth(3).unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    stream.write_all(&SSL_REQUEST).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    assert!(matches!(answer, [b'S' | b'N']), "{answer:?}");
    drop(server);
    wait_for("nobody listens", || TcpStream::connect(&address).is_err());
}
