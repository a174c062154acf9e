//! The connections that are open, so that a verb can close them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::connection::serve;
use super::rules::Rules;
use super::stats::{Counters, add};

/// What all connections of a proxy share, on its thread.
pub(crate) struct Shared {
    pub(crate) target: SocketAddr,
    pub(crate) rules: watch::Sender<Rules>,
    pub(crate) counters: Arc<Counters>,
    open: RefCell<HashMap<u64, Entry>>,
    next_id: Cell<u64>,
}

struct Entry {
    client: Rc<TcpStream>,
    lossy: Rc<Cell<bool>>,
    task: JoinHandle<()>,
}

/// Which connections are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// None.
    None,
    /// Those that have lost bytes.
    Lossy,
    /// All.
    All,
}

impl Shared {
    pub(crate) fn new(target: SocketAddr, counters: Arc<Counters>) -> Rc<Shared> {
        let rules = watch::Sender::new(Rules::default());
        Rc::new(Shared { target, rules, counters, open: RefCell::default(), next_id: Cell::new(0) })
    }

    /// Takes a client in, or turns it away when the proxy is cut.
    pub(crate) fn admit(self: &Rc<Self>, client: TcpStream) {
        if self.rules.borrow().refuse {
            add(&self.counters.refused, 1);
            let _ = client.set_zero_linger();
            return;
        }
        let _ = client.set_nodelay(true);
        let client = Rc::new(client);
        let lossy = Rc::new(Cell::new(false));
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let counted = Counted::new(&self.counters);
        let task = tokio::task::spawn_local({
            let (shared, client, lossy) = (Rc::clone(self), Rc::clone(&client), Rc::clone(&lossy));
            async move {
                serve(&shared, &client, &lossy).await;
                shared.open.borrow_mut().remove(&id);
                drop(client);
                drop(counted);
            }
        });
        self.open.borrow_mut().insert(id, Entry { client, lossy, task });
    }

    /// Closes connections with a reset, and returns when they are closed.
    pub(crate) async fn close(&self, which: Closing) {
        let doomed: Vec<Entry> = {
            let mut open = self.open.borrow_mut();
            let is_doomed = |entry: &Entry| which == Closing::All || entry.lossy.get();
            open.extract_if(|_, entry| which != Closing::None && is_doomed(entry))
                .map(|(_, entry)| entry)
                .collect()
        };
        for entry in &doomed {
            let _ = entry.client.set_zero_linger();
            entry.task.abort();
        }
        for entry in doomed {
            // The socket closes when its task and this entry are both gone.
            let _ = entry.task.await;
        }
    }
}

/// Counts a connection as open for as long as it lives.
struct Counted(Arc<Counters>);

impl Counted {
    fn new(counters: &Arc<Counters>) -> Counted {
        add(&counters.accepted, 1);
        add(&counters.connections, 1);
        Counted(Arc::clone(counters))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}
