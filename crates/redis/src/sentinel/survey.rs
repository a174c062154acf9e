//! What each Sentinel says, for operators.

use futures_util::future::{join, join_all};
use lockkeeper_core::{ErrorKind, Refusal};
use redis::ProtocolVersion;

use super::listen::{connect, subscribed, within};
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
    /// It tells of failovers by itself; else why not. `None` where it was not asked.
    pub events: Option<Result<(), String>>,
    /// What its user may not do, in the words of the first refusal.
    pub refused: Option<String>,
}

impl Lookout {
    /// Asks all of them at once, on connections of its own.
    pub(crate) async fn survey(&self) -> Vec<SentinelView> {
        join_all(self.sentinels.addresses.iter().map(|at| self.view(at))).await
    }

    async fn view(&self, at: &Address) -> SentinelView {
        let connector = connector(&self.config, &self.sentinels, at, &self.clock);
        let address = at.to_string();
        let say = match say(&connector, self.service()).await {
            Ok(say) => say,
            Err(failure) => {
                let refused = refusal(&failure);
                let primary = Err(failure.detail);
                return SentinelView { address, primary, quorum: None, events: None, refused };
            }
        };
        let (quorum, events) = join(quorum(&connector, self.service()), subscribed(&connector, |_| {})).await;
        let events = events.map(drop);
        let refused = [quorum.as_ref().err(), events.as_ref().err()].into_iter().flatten().find_map(refusal);
        SentinelView {
            address,
            primary: Ok(named(say)),
            // Not allowed to ask is not asked.
            quorum: quorum.ok(),
            events: Some(events.map_err(|failure| failure.detail)),
            refused,
        }
    }
}

fn refusal(failure: &Failure) -> Option<String> {
    (failure.kind == ErrorKind::Refused(Refusal::NoPermission)).then(|| failure.detail.clone())
}

async fn say(connector: &Connector, service: &str) -> Result<Say, Failure> {
    let mut connection = connect(connector, ProtocolVersion::RESP2, |_| {}).await?;
    within(connector, ask::primary(connector, &mut connection, service)).await
}

async fn quorum(connector: &Connector, service: &str) -> Result<Result<(), String>, Failure> {
    let mut connection = connect(connector, ProtocolVersion::RESP2, |_| {}).await?;
    within(connector, ask::quorum(connector, &mut connection, service)).await
}

fn named(say: Say) -> Option<(String, u64)> {
    match say {
        Say::Primary { at, epoch } => Some((at.to_string(), epoch)),
        _ => None,
    }
}
