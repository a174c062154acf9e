//! Sentinels that say what a test has them say. Those that tell no events know RESP2 only, so they are asked every second.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;

/// What one says: the primary's port and the epoch.
pub(crate) type Word = (u16, u64);

pub(crate) struct Fakes {
    words: Vec<Arc<Mutex<Word>>>,
    ports: Vec<u16>,
    events: broadcast::Sender<(&'static str, String)>,
    _tasks: JoinSet<()>,
}

impl Fakes {
    /// One for each of these.
    pub(crate) async fn start(words: &[Word]) -> Self {
        Self::start_all(words, false).await
    }

    /// The same, and they tell events.
    pub(crate) async fn telling(words: &[Word]) -> Self {
        Self::start_all(words, true).await
    }

    async fn start_all(words: &[Word], tells: bool) -> Self {
        let (events, _) = broadcast::channel(16);
        let mut fakes = Self { words: Vec::new(), ports: Vec::new(), events, _tasks: JoinSet::new() };
        for word in words {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let word = Arc::new(Mutex::new(*word));
            fakes.ports.push(listener.local_addr().unwrap().port());
            fakes.words.push(word.clone());
            let events = fakes.events.clone();
            fakes._tasks.spawn(async move {
                let mut talks = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    talks.spawn(talk(stream, word.clone(), tells.then(|| events.subscribe())));
                }
            });
        }
        fakes
    }

    pub(crate) fn say(&self, which: usize, word: Word) {
        *self.words[which].lock() = word;
    }

    /// All of them tell it; true if somebody listens.
    pub(crate) fn tell(&self, event: &'static str, text: String) -> bool {
        self.events.send((event, text)).is_ok()
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

type Events = broadcast::Receiver<(&'static str, String)>;

async fn talk(stream: TcpStream, word: Arc<Mutex<Word>>, mut events: Option<Events>) {
    let (reading, mut writing) = stream.into_split();
    let (asked, mut questions) = mpsc::unbounded_channel();
    let reader = async move {
        let mut reading = BufReader::new(reading);
        while let Some(command) = command(&mut reading).await {
            asked.send(command).unwrap();
        }
    };
    let writer = async move {
        loop {
            let text = tokio::select! {
                question = questions.recv() => match question {
                    Some(command) => answer(&command, *word.lock(), events.is_some()),
                    None => return,
                },
                event = told(events.as_mut()) => push(&["message", event.0, &event.1]),
            };
            if writing.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(reader, writer);
}

async fn told(events: Option<&mut Events>) -> (&'static str, String) {
    match events {
        Some(events) => match events.recv().await {
            Ok(event) => event,
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

fn answer(command: &[String], (port, epoch): Word, tells: bool) -> String {
    match (command[0].as_str(), command.get(1).map(String::as_str)) {
        ("SENTINEL", Some("MASTER")) => array(&["config-epoch", &epoch.to_string()]),
        ("SENTINEL", Some(_)) => array(&["127.0.0.1", &port.to_string()]),
        ("HELLO", _) if tells => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
        ("SUBSCRIBE", _) if tells => {
            let channels = command[1..].iter().map(|channel| push(&["subscribe", channel, "1"]));
            channels.collect()
        }
        ("HELLO" | "SUBSCRIBE", _) => "-ERR unknown command\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    }
}

fn push(words: &[&str]) -> String {
    format!(">{}\r\n{}", words.len(), strings(words))
}

fn array(words: &[&str]) -> String {
    format!("*{}\r\n{}", words.len(), strings(words))
}

fn strings(words: &[&str]) -> String {
    words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect()
}

async fn command(stream: &mut BufReader<OwnedReadHalf>) -> Option<Vec<String>> {
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

async fn number(stream: &mut BufReader<OwnedReadHalf>) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.trim().get(1..)?.parse().ok()
}
