//! How to reach a server: addresses, time-outs, credentials.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Error;

use crate::tls::Tls;
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
    pub(crate) tls: Tls,
    pub(crate) without_scripts: bool,
}

impl RedisConfig {
    /// From a URL: `redis://`, `rediss://` (TLS), `unix://` or `redis+cluster://` (`rediss+cluster://`), as
    /// `redis://[user[:password]@]host[:port][/database]`,
    /// `unix:///path/to/socket[?db=N&user=U&pass=P]` and
    /// `redis+cluster://[user[:password]@]seed1[:port],seed2[:port],…`, where one seed that answers is enough. User and
    /// password are percent-encoded.
    ///
    /// `redis+sentinel://[user[:password]@]h1[:port],h2[:port],…/service[/database][?sentinel_user=U&sentinel_password=P]`
    /// names Sentinels (port 26379 if none is given) and the service whose primary is used; with `rediss+sentinel://` both they and
    /// the servers speak TLS.
    ///
    /// # Errors
    /// Names the part at fault. Never prints the password.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let target = Target::parse(url)?;
        Ok(Self::of(target))
    }

    pub(crate) fn of(target: Target) -> Self {
        Self {
            target,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            response_timeout: DEFAULT_RESPONSE_TIMEOUT,
            credentials: None,
            tls: Tls::default(),
            without_scripts: false,
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

    /// Trusts this certificate authority, or several (PEM), instead of the system's, for `rediss://` and the other forms
    /// with two `s`.
    ///
    /// # Errors
    /// It is not PEM, damaged, or holds no certificate.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Result<Self, Error> {
        self.tls.trust(pem.into())?;
        Ok(self)
    }

    /// Shows this certificate (PEM, followed by those that vouch for it, if any) to a server that asks for one. Its key is
    /// PEM too: PKCS #8, PKCS #1 or SEC 1.
    ///
    /// # Errors
    /// Either is not PEM, or damaged; the key is encrypted, of a kind that is not supported, or that of another certificate.
    /// Never shows a key.
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Result<Self, Error> {
        self.tls.present(certificate.into(), key.into())?;
        Ok(self)
    }

    /// Where the server, or the user, may not run scripts, makes do with plain locks instead of an error: one key, by plain
    /// commands that compare with the token. Needs `SET … IFEQ` (Valkey 8.1, Redis 8.4). Where scripts may be run, nothing
    /// changes.
    ///
    /// A plain lock has **no fence** (`fence()` is an error), and nothing keeps a server that was stopped from taking it late
    /// for a caller who has left: it then stays until its lease ends. Nobody sees who waits. Several keys, and everything that is no
    /// lock, stay errors.
    #[must_use]
    pub fn without_scripts(mut self) -> Self {
        self.without_scripts = true;
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
        f.debug_struct("RedisConfig")
            .field("target", &self.address())
            .field("tls", &self.tls)
            .finish_non_exhaustive()
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
/// after a pause; its error is shown, so leave secrets out of it. *Cancel safety*: the future may be dropped.
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
