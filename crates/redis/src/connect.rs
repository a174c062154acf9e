//! One attempt to connect: address, TLS, credentials, probe.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lockkeeper_core::{Error, ErrorKind, Refusal};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    PushInfo, RedisConnectionInfo, cmd,
};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::clock::ServerClock;
use crate::config::{Credentials, KEEP_ALIVE, MAX_DEAF_ATTEMPTS, RedisConfig};
use crate::error::{CallError, Failure, classify, without_arguments};
use crate::probe::{ServerInfo, probe};
use crate::sentinel::Lookout;
use crate::url::{Address, Target};
use crate::wake::Watched;

/// What the kernel's option holds: milliseconds in an `int`.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const MAX_USER_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

/// Makes connections; shared by the lanes of a store.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) config: RedisConfig,
    pub(crate) leads_to: LeadsTo,
    pub(crate) clock: Arc<ServerClock>,
    pub(crate) watched: Arc<Watched>,
    /// When a connection of any lane was made last.
    pub(crate) connected: Mutex<Option<Instant>>,
    /// Attempts in a row to connect with ears that did not succeed.
    pub(crate) deaf: Arc<AtomicU32>,
    /// Is told when a server may have been restarted, where several servers share the knowledge.
    pub(crate) replaced: Option<Replaced>,
}

/// Tells when a connection leads to another run of its server than the one before.
#[derive(Debug)]
pub(crate) struct Replaced {
    tell: Arc<watch::Sender<u64>>,
    /// The run that the latest connection led to; empty while none is known.
    run_id: Mutex<String>,
}

impl Replaced {
    pub(crate) fn new(tell: Arc<watch::Sender<u64>>) -> Self {
        Self { tell, run_id: Mutex::default() }
    }

    /// A connection leads to this run. Where that, or the one before, is not known, only one for commands or renewals
    /// that `is_replacement` counts.
    fn note_run(&self, run_id: &str, is_replacement: bool) {
        let mut known = self.run_id.lock();
        let is_known = !known.is_empty() && !run_id.is_empty();
        let is_news = if is_known { *known != run_id } else { is_replacement };
        if !run_id.is_empty() && *known != run_id {
            run_id.clone_into(&mut known);
        }
        drop(known);
        if is_news {
            self.tell.send_modify(|number| *number += 1);
        }
    }
}

/// Where connections lead to.
#[derive(Clone, Debug)]
pub(crate) enum LeadsTo {
    /// This server.
    At(Address),
    /// The server that the Sentinels say is the primary.
    Primary(Arc<Lookout>),
}

impl LeadsTo {
    pub(crate) fn address(&self) -> Option<&Address> {
        match self {
            Self::At(address) => Some(address),
            Self::Primary(_) => None,
        }
    }
}

/// A connection that was made.
pub(crate) struct Made {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) info: ServerInfo,
    /// Of the primary that it leads to; 0 where nobody looks out for one.
    pub(crate) term: u64,
}

/// Whether a connection is to be told of changed keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ears {
    /// It listens, if the server lets it.
    Open,
    Closed,
}

impl Connector {
    /// Connects, authenticates and probes within the connect time-out.
    pub(crate) async fn connect(&self, ears: Ears) -> Result<Made, Failure> {
        let limit = self.config.connect_timeout;
        match timeout(limit, self.reach(ears)).await {
            Ok(result) => {
                if result.is_ok() {
                    *self.connected.lock() = Some(Instant::now());
                }
                result
            }
            Err(_) => Err(Failure::unreachable(self.late(limit))),
        }
    }

    /// Another lane has reached the server since.
    pub(crate) fn has_connected_since(&self, moment: Instant) -> bool {
        self.connected.lock().is_some_and(|at| at > moment)
    }

    /// Who looks out for the primary, where somebody does.
    pub(crate) fn lookout(&self) -> Option<&Lookout> {
        match &self.leads_to {
            LeadsTo::At(_) => None,
            LeadsTo::Primary(lookout) => Some(lookout),
        }
    }

    async fn reach(&self, ears: Ears) -> Result<Made, Failure> {
        match &self.leads_to {
            LeadsTo::At(_) => {
                let (connection, info) = self.attempt(ears).await?;
                Ok(Made { connection, info, term: 0 })
            }
            LeadsTo::Primary(lookout) => self.reach_primary(lookout, ears).await,
        }
    }

    /// The same for one server.
    pub(crate) fn at(&self, address: Address) -> Self {
        Self {
            config: self.config.clone(),
            leads_to: LeadsTo::At(address),
            clock: self.clock.clone(),
            watched: self.watched.clone(),
            connected: Mutex::default(),
            deaf: self.deaf.clone(),
            replaced: None,
        }
    }

