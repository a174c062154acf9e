//! Which servers a majority is asked of, and under which rule.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::Error;
use lockkeeper_core::lock::quorum::{DEFAULT_QUORUM_MAX_LEASE, Majority};
use lockkeeper_core::lock::{Lease, MIN_RENEWED_LEASE};

use crate::config::RedisConfig;
use crate::url::hosts::Several;
use crate::url::{DEFAULT_PORT, Places, Target, bad, database, is_cut_in_its_password};

/// The longest name of a majority.
const MAX_NAME: usize = 64;

/// Independent servers, and what they have agreed on.
#[derive(Clone)]
pub struct QuorumConfig {
    pub(super) nodes: Vec<RedisConfig>,
    pub(super) max_lease: Duration,
    pub(super) fences: bool,
    pub(super) persistent: bool,
    pub(super) name: Option<String>,
}

impl QuorumConfig {
    /// From a URL: `redis+quorum://[user[:password]@]a[:port],b,c[/database][?max_lease=60s&fences=off&persistent=yes&name=n]`, and
    /// `rediss+quorum://` for TLS.
    ///
    /// # Errors
    /// Names the part at fault. Never prints the password.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        if is_cut_in_its_password(url) {
            return Err(bad(
                "`/`, `?`, `#` and `@` in user or password must be percent-encoded (%2F, %3F, %23, %40)",
            ));
        }
        let tls = match url.split_once("://") {
            Some(("redis+quorum", _)) => false,
            Some(("rediss+quorum", _)) => true,
            _ => return Err(bad("the scheme of a majority is redis+quorum:// or rediss+quorum://")),
        };
        let several = Several::parse(url.split_once(':').map_or("", |(_, rest)| rest), DEFAULT_PORT, tls)?;
        let database = database(&several.path)?;
        let parameters = several.parameters()?;
        let nodes = several.addresses.into_iter().map(|address| {
            let (user, password) = (several.user.clone(), several.password.clone());
            RedisConfig::of(Target { places: Places::One(address), database, user, password })
        });
        let mut config = Self::new(nodes)?;
        for (name, value) in parameters {
            config = match (&*name, &*value) {
                ("max_lease", length) => config.max_lease(length_of(length)?)?,
                ("fences", "on" | "off") => config.fences(value == "on"),
                ("persistent", "yes" | "no") => config.persistent(value == "yes"),
                ("name", name) => config.name(name)?,
                ("fences", _) => return Err(bad("`fences` is `on` or `off`")),
                ("persistent", _) => return Err(bad("`persistent` is `yes` or `no`")),
                _ => {
                    let known = "use max_lease, fences, persistent or name";
                    return Err(bad(format!("unknown parameter `{name}`: {known}")));
                }
            };
        }
        Ok(config)
    }

    /// Of these servers, each with credentials and certificates of its own. They are asked for locks only.
    ///
    /// # Errors
    /// Fewer than 2 servers, or more than 15; the same address twice; one that is not a single server; one with
    /// [`without_scripts`](RedisConfig::without_scripts), because a majority's locks cannot do without.
    pub fn new(nodes: impl IntoIterator<Item = RedisConfig>) -> Result<Self, Error> {
        let nodes: Vec<RedisConfig> = nodes.into_iter().collect();
        Majority::of(nodes.len())?;
        for (at, node) in nodes.iter().enumerate() {
            if !matches!(node.target.places, Places::One(_)) {
                let detail = format!("{} is not one server", node.address());
                return Err(Error::bad_argument("quorum", detail));
            }
            if nodes.iter().take(at).any(|earlier| earlier.target.places == node.target.places) {
                return Err(bad(format!("the server {} is named twice", node.address())));
            }
        }
        let config =
            Self { nodes, max_lease: DEFAULT_QUORUM_MAX_LEASE, fences: true, persistent: false, name: None };
        config.demand_scripts()?;
        Ok(config)
    }

    /// None of its servers was told to make do without scripts.
    pub(super) fn demand_scripts(&self) -> Result<(), Error> {
        if self.nodes.iter().any(|node| node.without_scripts) {
            let words =
                "locks on a majority need scripts on every server, so `without_scripts` does not go with it";
            return Err(Error::bad_argument("quorum", words));
        }
        Ok(())
    }

    /// The longest lease that anybody takes here; 60 s by default. A server that was restarted abstains for as long. All
    /// clients have to agree on it.
    ///
    /// # Errors
    /// Below 100 ms or above 365 days.
    pub fn max_lease(mut self, longest: Duration) -> Result<Self, Error> {
        Lease::renewed(longest).map_err(|error| {
            let least = format!("at least {MIN_RENEWED_LEASE:?}");
            Error::bad_argument("quorum", format!("max_lease: {} ({least})", error.detail()))
        })?;
        self.max_lease = longest;
        Ok(self)
    }

    /// Whether guards have fences; on by default. Off saves a round trip where the servers' answers differ, and guards have
    /// *no* fence then.
    #[must_use]
    pub fn fences(mut self, on: bool) -> Self {
        self.fences = on;
        self
    }

    /// You declare that every server keeps every write over a restart (`appendonly yes`, `appendfsync always`, on a disk that
    /// keeps it), so that one that was restarted votes at once.
    #[must_use]
    pub fn persistent(mut self, yes: bool) -> Self {
        self.persistent = yes;
        self
    }

    /// What the servers are called together. Without it they are told from others by their addresses, so all clients have to
    /// write these alike (in any order). With it they may differ, and it is up to you that the same servers are meant.
    ///
    /// # Errors
    /// Empty, longer than 64 bytes, or other than letters, digits, `-`, `_` and `.`.
    pub fn name(mut self, name: &str) -> Result<Self, Error> {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_known) {
            return Err(bad("`name` is 1 to 64 letters, digits, `-`, `_` or `.`"));
        }
        self.name = Some(name.to_owned());
        Ok(self)
    }

    /// The limit for one command to one server; 2 s by default. What is taken has a far shorter one.
    #[must_use]
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.nodes = self.nodes.into_iter().map(|node| node.response_timeout(limit)).collect();
        self
    }

    /// The limit for one attempt to connect to one server; 2 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.nodes = self.nodes.into_iter().map(|node| node.connect_timeout(limit)).collect();
        self
    }

    /// Changes each server's settings, for example its certificates. What its URL says stays.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn try_each<E>(mut self, change: impl Fn(RedisConfig) -> Result<RedisConfig, E>) -> Result<Self, E> {
        let changed = self.nodes.into_iter().map(|node| {
            let target = node.target.clone();
            change(node).map(|node| RedisConfig { target, ..node })
        });
        self.nodes = changed.collect::<Result<_, E>>()?;
        Ok(self)
    }

    /// The servers.
    pub fn nodes(&self) -> &[RedisConfig] {
        &self.nodes
    }

    /// Every server keeps every write, says whoever configured it.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// The addresses, without credentials, for people.
    pub fn address(&self) -> String {
        let names: Vec<String> = self.nodes.iter().map(RedisConfig::place).collect();
        format!("redis+quorum://{}?max_lease={}ms", names.join(","), self.max_lease.as_millis())
    }
}

