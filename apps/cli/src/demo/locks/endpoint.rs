//! A page of metrics over HTTP: one thread, one request at a time, each within a bound. Enough for a scraper and a
//! person with `curl`; a service uses the server it has.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::metrics::Metrics;

/// The longest time for one request.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest head of a request.
const MOST_READ: usize = 8 * 1024;

/// Opens it, until this process ends. Where it was bound.
pub(super) fn open(address: SocketAddr, metrics: Metrics) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    thread::Builder::new().name("metrics".to_owned()).spawn(move || {
        for stream in listener.incoming() {
            match stream {
                // A client that goes away or is slow is its own concern.
                Ok(stream) => _ = answer(stream, &metrics),
                // Such as too many open files: not again at once.
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    })?;
    Ok(bound)
}

fn answer(mut stream: TcpStream, metrics: &Metrics) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut stream, Instant::now() + PATIENCE)?;
    let (status, kind, body) = page(&head, metrics);
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    stream.shutdown(Shutdown::Write)
}

/// Up to the empty line.
fn read_head(stream: &mut TcpStream, until: Instant) -> io::Result<Vec<u8>> {
    let (mut head, mut part) = (vec![], [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut part)?;
        head.extend_from_slice(&part[..count]);
        if count == 0 || head.len() > MOST_READ || Instant::now() >= until {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(head)
}

fn page(head: &[u8], metrics: &Metrics) -> (&'static str, &'static str, String) {
    const PLAIN: &str = "text/plain; charset=utf-8";
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    match (method, path) {
        (b"GET", b"/metrics") => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", metrics.text()),
        (b"GET", _) => ("404 Not Found", PLAIN, "the metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", PLAIN, "only GET\n".to_owned()),
    }
}
