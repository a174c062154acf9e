//! A scripted server: answers each command with what a test says. For servers that no binary here is.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// What a fake does with a command.
#[derive(Clone, Debug)]
pub enum Fake {
    /// Answers with these bytes and a line end.
    Say(String),
    /// Does not answer, and stays connected.
    Silence,
    /// Closes the connection.
    Close,
}

/// Answers a command: the connection's number, from zero, and the words.
type Script = dyn Fn(usize, &[String]) -> Fake + Send + Sync;

/// A listening fake. Its threads end when their connections do.
pub struct FakeServer {
    address: SocketAddr,
}

impl FakeServer {
    /// Listens on a free port.
    pub fn start(script: impl Fn(usize, &[String]) -> Fake + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let script: Arc<Script> = Arc::new(script);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let script = script.clone();
                std::thread::spawn(move || serve(number, &stream, &*script));
            }
        });
        Self { address }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}

fn serve(number: usize, stream: &TcpStream, script: &Script) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let words = read_command(&mut reader)?;
        match script(number, &words) {
            Fake::Say(answer) => writer.write_all(format!("{answer}\r\n").as_bytes()).ok()?,
            Fake::Silence => {}
            Fake::Close => return None,
        }
    }
}

/// Answers what a client asks when it connects as Redis 7.0 would; `None` for everything else.
pub fn greeting(words: &[String]) -> Option<Fake> {
    let answer = match words[0].as_str() {
        "INFO" => "$19\r\nredis_version:7.0.0",
        "EVAL" if words[1].starts_with("return") => "*2\r\n$1\r\n1\r\n$1\r\n0",
        "CLIENT" => "-ERR no",
        _ => return None,
    };
    Some(Fake::Say(answer.to_owned()))
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
