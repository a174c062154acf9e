//! What all commands share: where the store is, which keys are meant, how answers are printed.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use lockkeeper::redis::{QuorumConfig, RedisConfig};
use lockkeeper::{Keeper, KeeperBuilder};
use serde::Serialize;

use crate::certificates::Certificates;
use crate::exit::{self, Failure};

/// Where the URL is looked for after `--url`, in this order.
const URL_VARIABLES: [&str; 2] = ["LOCKKEEPER_URL", "REDIS_URL"];
/// How long what is under way may take before we exit.
const CLOSE_BOUND: Duration = Duration::from_secs(2);

/// Options of every command.
#[derive(Clone, Default, clap::Args)]
#[command(next_help_heading = "Connection")]
pub struct Common {
    /// The server: redis://, rediss:// (TLS), unix:///path; redis+sentinel://host,host/service; a cluster:
    /// redis+cluster://seed1,seed2; or a majority of independent ones: redis+quorum://host,host,host?max_lease=60s (60s is
    /// the default). In user and password, write %2F %3F %23 %40 for / ? # @.
    ///
    /// Without it, the environment's LOCKKEEPER_URL counts, then REDIS_URL. Other users of this machine can read
    /// command lines, so put a password into the environment rather than here.
    #[arg(long, global = true, value_name = "URL")]
    url: Option<OsString>,

    #[command(flatten)]
    tls: Certificates,

    /// Where the server forbids scripts, make do with plain locks: one key, no fence (Valkey 8.1, Redis 8.4).
    #[arg(long, global = true)]
    without_scripts: bool,

    /// Print JSON instead of text.
    #[arg(long, global = true)]
    pub json: bool,
}

/// Which keys are meant.
#[derive(Clone, Debug, clap::Args)]
pub struct Namespace {
    /// What lock keys begin with on the server.
    #[arg(long, value_name = "PREFIX", default_value = "lock:")]
    prefix: OsString,

    /// KEY is the whole key on the server, without a prefix: for locks of other programs.
    #[arg(long, conflicts_with = "prefix")]
    exact: bool,
}

impl Common {
    /// The server's URL. It may contain a password: never print it.
    ///
    /// # Errors
    /// None is given, or it is not UTF-8.
    pub fn url(&self) -> anyhow::Result<String> {
        let from_environment = || URL_VARIABLES.iter().find_map(|name| named_value(name));
        let (source, url) = match &self.url {
            Some(url) => ("--url", url.clone()),
            None => from_environment().ok_or_else(|| {
                Failure::usage("no server is given: use --url, or set LOCKKEEPER_URL or REDIS_URL")
            })?,
        };
        url.into_string().map_err(|_| Failure::usage(format!("the URL of {source} is not UTF-8")).into())
    }

    /// The command line names a server, not just the environment.
    pub fn is_url_given(&self) -> bool {
        self.url.is_some()
    }

    /// The command line names a certificate authority.
    pub fn has_certificate(&self) -> bool {
        self.tls.is_given()
    }

    /// Plain locks will do where scripts are forbidden.
    pub fn does_without_scripts(&self) -> bool {
        self.without_scripts
    }

    /// A builder for the server of [`url`](Self::url).
    ///
    /// # Errors
    /// As [`url`](Self::url); the URL is malformed; it is `memory://`, which no other process shares; certificates are
    /// given as options for a URL without TLS.
    pub fn builder(&self) -> anyhow::Result<KeeperBuilder> {
        let url = self.url()?;
        if url.starts_with("memory:") {
            return Err(Failure::usage(
                "memory:// is a store inside one process: no other process would see what is in it; give the URL of a server",
            )
            .into());
        }
        if self.has_certificate() && !url.starts_with("rediss") {
            let words = "--ca, --cert and --key are for TLS, and this URL is without: use rediss:// (rediss+sentinel://, …)";
            return Err(Failure::usage(words).into());
        }
        self.builder_for(&url)
    }

    /// A builder for another server, with the certificates of this one.
    ///
    /// # Errors
    /// The URL is malformed; the certificates are.
    pub fn builder_for(&self, url: &str) -> anyhow::Result<KeeperBuilder> {
        if is_majority(url) {
            let config = QuorumConfig::from_url(url)?.try_each(|node| self.tls.apply(node))?;
            if self.without_scripts {
                let words =
                    "locks on a majority need scripts: --without-scripts does not go with redis+quorum://";
                return Err(Failure::usage(words).into());
            }
            return Ok(Keeper::builder().quorum(config));
        }
        let builder = Keeper::builder().redis(self.tls.apply(RedisConfig::from_url(url)?)?);
        Ok(if self.without_scripts { builder.without_scripts() } else { builder })
    }

    /// Connects, for the keys of `namespace`.
    ///
    /// # Errors
    /// As [`builder`](Self::builder); a bad prefix; unreachable within 2 s; refused.
    pub async fn connect(&self, namespace: &Namespace) -> anyhow::Result<Keeper> {
        let builder = self.builder()?.prefix(namespace.prefix()?)?;
        let keeper = builder.connect().await?;
        refuse_sentinel(&keeper).await?;
        Ok(keeper)
    }

