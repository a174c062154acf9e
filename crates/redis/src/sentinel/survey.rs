//! What each Sentinel says, for operators.

use futures_util::future::join_all;
use redis::ProtocolVersion;

use super::listen::{connect, within};
use super::votes::Say;
use super::{Lookout, ask, connector};
use crate::connect::Connector;
use crate::error::Failure;
use crate::url::Address;

/// What one Sentinel says of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentinelView {
    /// Where it is, as `host:port`.
    pub address: String,
    /// The primary that it names, as `host:port`, and its configuration epoch; `None` where it watches no such service.
    /// An error: it cannot be asked.
    pub primary: Result<Option<(String, u64)>, String>,
    /// The Sentinels that it hears are enough for a failover; else what it says. `None` where it was not asked.
    pub quorum: Option<Result<(), String>>,
}

impl Lookout {
    /// Asks all of them at once, on connections of its own.
    pub(crate) async fn survey(&self) -> Vec<SentinelView> {
        join_all(self.sentinels.addresses.iter().map(|at| self.view(at))).await
    }

    async fn view(&self, at: &Address) -> SentinelView {
        let connector = connector(&self.config, &self.sentinels, at, &self.clock);
        let address = at.to_string();
        match look(&connector, self.service()).await {
            Ok((say, quorum)) => SentinelView { address, primary: Ok(named(say)), quorum: Some(quorum) },
            Err(failure) => SentinelView { address, primary: Err(failure.detail), quorum: None },
        }
    }
}

async fn look(connector: &Connector, service: &str) -> Result<(Say, Result<(), String>), Failure> {
    let mut connection = connect(connector, ProtocolVersion::RESP2, |_| {}).await?;
    let asking = async {
        let say = ask::primary(connector, &mut connection, service).await?;
        let quorum = ask::quorum(connector, &mut connection, service).await?;
        Ok((say, quorum))
    };
    within(connector, asking).await
}

fn named(say: Say) -> Option<(String, u64)> {
    match say {
        Say::Primary { at, epoch } => Some((at.to_string(), epoch)),
        _ => None,
    }
}
