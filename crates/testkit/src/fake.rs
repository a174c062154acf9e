//! A scripted server: answers each command with what a test says. For servers that no binary here is.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Answers a command (its words, in capitals where they are ASCII) with raw protocol bytes.
pub type Script = dyn Fn(&[String]) -> String + Send + Sync;

/// A listening fake. Its threads end when their connections do.
pub struct FakeServer {
    address: SocketAddr,
}

impl FakeServer {
    /// Listens on a free port.
    pub fn start(script: impl Fn(&[String]) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let script: Arc<Script> = Arc::new(script);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let script = script.clone();
                std::thread::spawn(move || serve(&stream, &*script));
            }
        });
        Self { address }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}

fn serve(stream: &TcpStream, script: &Script) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let words = read_command(&mut reader)?;
        writer.write_all(script(&words).as_bytes()).ok()?;
    }
}

fn read_command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let count = read_number(reader)?;
    (0..count).map(|_| read_word(reader)).collect()
}

fn read_word(reader: &mut impl BufRead) -> Option<String> {
    let length = read_number(reader)?;
    let mut bytes = vec![0; length + 2];
    Read::read_exact(reader, &mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

fn read_number(reader: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.get(1..)?.trim().parse().ok()
}
