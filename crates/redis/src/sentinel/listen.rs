//! Listening to all Sentinels: one task for each, so that none that is away delays another.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{ProtocolVersion, PushInfo, PushKind, Value, cmd};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::ask::is_host;
use super::scout::Scout;
use super::votes::Say;
use super::{ASK_LIMIT, ASK_PAUSE, AWAY_PAUSE, POLL, Shared, ask};
use crate::connect::Connector;
use crate::error::Failure;

/// What a Sentinel tells when another server becomes the primary: that it is asked to be one (see `scout.rs`), that it
/// answers as one, that this is final, that another Sentinel has said so.
pub(crate) const EVENTS: [&str; 5] =
    [SELECTED[0], SELECTED[1], "+promoted-slave", "+switch-master", "+config-update-from"];
/// Of these, the ones that name a server that is asked to become the primary.
const SELECTED: [&str; 2] = ["+selected-slave", "+failover-state-wait-promotion"];

/// Listens until the other end of `ends` is gone.
pub(super) async fn all(
    connectors: Vec<Connector>,
    scout: Scout,
    shared: Arc<Shared>,
    mut ends: watch::Receiver<()>,
) {
    let listeners = connectors.into_iter().enumerate().map(|(from, connector)| {
        let shared = shared.clone();
        async move { Listener { from, connector, shared }.run().await }
    });
    tokio::select! {
        _ = join_all(listeners) => {}
        () = scout.run() => {}
        _ = ends.wait_for(|()| false) => {}
    }
}

struct Listener {
    from: usize,
    connector: Connector,
    shared: Arc<Shared>,
}

impl Listener {
    async fn run(self) {
        let mut pause = ASK_PAUSE;
        loop {
            let mut asked = self.shared.asked.subscribe();
            let (failure, has_answered) = self.session().await;
            tracing::debug!(sentinel = %self.connector.name(), error = %failure.detail, "a Sentinel is away");
            self.shared.hear(self.from, Say::Silent(failure));
            pause = if has_answered { ASK_PAUSE } else { (pause * 2).min(AWAY_PAUSE) };
            sleep(ASK_PAUSE).await;
            let _ = timeout(pause.mul_f64(rand::random_range(0.5..1.0)), asked.changed()).await;
        }
    }

    /// Asks over one connection as long as it answers. Says why it does not any more, and whether it ever did.
    async fn session(&self) -> (Failure, bool) {
        let told = Arc::new(Notify::new());
        let mut connection = match self.open(&told).await {
            Ok(connection) => connection,
            Err(failure) => return (failure, false),
        };
        let mut asked = self.shared.asked.subscribe();
        let mut has_answered = false;
        loop {
            asked.borrow_and_update();
            let asking = ask::primary(&self.connector, &mut connection, &self.shared.service);
            match within(&self.connector, asking).await {
                Ok(say) => self.shared.hear(self.from, say),
                Err(failure) => return (failure, has_answered),
            }
            has_answered = true;
            sleep(ASK_PAUSE).await;
            tokio::select! {
                () = sleep(POLL.mul_f64(rand::random_range(0.9..1.0))) => {}
                () = told.notified() => {}
                _ = asked.changed() => {}
            }
        }
    }

    /// Subscribed to its events; where it does not let us, it is asked every second and no more.
    async fn open(&self, told: &Arc<Notify>) -> Result<MultiplexedConnection, Failure> {
        match self.subscribed(told.clone()).await {
            Err(failure) if !failure.may_pass() && !failure.is_about_credentials() => {
                tracing::debug!(sentinel = %self.connector.name(), reason = %failure.detail, "it tells no events");
                connect(&self.connector, ProtocolVersion::RESP2, |_| {}).await
            }
            result => result,
        }
    }

    async fn subscribed(&self, told: Arc<Notify>) -> Result<MultiplexedConnection, Failure> {
        let shared = self.shared.clone();
        let hear = move |push: PushInfo| {
            if matches!(push.kind, PushKind::Message | PushKind::Disconnection) {
                told.notify_one();
            }
            if let Some(selected) = selected(&push, &shared.service) {
                shared.selected.send_replace(Some(selected));
            }
        };
        subscribed(&self.connector, hear).await
    }
}

/// A connection on which a Sentinel tells [`EVENTS`].
pub(super) async fn subscribed(
    connector: &Connector,
    hear: impl Fn(PushInfo) + Send + Sync + 'static,
) -> Result<MultiplexedConnection, Failure> {
    let mut connection = connect(connector, ProtocolVersion::RESP3, hear).await?;
    let subscribing = async {
        let subscribed = cmd("SUBSCRIBE").arg(&EVENTS).query_async::<()>(&mut connection).await;
        subscribed.map_err(|error| connector.failure(&error))
    };
    within(connector, subscribing).await?;
    Ok(connection)
}

/// The server that is asked to become the primary of `service`, as host and port: the event says
/// `slave <name> <host> <port> @ <service> …`.
fn selected(push: &PushInfo, service: &str) -> Option<(String, u16)> {
    let [Value::BulkString(event), Value::BulkString(text)] = &push.data[..] else { return None };
    let is_one = push.kind == PushKind::Message && SELECTED.iter().any(|name| name.as_bytes() == &event[..]);
    let words: Vec<&str> = std::str::from_utf8(text).ok()?.split(' ').collect();
    match words[..] {
        ["slave", _, host, port, "@", of, ..] if is_one && of == service && is_host(host) => {
            Some((host.to_owned(), port.parse().ok()?))
        }
        _ => None,
    }
}

/// A connection to a Sentinel, or to another server.
pub(super) async fn connect(
    connector: &Connector,
    protocol: ProtocolVersion,
    hear: impl Fn(PushInfo) + Send + Sync + 'static,
) -> Result<MultiplexedConnection, Failure> {
    let opening = async {
        let credentials = connector.credentials().await?;
        let opened = connector.open_heard(&credentials, protocol, hear).await;
        // It may repeat what it was told.
        opened.map_err(|failure| failure.without(&credentials.password))
    };
    within(connector, opening).await
}

/// What a server says within [`ASK_LIMIT`].
pub(super) async fn within<T>(
    connector: &Connector,
    asking: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let limit: Duration = ASK_LIMIT;
    let late = || Failure::unreachable(format!("no answer of {} within {limit:?}", connector.name()));
    timeout(limit, asking).await.unwrap_or_else(|_| Err(late()))
}
