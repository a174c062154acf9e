//! How to reach a server: addresses, time-outs, credentials.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Error, ErrorKind};

use crate::url::{Places, Target};

/// The longest time for one attempt to connect: TCP, TLS, authentication and probe together.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest time for one command, waiting for a connection included.
pub const DEFAULT_RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest limit for one command that can be set. An abandoned request may take effect for as long.
pub const MAX_RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest pause between attempts to connect.
pub(crate) const MAX_RECONNECT_PAUSE: Duration = Duration::from_secs(2);
/// The first pause; it doubles, with jitter.
pub(crate) const MIN_RECONNECT_PAUSE: Duration = Duration::from_millis(20);
/// A connecting task that has not stirred for this long beyond its own limits is on a runtime that nobody drives.
pub(crate) const PARKED_MARGIN: Duration = Duration::from_secs(1);
/// An idle connection is probed by the kernel after this time, so that a middlebox does not forget it unnoticed.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// A connection that breaks sooner was of no use.
pub(crate) const SHORT_LIFE: Duration = Duration::from_secs(2);
/// A pause that a caller cuts short lasts at least this long.
pub(crate) const SHORTEST_WANTED_PAUSE: Duration = Duration::from_millis(100);
/// So many commands in a row without an answer, and the socket is replaced.
pub(crate) const MAX_SILENT_COMMANDS: u32 = 3;
/// So many attempts in a row to be told of changed keys may end without an answer; then it is done without.
pub(crate) const MAX_DEAF_ATTEMPTS: u32 = 2;
/// So many commands may be under way on one connection; more wait.
pub(crate) const MAX_IN_FLIGHT: usize = 4096;

/// Where the server is and how long to wait for it.
#[derive(Clone)]
pub struct RedisConfig {
    pub(crate) target: Target,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) credentials: Option<Arc<dyn CredentialProvider>>,
    pub(crate) root_certificate: Option<Vec<u8>>,
}

impl RedisConfig {
    /// From a URL: `redis://`, `rediss://` (TLS) or `unix://`, as
    /// `redis://[user[:password]@]host[:port][/database]` and
    /// `unix:///path/to/socket[?db=N&user=U&pass=P]`. User and password are percent-encoded.
    ///
    /// # Errors
    /// Names the part at fault. Never prints the password.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let target = Target::parse(url)?;
        if !matches!(target.places, Places::One(_)) {
            return Err(Error::new(ErrorKind::Unsupported, "url", "this form is not built yet"));
        }
        Ok(Self::of(target))
    }

    pub(crate) fn of(target: Target) -> Self {
        Self {
            target,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            response_timeout: DEFAULT_RESPONSE_TIMEOUT,
            credentials: None,
            root_certificate: None,
        }
    }

    /// `host:port`, for people.
    pub(crate) fn place(&self) -> String {
        match &self.target.places {
            Places::One(address) => address.to_string(),
            _ => self.address(),
        }
    }

    /// The limit for one attempt to connect; 2 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// The limit for one command, waiting for a connection included; 2 s by default, at most
    /// [`MAX_RESPONSE_TIMEOUT`].
    #[must_use]
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.response_timeout = limit.min(MAX_RESPONSE_TIMEOUT);
        self
    }

    /// Asked for user and password at every connection, so that passwords can rotate. Overrides the URL's.
    #[must_use]
    pub fn credentials(mut self, provider: impl CredentialProvider) -> Self {
        self.credentials = Some(Arc::new(provider));
        self
    }

    /// Trusts this certificate authority (PEM) instead of the system's, for `rediss://`.
    #[must_use]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificate = Some(pem.into());
        self
    }

    /// The configured limit for one command.
    pub fn response_limit(&self) -> Duration {
        self.response_timeout
    }

    /// The address, without credentials, for people.
    pub fn address(&self) -> String {
        self.target.to_string()
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig").field("target", &self.address()).finish_non_exhaustive()
    }
}

/// A user and a password.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The ACL user; `None` for the default user.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({:?}, ***)", self.user)
    }
}

/// Gives credentials for the next connection.
///
/// # Contract
/// Called once per attempt to connect, inside the connect time-out. *Failure*: the attempt fails and is repeated
/// after a pause. *Cancel safety*: the future may be dropped.
pub trait CredentialProvider: Send + Sync + 'static {
    /// The credentials to use now.
    fn credentials(&self) -> CredentialFuture<'_>;
}

/// What a [`CredentialProvider`] returns.
pub type CredentialFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Credentials, Box<dyn StdError + Send + Sync>>> + Send + 'a>>;

impl<F> CredentialProvider for F
where
    F: Fn() -> Credentials + Send + Sync + 'static,
{
    fn credentials(&self) -> CredentialFuture<'_> {
        Box::pin(std::future::ready(Ok(self())))
    }
}