impl fmt::Debug for QuorumConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QuorumConfig({})", self.address())
    }
}

/// `60s`, `1500ms` or `2m`.
fn length_of(text: &str) -> Result<Duration, Error> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let of = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => 0,
    };
    let length = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(of)).filter(|ms| *ms > 0);
    length.map(Duration::from_millis).ok_or_else(|| bad("`max_lease` is a length such as 60s, 1500ms or 2m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_url_is_read() {
        let config = QuorumConfig::from_url(
            "redis+quorum://al:hunter2@a,b:7,[::1]:8/3?max_lease=1500ms&fences=off&persistent=yes",
        )
        .unwrap();
        assert_eq!(
            (config.max_lease, config.fences, config.persistent),
            (Duration::from_millis(1500), false, true)
        );
        assert_eq!(config.address(), "redis+quorum://a:6379,b:7,[::1]:8?max_lease=1500ms");
        assert!(config.nodes.iter().all(|node| node.target.database == 3
            && node.target.password.as_deref() == Some("hunter2")
            && node.target.user.as_deref() == Some("al")));
        assert!(!format!("{config:?}").contains("hunter2"));
        let plain = QuorumConfig::from_url("rediss+quorum://a,b,c").unwrap();
        assert_eq!((plain.max_lease, plain.fences, plain.persistent), (Duration::from_secs(60), true, false));
    }

    #[test]
    fn no_server_of_a_majority_does_without_scripts() {
        let node = |url: &str| RedisConfig::from_url(url).unwrap();
        let nodes = [node("redis://a"), node("redis://b").without_scripts()];
        assert!(QuorumConfig::new(nodes).unwrap_err().to_string().contains("need scripts"));
        let changed = QuorumConfig::from_url("redis+quorum://a,b").unwrap();
        let changed = changed.try_each(|node| Ok::<_, Error>(node.without_scripts())).unwrap();
        assert!(changed.demand_scripts().is_err());
    }

    #[test]
    fn every_malformed_shape_names_the_part_and_hides_the_password() {
        for (shape, part) in [
            ("redis+quorum:a,b", "scheme"),
            ("redis+quorum://:hunter2@a", "2 to 15"),
            ("redis+quorum://:hunter2@a,b,a", "twice"),
            ("redis+quorum://:hunter2@a,,b", "host"),
            ("redis+quorum://:hunter2@a,b/x", "database `x`"),
            ("redis+quorum://:hunter2@a,b?max_lease=0s", "max_lease"),
            ("redis+quorum://:hunter2@a,b?max_lease=60", "max_lease"),
            ("redis+quorum://:hunter2@a,b?max_lease=99999999999999999999s", "max_lease"),
            ("redis+quorum://:hunter2@a,b?max_lease=5ms", "max_lease"),
            ("redis+quorum://:hunter2@a,b?fences=no", "`fences`"),
            ("redis+quorum://:hunter2@a,b?persistent=on", "`persistent`"),
            ("redis+quorum://:hunter2@a,b?x=1", "parameter `x`"),
            ("redis+quorum://:hunter2@a,b?name=", "`name`"),
            ("redis+quorum://:hunter2@a,b?name=a%20b", "`name`"),
            ("redis+quorum://:hun/ter2@a,b", "percent-encoded"),
        ] {
            let error = QuorumConfig::from_url(shape).err().unwrap_or_else(|| panic!("accepted {shape}"));
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(part) && !shown.contains("hunter2"), "{shape}: {shown}");
        }
    }
}
