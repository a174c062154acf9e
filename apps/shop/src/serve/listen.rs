//! Taking connections: a bounded number at once, each of which sends its requests' heads in a bounded time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::chores::stopped;

/// The most connections at once; the next ones wait in the system's line.
pub(super) const MAX_CONNECTIONS: usize = 4096;
/// How long a connection may take to send the head of its next request. An idle one is closed after this.
pub(super) const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// How long a connection lives, and how long its last answer may take to be read: who never reads keeps no place for ever.
const MAX_LIFE: Duration = Duration::from_secs(600);
/// The most that is kept of a request before it is read, in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// Where the system has no connection to give: too many files are open, for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a crowd may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) connections: usize,
    pub(super) head_within: Duration,
}

/// Serves until it is told to stop, and then until the requests under way are answered.
pub(super) async fn listen(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    stop: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(bounds.connections));
    let mut connections = JoinSet::new();
    let mut told = pin!(stopped(stop.clone()));
    loop {
        let next = async {
            let place = room.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            () = &mut told => break,
            Some(_ended) = connections.join_next() => {}
            (place, accepted) = next => match accepted {
                Ok((stream, _)) => {
                    let served = serve(stream, router.clone(), bounds.head_within, stop.clone());
                    connections.spawn(async move {
                        served.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "shop_accept_failed");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// One connection. What goes wrong on it is its client's business.
async fn serve(stream: TcpStream, router: Router, head_within: Duration, stop: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_within).max_buf_size(MAX_HEAD);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    tokio::select! {
        _ended = connection.as_mut() => return,
        () = stopped(stop) => {}
        () = sleep(MAX_LIFE) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(MAX_LIFE, connection).await;
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinHandle;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    async fn server(
        connections: usize,
        head_within: Duration,
    ) -> (SocketAddr, watch::Sender<bool>, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, (stop, told)) = (listener.local_addr().unwrap(), watch::channel(false));
        let router = Router::new().route("/", get(async || "here"));
        (address, stop, tokio::spawn(listen(listener, router, Bounds { connections, head_within }, told)))
    }

    async fn ask(stream: &mut TcpStream) -> String {
        stream.write_all(REQUEST).await.unwrap();
        let mut answer = vec![0; 1024];
        let read = timeout(SOON, stream.read(&mut answer)).await.expect("an answer").unwrap();
        String::from_utf8_lossy(&answer[..read]).into_owned()
    }

    /// Real time: a tenth of a second.
    #[tokio::test]
    async fn a_client_that_sends_half_a_head_is_not_waited_for() {
        let (address, _stop, _task) = server(9, Duration::from_millis(100)).await;
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(&REQUEST[..9]).await.unwrap();
        let mut rest = Vec::new();
        timeout(SOON, slow.read_to_end(&mut rest)).await.expect("it is closed").unwrap();
        assert!(!String::from_utf8_lossy(&rest).contains("200"));
    }

    #[tokio::test]
    async fn a_connection_beyond_the_bound_is_served_when_another_one_goes() {
        let (address, _stop, _task) = server(1, SOON).await;
        let mut first = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut first).await.ends_with("here"));
        let mut second = TcpStream::connect(address).await.unwrap();
        second.write_all(REQUEST).await.unwrap();
        let mut answer = [0; 15];
        let early = timeout(Duration::from_millis(50), second.read(&mut answer)).await;
        assert!(early.is_err(), "there is room for one");
        drop(first);
        timeout(SOON, second.read_exact(&mut answer)).await.expect("its turn").unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }

    #[tokio::test]
    async fn idle_connections_end_when_it_is_told_to_stop() {
        let (address, stop, task) = server(9, SOON).await;
        let mut idle = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut idle).await.ends_with("here"));
        stop.send_replace(true);
        timeout(SOON, task).await.expect("it ends").unwrap();
        assert_eq!(timeout(SOON, idle.read(&mut [0; 9])).await.expect("it is closed").unwrap(), 0);
    }
}
