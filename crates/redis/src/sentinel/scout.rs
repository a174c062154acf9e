//! Finding out that a server has become the primary before the Sentinels have.
//!
//! The Sentinel that was elected to lead a failover tells which replica it asks to become the primary, and learns that it
//! has by asking it once a second. That is a second in which nobody has a primary although there is one, so it is asked
//! from here as well. Its own word is what the Sentinel waits for, too; should the failover be given up nevertheless, all
//! Sentinels go on naming another, which leads back (see `votes.rs`).

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{ErrorKind, Refusal};
use redis::ProtocolVersion;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::listen::{connect, within};
use super::{ASK_PAUSE, Shared};
use crate::connect::Connector;
use crate::error::Failure;
use crate::url::Address;

/// So long is a server asked whether it has become the primary.
const LIMIT: Duration = Duration::from_secs(10);

/// Asks the server that was selected last.
pub(super) struct Scout {
    /// How servers are reached; where to is told.
    pub(super) connector: Connector,
    pub(super) tls: bool,
    pub(super) shared: Arc<Shared>,
}

impl Scout {
    pub(super) async fn run(self) {
        let mut selected = self.shared.selected.subscribe();
        loop {
            let next = selected.borrow_and_update().clone();
            if let Some((host, port)) = next {
                let at = Address::Tcp { host, port, tls: self.tls };
                tokio::select! {
                    is_primary = timeout(LIMIT, self.becomes_primary(&at)) => {
                        if is_primary.is_ok() {
                            self.shared.promoted(at);
                        }
                    }
                    () = changed(&mut selected) => {
                        // However often somebody says so.
                        sleep(ASK_PAUSE).await;
                        continue;
                    }
                }
            }
            changed(&mut selected).await;
        }
    }

    /// Returns when it says that it is.
    async fn becomes_primary(&self, at: &Address) {
        let there = self.connector.at(at.clone());
        while ask(&there).await.is_err() {
            sleep(ASK_PAUSE).await;
        }
    }
}

/// Asks until it is, over one connection, which breaks when it becomes the primary.
async fn ask(there: &Connector) -> Result<(), Failure> {
    let mut connection = connect(there, ProtocolVersion::RESP2, |_| {}).await?;
    loop {
        match within(there, there.demand_primary(&mut connection)).await {
            Err(Failure { kind: ErrorKind::Refused(Refusal::ReadOnly), .. }) => sleep(ASK_PAUSE).await,
            answer => return answer,
        }
    }
}

async fn changed(selected: &mut watch::Receiver<Option<(String, u16)>>) {
    if selected.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
