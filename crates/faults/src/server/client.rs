//! The tiny client that tests look at a server with: one short-lived connection, every wait bounded.

use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::error::ServerError;
use super::reply::Reply;

/// How long a command may take, in each of its steps.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a server listens for plain RESP.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// A port of 127.0.0.1.
    Tcp(u16),
    /// A unix socket.
    Unix(PathBuf),
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// An open connection.
pub(crate) struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

impl Client {
    /// Connects; each later read and write is bounded by the time-out, too.
    pub(crate) fn connect(address: &Address, timeout: Duration) -> Result<Client, ServerError> {
        let stream = open(address, timeout).map_err(ServerError::io("connecting to the server"))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Sends one command and reads its reply.
    pub(crate) fn call(&mut self, args: &[&[u8]]) -> Result<Reply, ServerError> {
        let stream = self.stream.get_mut();
        stream.write_all(&encode(args)).map_err(ServerError::io("sending a command"))?;
        Reply::read(&mut self.stream)
    }
}

fn open(address: &Address, timeout: Duration) -> std::io::Result<Box<dyn Stream>> {
    match address {
        Address::Tcp(port) => {
            let stream =
                TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, *port)), timeout)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(timeout))?;
            stream.set_write_timeout(Some(timeout))?;
            Ok(Box::new(stream))
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(timeout))?;
            stream.set_write_timeout(Some(timeout))?;
            Ok(Box::new(stream))
        }
    }
}

fn encode(args: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}