    /// A connection of any lane leads to this run of the server.
    pub(crate) fn note_run(&self, run_id: &str, is_replacement: bool) {
        if let Some(replaced) = &self.replaced {
            replaced.note_run(run_id, is_replacement);
        }
    }

    /// The server, for people.
    pub(crate) fn name(&self) -> String {
        self.target().to_string()
    }

    fn target(&self) -> Target {
        match &self.leads_to {
            LeadsTo::At(address) => self.config.target.at(address.clone()),
            LeadsTo::Primary(_) => self.config.target.clone(),
        }
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(&self.leads_to, LeadsTo::At(address) if address.is_tls())
    }

    pub(crate) fn late(&self, limit: Duration) -> String {
        let hint = if self.is_tls() { "; does that port speak TLS?" } else { "" };
        format!("no connection to {} within {limit:?}{hint}", self.name())
    }

    pub(crate) async fn attempt(&self, ears: Ears) -> Result<(MultiplexedConnection, ServerInfo), Failure> {
        let credentials = self.credentials().await?;
        let attempted = self.attempt_as(&credentials, ears).await;
        attempted.map_err(|failure| failure.without(&credentials.password))
    }

    async fn attempt_as(
        &self,
        credentials: &Credentials,
        ears: Ears,
    ) -> Result<(MultiplexedConnection, ServerInfo), Failure> {
        let (connection, tracking) = match ears {
            Ears::Closed => (self.open(credentials, ProtocolVersion::RESP2).await?, None),
            Ears::Open => {
                let (connection, hears) = self.open_waiting(credentials).await?;
                (connection, Some(hears))
            }
        };
        let mut info = probe(|| Box::new(connection.clone()), &self.clock).await?;
        info.tracking = tracking.unwrap_or(info.tracking);
        Ok((connection, info))
    }

    /// With ears where the server allows it. One that says so is believed at once; one that hangs up on the question,
    /// or is silent, after it did so twice.
    async fn open_waiting(
        &self,
        credentials: &Credentials,
    ) -> Result<(MultiplexedConnection, bool), Failure> {
        let limit = self.config.connect_timeout / 2;
        let in_a_row = self.deaf.fetch_add(1, Ordering::Relaxed);
        let opened = timeout(limit, self.open_with_ears(credentials)).await;
        let refusal = match opened.unwrap_or_else(|_| Err(Failure::unreachable(self.late(limit)))) {
            Ok(connection) => {
                self.deaf.store(0, Ordering::Relaxed);
                return Ok((connection, true));
            }
            Err(failure) if failure.is_about_credentials() => return Err(failure),
            Err(failure) if failure.may_pass() && in_a_row < MAX_DEAF_ATTEMPTS => return Err(failure),
            Err(refusal) => refusal,
        };
        let connection = self.open(credentials, ProtocolVersion::RESP2).await?;
        self.watched.report_refusal(&refusal.without(&credentials.password).detail);
        Ok((connection, false))
    }

    async fn open_with_ears(&self, credentials: &Credentials) -> Result<MultiplexedConnection, Failure> {
        let mut connection = self.open(credentials, ProtocolVersion::RESP3).await?;
        // Never with NOLOOP: one's own write would use a registration up in silence.
        let reply = cmd("CLIENT").arg("TRACKING").arg("ON").query_async::<()>(&mut connection).await;
        reply.map_err(|error| self.failure(&error))?;
        Ok(connection)
    }

    async fn open(
        &self,
        credentials: &Credentials,
        protocol: ProtocolVersion,
    ) -> Result<MultiplexedConnection, Failure> {
        let watched = self.watched.clone();
        self.open_heard(credentials, protocol, move |push| watched.hear(&push)).await
    }

