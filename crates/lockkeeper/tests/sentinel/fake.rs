//! Sentinels that say what a test has them say. They know RESP2 only and tell no events, so they are asked every second.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What one says: the primary's port and the epoch.
pub(crate) type Word = (u16, u64);

pub(crate) struct Fakes {
    words: Vec<Arc<Mutex<Word>>>,
    ports: Vec<u16>,
    _tasks: JoinSet<()>,
}

impl Fakes {
    /// One for each of these.
    pub(crate) async fn start(words: &[Word]) -> Self {
        let mut fakes = Self { words: Vec::new(), ports: Vec::new(), _tasks: JoinSet::new() };
        for word in words {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let word = Arc::new(Mutex::new(*word));
            fakes.ports.push(listener.local_addr().unwrap().port());
            fakes.words.push(word.clone());
            fakes._tasks.spawn(async move {
                let mut talks = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    talks.spawn(talk(stream, word.clone()));
                }
            });
        }
        fakes
    }

    pub(crate) fn say(&self, which: usize, word: Word) {
        *self.words[which].lock() = word;
    }

    pub(crate) fn say_all(&self, word: Word) {
        (0..self.words.len()).for_each(|which| self.say(which, word));
    }

    /// With `more` ports before them.
    pub(crate) fn url(&self, more: &[u16]) -> String {
        let ports = more.iter().chain(&self.ports).map(|port| format!("127.0.0.1:{port}"));
        format!("redis+sentinel://{}/main", ports.collect::<Vec<_>>().join(","))
    }
}

async fn talk(stream: TcpStream, word: Arc<Mutex<Word>>) {
    let mut stream = BufReader::new(stream);
    while let Some(command) = command(&mut stream).await {
        let (port, epoch) = *word.lock();
        let answer = match (command[0].as_str(), command.get(1).map(String::as_str)) {
            ("SENTINEL", Some("MASTER")) => array(&["config-epoch", &epoch.to_string()]),
            ("SENTINEL", Some(_)) => array(&["127.0.0.1", &port.to_string()]),
            ("HELLO" | "SUBSCRIBE", _) => "-ERR unknown command\r\n".to_owned(),
            _ => "+OK\r\n".to_owned(),
        };
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn array(words: &[&str]) -> String {
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*2\r\n{words}")
}

async fn command(stream: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(stream).await? {
        let length = number(stream).await?;
        let mut word = vec![0; length + 2];
        stream.read_exact(&mut word).await.ok()?;
        word.truncate(length);
        words.push(String::from_utf8(word).ok()?.to_ascii_uppercase());
    }
    Some(words)
}

async fn number(stream: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.trim().get(1..)?.parse().ok()
}