    /// Says on standard error that a listing is of one node of a cluster only, where that is so.
    pub(crate) async fn tell_of_part(&self, keeper: &Keeper) -> anyhow::Result<()> {
        let mode = mode_of(keeper).await;
        if mode.as_deref() == Some("cluster") && !is_found_by_asking(&self.url()?) {
            exit::say(
                "this is one node of a cluster, and what the others keep is not shown: use redis+cluster://",
            );
        }
        Ok(())
    }
}

/// A Sentinel keeps no locks.
///
/// # Errors
/// The keeper is connected to one.
pub(crate) async fn refuse_sentinel(keeper: &Keeper) -> anyhow::Result<()> {
    if mode_of(keeper).await.as_deref() != Some("sentinel") {
        return Ok(());
    }
    let words = "this is a Sentinel, which keeps no locks: use redis+sentinel://host,host/service";
    Err(Failure::new(exit::UNAVAILABLE, words).into())
}

/// What the server that the keeper is connected to says of its mode. Asks nobody anew.
async fn mode_of(keeper: &Keeper) -> Option<String> {
    let store = keeper.redis_store().filter(|store| store.is_connected())?;
    store.server_info(CLOSE_BOUND).await.ok().map(|info| info.mode.clone())
}

/// The variable and its value; an empty value counts as none.
pub(crate) fn named_value(name: &'static str) -> Option<(&'static str, OsString)> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| (name, value))
}

impl std::fmt::Debug for Common {
    /// Without the URL, which may contain a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common").field("json", &self.json).finish_non_exhaustive()
    }
}

impl Namespace {
    /// What keys begin with.
    ///
    /// # Errors
    /// Not representable (only where arguments are not bytes).
    pub fn prefix(&self) -> anyhow::Result<&[u8]> {
        if self.exact { Ok(b"") } else { bytes_of(&self.prefix, "the prefix") }
    }
}

/// The bytes of an argument. Keys need not be text.
///
/// # Errors
/// Where arguments are not bytes (Windows): it is not Unicode.
pub fn bytes_of<'a>(argument: &'a OsStr, _what: &str) -> anyhow::Result<&'a [u8]> {
    #[cfg(unix)]
    return Ok(std::os::unix::ffi::OsStrExt::as_bytes(argument));
    #[cfg(not(unix))]
    argument
        .to_str()
        .map(str::as_bytes)
        .ok_or_else(|| Failure::usage(format!("{_what} is not valid Unicode")).into())
}

/// Ends the keeper's work: what is being given back gets a moment, and no more.
pub async fn close(keeper: &Keeper) {
    let closed = keeper.close(CLOSE_BOUND).await;
    if closed.undone > 0 {
        tracing::warn!("no answer from the server in time; the lock is left to its lease");
    }
}

/// Bytes as JSON shows them: text as it is, anything else escaped.
pub fn text_of(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| bytes.escape_ascii().to_string(), str::to_owned)
}

/// Bytes that are not text, in hexadecimal.
pub fn hex_of(bytes: &[u8]) -> Option<String> {
    let hex = || bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    std::str::from_utf8(bytes).is_err().then(hex)
}

/// Prints one line. A reader that has gone away (`| head`) is no error.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(line: &str) -> anyhow::Result<()> {
    use std::io::{ErrorKind, Write};
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints one JSON value on one line.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&serde_json::to_string(value)?)
}

/// A duration as typed.
///
/// # Errors
/// Not one, in words for people: humantime's own tell of positions in the text.
pub fn duration(text: &str) -> Result<Duration, String> {
    let mistaken = |_| "it is no duration such as 30s, 1m 30s, 500ms or 2h".to_owned();
    humantime::parse_duration(text).map_err(mistaken)
}

/// A duration for people, without more digits than anybody reads.
pub fn rounded(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let kept = match ms {
        0..10_000 => Duration::from_millis(ms),
        _ => Duration::from_secs(ms / 1000),
    };
    humantime::format_duration(kept).to_string()
}

/// The URL names a majority of independent servers.
pub fn is_majority(url: &str) -> bool {
    url.starts_with("redis+quorum:") || url.starts_with("rediss+quorum:")
}

/// The URL names servers that are found by asking: which one answers may change while somebody waits.
pub fn is_found_by_asking(url: &str) -> bool {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    matches!(scheme, "redis+sentinel" | "rediss+sentinel" | "redis+cluster" | "rediss+cluster")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        assert_eq!(rounded(Duration::from_micros(1_234_567)), "1s 234ms");
        assert_eq!(rounded(Duration::from_millis(27_513)), "27s");
    }

    #[test]
    fn what_is_no_duration_is_told_what_one_looks_like() {
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        for text in ["", "soon", "-1s", "5", "1e3s", "99999999999999999999y"] {
            assert!(duration(text).unwrap_err().contains("such as 30s"), "{text}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_escaped_and_given_in_hexadecimal() {
        assert_eq!((text_of(b"a\xff"), hex_of(b"a\xff").as_deref()), ("a\\xff".to_owned(), Some("61ff")));
        assert_eq!((text_of("é\n".as_bytes()), hex_of(b"e")), ("é\n".to_owned(), None));
    }
}