    /// With RESP3, `hear` gets what the server tells by itself.
    pub(crate) async fn open_heard(
        &self,
        credentials: &Credentials,
        protocol: ProtocolVersion,
        hear: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<MultiplexedConnection, Failure> {
        let client = self
            .client(credentials.clone(), protocol)
            .map_err(|error| Failure { kind: error.kind(), detail: error.detail().to_owned() })?;
        let mut settings =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        if protocol == ProtocolVersion::RESP3 {
            settings = settings.set_push_sender(move |push: PushInfo| {
                hear(push);
                Ok::<(), std::convert::Infallible>(())
            });
        }
        let connection = client.get_multiplexed_async_connection_with_config(&settings).await;
        connection.map_err(|error| self.failure(&error))
    }

    pub(crate) async fn credentials(&self) -> Result<Credentials, Failure> {
        let target = &self.config.target;
        match &self.config.credentials {
            Some(provider) => provider
                .credentials()
                .await
                .map_err(|error| Failure::unreachable(format!("the credential provider failed: {error}"))),
            None => Ok(Credentials {
                user: target.user.clone(),
                password: target.password.clone().unwrap_or_default(),
            }),
        }
    }

    fn client(&self, credentials: Credentials, protocol: ProtocolVersion) -> Result<Client, Error> {
        let invalid = |error: redis::RedisError| Error::bad_argument("connect", error.to_string());
        let info = self.connection_info(credentials, protocol).map_err(invalid)?;
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Client::open(info).map_err(invalid);
        }
        // An error here means that a provider was installed before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::build_with_tls(info, self.config.tls.certificates()).map_err(invalid)
    }

    fn connection_info(
        &self,
        credentials: Credentials,
        protocol: ProtocolVersion,
    ) -> redis::RedisResult<ConnectionInfo> {
        let address = match self.leads_to.clone() {
            LeadsTo::At(Address::Tcp { host, port, tls: false }) => ConnectionAddr::Tcp(host, port),
            LeadsTo::At(Address::Tcp { host, port, tls: true }) => {
                ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
            }
            LeadsTo::At(Address::Unix(path)) => ConnectionAddr::Unix(path),
            LeadsTo::Primary(_) => {
                let detail = "it is not known which server is the primary";
                return Err((redis::ErrorKind::InvalidClientConfig, detail).into());
            }
        };
        let mut settings = RedisConnectionInfo::default()
            .set_db(self.config.target.database)
            .set_protocol(protocol)
            .set_lib_name("lockkeeper", env!("CARGO_PKG_VERSION"));
        if let Some(user) = credentials.user {
            settings = settings.set_username(user);
        }
        if !credentials.password.is_empty() {
            settings = settings.set_password(credentials.password);
        }
        let keep_alive = socket2::TcpKeepalive::new().with_time(KEEP_ALIVE);
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keep_alive);
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        let tcp = tcp.set_user_timeout(self.config.response_timeout.saturating_mul(2).min(MAX_USER_TIMEOUT));
        Ok(address.into_connection_info()?.set_redis_settings(settings).set_tcp_settings(tcp))
    }

    /// What went wrong, without the password that its URL names.
    pub(crate) fn failure(&self, error: &redis::RedisError) -> Failure {
        self.read_failure(error).without(self.config.target.password.as_deref().unwrap_or_default())
    }

    fn read_failure(&self, error: &redis::RedisError) -> Failure {
        if error.kind() == redis::ErrorKind::AuthenticationFailed {
            let detail = format!("{}: authentication failed", self.name());
            return Failure { kind: ErrorKind::Refused(Refusal::NotAuthenticated), detail };
        }
        if error.kind() == redis::ErrorKind::RESP3NotSupported {
            let detail = without_arguments(&error.to_string()).to_owned();
            return Failure { kind: ErrorKind::Unsupported, detail };
        }
        if matches!(error.kind(), redis::ErrorKind::Parse | redis::ErrorKind::UnexpectedReturnType) {
            let detail = format!("{} does not answer as a Redis server", self.name());
            return Failure { kind: ErrorKind::Unsupported, detail };
        }
        match classify(error) {
            CallError::Answered(words) => {
                Failure { kind: ErrorKind::Refused(words.refusal()), detail: words.text().to_owned() }
            }
            CallError::Broken(reason) => Failure::unreachable(format!("{}: {reason}", self.name())),
            CallError::Silent => Failure::unreachable(format!("{}: no answer", self.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_to_the_same_run_of_a_server_is_no_news_and_to_an_unknown_one_it_is() {
        let tell = Arc::new(watch::Sender::new(1));
        let replaced = Replaced::new(tell.clone());
        let told = |run_id, is_replacement| {
            let before = *tell.borrow();
            replaced.note_run(run_id, is_replacement);
            *tell.borrow() != before
        };
        assert!(!told("a", false) && !told("a", true), "the same run");
        assert!(told("b", false), "whichever connection finds out");
        assert!(!told("b", true), "told once");
        assert!(told("", true) && !told("", false), "it does not say");
        assert!(!told("b", true) && told("c", true));
        let replaced = Replaced::new(tell.clone());
        let before = *tell.borrow();
        replaced.note_run("a", true);
        assert_ne!(*tell.borrow(), before, "none was known before");
    }
}
