//! The thread of a proxy. It has a runtime of its own, so that a test that blocks does not stall the proxy.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use super::acceptor::Acceptor;
use super::registry::{Closing, Shared};
use super::rules::Rules;
use super::stats::Counters;

/// What a verb asks for.
pub(crate) struct Order {
    /// Changes the rules.
    pub(crate) change: Box<dyn FnOnce(&mut Rules) + Send>,
    /// Closes connections after that.
    pub(crate) closing: Closing,
    /// Dropped when all is done.
    pub(crate) done: SyncSender<()>,
}

/// Starts the thread. It ends when the sender of its orders is dropped.
pub(crate) fn start(
    listener: TcpListener,
    target: SocketAddr,
    counters: Arc<Counters>,
) -> io::Result<(UnboundedSender<Order>, JoinHandle<()>)> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let acceptor = {
        let _inside = runtime.enter();
        Acceptor::new(listener)?
    };
    let (orders, inbox) = unbounded_channel();
    let name = format!("fault-proxy-{}", target.port());
    let thread =
        thread::Builder::new().name(name).spawn(move || run(&runtime, &acceptor, target, counters, inbox))?;
    Ok((orders, thread))
}

fn run(
    runtime: &Runtime,
    acceptor: &Acceptor,
    target: SocketAddr,
    counters: Arc<Counters>,
    mut inbox: UnboundedReceiver<Order>,
) {
    let shared = Shared::new(target, counters);
    LocalSet::new().block_on(runtime, async {
        loop {
            tokio::select! {
                order = inbox.recv() => match order {
                    Some(order) => obey(order, acceptor, &shared).await,
                    None => return shared.close(Closing::All).await,
                },
                client = acceptor.next() => shared.admit(client),
            }
        }
    });
}

async fn obey(order: Order, acceptor: &Acceptor, shared: &Rc<Shared>) {
    acceptor.drain(shared);
    shared.rules.send_modify(order.change);
    shared.close(order.closing).await;
    drop(order.done);
}
