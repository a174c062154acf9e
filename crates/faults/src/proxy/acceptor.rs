//! The listening side of the proxy.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use super::registry::Shared;

/// How long to wait when no connection can be accepted, for lack of file descriptors for instance.
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct Acceptor {
    listener: TcpListener,
    backlog: StdListener,
}

/// Listens on a free port of 127.0.0.1.
pub(crate) fn bind() -> io::Result<(StdListener, SocketAddr)> {
    let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

impl Acceptor {
    /// Takes over a listener; needs a runtime.
    pub(crate) fn new(listener: StdListener) -> io::Result<Acceptor> {
        let backlog = listener.try_clone()?;
        Ok(Acceptor { listener: TcpListener::from_std(listener)?, backlog })
    }

    /// Waits for the next client.
    pub(crate) async fn next(&self) -> TcpStream {
        loop {
            match self.listener.accept().await {
                Ok((client, _)) => return client,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Admits every client that is connected already, as far as the kernel is concerned, but was not accepted
    /// yet: a verb is to find the connections that its caller knows of.
    pub(crate) fn drain(&self, shared: &Rc<Shared>) {
        while let Ok((client, _)) = self.backlog.accept() {
            if client.set_nonblocking(true).is_ok()
                && let Ok(client) = TcpStream::from_std(client)
            {
                shared.admit(client);
            }
        }
    }
}
