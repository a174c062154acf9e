//! The handle of a proxy: the verbs of a test.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::acceptor;
use super::registry::Closing;
use super::rules::{DropReply, Rules};
use super::stats::{Counters, Stats};
use super::thread::{self as proxy_thread, Order};

/// The longest wait for the proxy's thread. It never blocks, so that this is only reached on a starved
/// machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(1);

/// A TCP proxy in front of a server, whose traffic a test disturbs at will.
///
/// Every verb may be called from any thread and is in effect when it returns: not one more byte passes under
/// the rules before. Rules add up (a slow proxy can be held) until [`FaultProxy::heal`].
///
/// TCP never loses bytes in the middle of a connection, so neither does the proxy: a connection that has lost
/// bytes to [`drop_replies`](FaultProxy::drop_replies), [`drop_next_reply`](FaultProxy::drop_next_reply) or
/// [`black_hole`](FaultProxy::black_hole) delivers nothing more to its client, as later replies would be
/// taken for the lost ones, and `heal` closes it.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    orders: Option<UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
    counters: Arc<Counters>,
}

impl FaultProxy {
    /// Starts a proxy on a free port of 127.0.0.1, on a thread of its own. The server need not run yet.
    pub fn start(target: SocketAddr) -> io::Result<FaultProxy> {
        let counters = Arc::new(Counters::default());
        let (listener, address) = acceptor::bind()?;
        let (orders, thread) = proxy_thread::start(listener, target, Arc::clone(&counters))?;
        Ok(FaultProxy { address, orders: Some(orders), thread: Some(thread), counters })
    }

    /// Where the proxy listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the proxy: `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Resets all connections, and each new one as soon as it is made. What was held is lost.
    pub fn cut(&self) {
        self.order(|rules| rules.refuse = true, Closing::All);
    }

    /// Resets the connections of this moment; new ones are welcome.
    pub fn cut_connections(&self) {
        self.order(|_| (), Closing::All);
    }

    /// Ends every disturbance: what was held is forwarded. Connections that have lost bytes are reset.
    pub fn heal(&self) {
        self.order(|rules| *rules = Rules::default(), Closing::Lossy);
    }

    /// Keeps everything, in both directions; connections stay open and new ones are accepted. More than 16
    /// MiB in one direction of a connection makes the sender wait. The end of a connection is kept like its
    /// bytes.
    pub fn hold(&self) {
        self.change(|rules| (rules.hold_requests, rules.hold_replies) = (true, true));
    }

    /// Keeps what clients send: the server sees nothing of it yet.
    pub fn hold_requests(&self) {
        self.change(|rules| rules.hold_requests = true);
    }

    /// Keeps what the server sends: it has done what was asked, and the client does not know.
    pub fn hold_replies(&self) {
        self.change(|rules| rules.hold_replies = true);
    }

    /// Forwards what was held, in order, and goes on.
    pub fn release(&self) {
        self.change(|rules| (rules.hold_requests, rules.hold_replies) = (false, false));
    }

    /// Delays each chunk by this time, in each direction. Chunks are delayed side by side, as on a long line,
    /// so that the throughput stays. Zero ends this, also for the chunks on their way.
    pub fn slow(&self, delay: Duration) {
        self.change(move |rules| rules.delay = delay);
    }

    /// Throws away what the server sends from now on, while requests still reach it. Replies that are held or
    /// delayed at this moment are still delivered.
    pub fn drop_replies(&self, after: DropReply) {
        self.change(move |rules| rules.drop_replies = Some(after));
    }

    /// Throws away the next chunk that the server sends, on whichever connection, and forwards all replies on
    /// other connections after that.
    pub fn drop_next_reply(&self, after: DropReply) {
        self.change(move |rules| rules.drop_next = Some(after));
    }

    /// Swallows everything in both directions, also what is held; connections stay open and new ones are
    /// accepted.
    pub fn black_hole(&self) {
        self.change(|rules| rules.black_hole = true);
    }

    /// How many connections are open.
    pub fn connections(&self) -> u64 {
        self.stats().connections
    }

    /// How many connections were accepted in all, the refused ones not counted.
    pub fn accepted(&self) -> u64 {
        self.stats().accepted
    }

    /// How many bytes were forwarded, in both directions together.
    pub fn bytes_forwarded(&self) -> u64 {
        let stats = self.stats();
        stats.request_bytes + stats.reply_bytes
    }

    /// All counts at this moment.
    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    /// Waits until the counts are as wished, at most this long; answers whether they were.
    pub fn wait_until(&self, at_most: Duration, wish: impl Fn(&Stats) -> bool) -> bool {
        wait(at_most, || wish(&self.stats()))
    }

    fn change(&self, change: impl FnOnce(&mut Rules) + Send + 'static) {
        self.order(change, Closing::None);
    }

    /// Has the thread do this and waits for it. Without the thread all sockets are closed, and nothing is to
    /// be done.
    fn order(&self, change: impl FnOnce(&mut Rules) + Send + 'static, closing: Closing) {
        let (done, finished) = mpsc::sync_channel(0);
        let order = Order { change: Box::new(change), closing, done };
        if self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok()) {
            // The answer is that the other end is dropped.
            let _ = finished.recv_timeout(PATIENCE);
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && wait(PATIENCE, || thread.is_finished())
        {
            // It would only say that it panicked.
            let _ = thread.join();
        }
    }
}

fn wait(at_most: Duration, condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + at_most;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(POLL);
    }
}
