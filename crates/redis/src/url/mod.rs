//! Reading a store's URL. Errors name the part at fault and never show a password.

pub(crate) mod hosts;

use std::fmt;
use std::path::PathBuf;

use lockkeeper_core::{Error, ErrorKind};
use percent_encoding::percent_decode_str;
use url::Url;

use self::hosts::Several;

pub(crate) const DEFAULT_PORT: u16 = 6379;
const DEFAULT_SENTINEL_PORT: u16 = 26_379;
/// The longest name of a service.
const MAX_SERVICE_BYTES: usize = 256;

/// A store, as its URL names it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) places: Places,
    pub(crate) database: i64,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// Where its servers are.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Places {
    /// One server.
    One(Address),
    /// Whichever server these Sentinels say is the primary of their service.
    Sentinel(Sentinels),
    /// A cluster, to be found through any of these.
    Cluster(Vec<Address>),
}

/// Whom to ask for a primary, and as whom.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sentinels {
    pub(crate) addresses: Vec<Address>,
    pub(crate) service: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Address {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

impl Target {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        if is_cut_in_its_password(text) {
            return Err(bad(
                "`/`, `?`, `#` and `@` in user or password must be percent-encoded (%2F, %3F, %23, %40)",
            ));
        }
        let (scheme, rest) = text.split_once(':').ok_or_else(|| bad("it has no scheme, such as redis://"))?;
        match scheme {
            "unix" | "redis+unix" => unix(&parsed(text)?),
            _ if scheme.starts_with("redis") && !rest.starts_with("//") => {
                Err(bad(format!("after `{scheme}:` come two slashes")))
            }
            "redis" | "rediss" => tcp(&parsed(text)?, scheme == "rediss"),
            "redis+sentinel" | "rediss+sentinel" => {
                sentinel(Several::parse(rest, DEFAULT_SENTINEL_PORT, scheme.starts_with("rediss"))?)
            }
            "redis+cluster" | "rediss+cluster" => {
                cluster(Several::parse(rest, DEFAULT_PORT, scheme.starts_with("rediss"))?)
            }
            "redis+quorum" | "rediss+quorum" => Err(Error::new(
                ErrorKind::Unsupported,
                "url",
                format!("the scheme `{scheme}` names several servers that are no store of one"),
            )),
            _ if scheme.len() < 20 => Err(bad(format!(
                "unknown scheme `{scheme}`: use redis, rediss, unix, redis+sentinel, redis+cluster or redis+quorum"
            ))),
            _ => Err(bad("it has no scheme, such as redis://")),
        }
    }
}

impl Target {
    /// The same for one of its servers.
    pub(crate) fn at(&self, address: Address) -> Self {
        Self { places: Places::One(address), ..self.clone() }
    }
}

impl Address {
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Tcp { tls: true, .. })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = |tls: bool| if tls { "rediss" } else { "redis" };
        match &self.places {
            Places::One(Address::Unix(path)) => write!(f, "unix://{}?db={}", path.display(), self.database),
            Places::One(address) => {
                write!(f, "{}://{address}/{}", scheme(address.is_tls()), self.database)
            }
            Places::Sentinel(Sentinels { addresses, service, .. }) => {
                write!(f, "{}+sentinel://", scheme(addresses.iter().any(Address::is_tls)))?;
                listed(f, addresses)?;
                write!(f, "/{service}/{}", self.database)
            }
            Places::Cluster(seeds) => {
                write!(f, "{}+cluster://", scheme(seeds.iter().any(Address::is_tls)))?;
                listed(f, seeds)
            }
        }
    }
}

fn listed(f: &mut fmt::Formatter<'_>, addresses: &[Address]) -> fmt::Result {
    for (at, address) in addresses.iter().enumerate() {
        write!(f, "{}{address}", if at == 0 { "" } else { "," })?;
    }
    Ok(())
}

/// `host:port`, or the path of a socket.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// An `@` after the end of what names the server: a character of the password ended it. Nothing of the rest may be
/// shown.
pub(crate) fn is_cut_in_its_password(text: &str) -> bool {
    let is_tcp = text.starts_with("redis") && !text.starts_with("redis+unix:");
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    is_tcp && rest.find(['/', '?', '#']).is_some_and(|end| rest[end..].contains('@'))
}

pub(crate) fn bad(detail: impl Into<String>) -> Error {
    Error::bad_argument("url", detail)
}

fn parsed(text: &str) -> Result<Url, Error> {
    let url = Url::parse(text).map_err(|error| {
        use url::ParseError::{
            EmptyHost, InvalidDomainCharacter, InvalidIpv4Address, InvalidIpv6Address, InvalidPort,
        };
        match error {
            InvalidPort => bad("the port is not a number from 1 to 65535"),
            EmptyHost => bad("the host is missing"),
            InvalidDomainCharacter | InvalidIpv4Address | InvalidIpv6Address => {
                bad(format!("the host: {error}"))
            }
            other => bad(other.to_string()),
        }
    })?;
    if url.fragment().is_some() {
        return Err(bad("a `#` has no meaning here; percent-encode it in a password (%23)"));
    }
    Ok(url)
}

fn tcp(url: &Url, tls: bool) -> Result<Target, Error> {
    if let Some((name, _)) = url.query_pairs().next() {
        return Err(bad(format!("unknown parameter `{name}`")));
    }
    let user = Some(decoded(url.username(), "user")?).filter(|user| !user.is_empty());
    let password = url.password().map(|password| decoded(password, "password")).transpose()?;
    check_credentials(user.as_deref(), password.as_deref())?;
    Ok(Target {
        places: Places::One(host(url, DEFAULT_PORT, tls)?),
        database: database(url.path().trim_start_matches('/'))?,
        user,
        password,
    })
}

/// A user alone would be nobody: without a password there is no `AUTH`. It may be a password in the wrong place, and is not
/// shown.
pub(crate) fn check_credentials(user: Option<&str>, password: Option<&str>) -> Result<(), Error> {
    match (user, password) {
        (Some(_), None | Some("")) => Err(bad(
            "a user without a password: write user:password@, or :password@ for the default user (for a user with `nopass`, \
             any password will do; an empty one cannot be given)",
        )),
        _ => Ok(()),
    }
}

/// Host and port of a URL.
fn host(url: &Url, default_port: u16, tls: bool) -> Result<Address, Error> {
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| bad("the host is missing"))?;
    let host = decoded(host.trim_start_matches('[').trim_end_matches(']'), "host")?;
    let port = url.port().unwrap_or(default_port);
    if port == 0 {
        return Err(bad("the port is not a number from 1 to 65535"));
    }
    Ok(Address::Tcp { host, port, tls })
}

/// `redis+sentinel://[user[:password]@]h1[:p1],h2[:p2],…/service[/db][?sentinel_user=…&sentinel_password=…]`.
fn sentinel(several: Several) -> Result<Target, Error> {
    let (service, number) = several.path.split_once('/').unwrap_or((&several.path, ""));
    let service = decoded(service, "name of the service")?;
    if service.is_empty() || service.len() > MAX_SERVICE_BYTES {
        let form = "redis+sentinel://host,host/service";
        return Err(bad(format!(
            "the service's name is missing, or longer than {MAX_SERVICE_BYTES} bytes: {form}"
        )));
    }
    let (mut user, mut password) = (None, None);
    for (name, value) in several.parameters()? {
        match &*name {
            "sentinel_user" => user = Some(value),
            "sentinel_password" => password = Some(value),
            _ => return Err(unknown(&name, password.is_some(), "sentinel_user or sentinel_password")),
        }
    }
    if user.as_deref().is_some_and(|user| !user.is_empty())
        && password.as_deref().unwrap_or_default().is_empty()
    {
        return Err(bad("sentinel_user needs a sentinel_password (for a user with `nopass`, any will do)"));
    }
    Ok(Target {
        database: database(number)?,
        places: Places::Sentinel(Sentinels { addresses: several.addresses, service, user, password }),
        user: several.user,
        password: several.password,
    })
}

/// `redis+cluster://[user[:password]@]seed1[:p1],seed2[:p2],…`.
fn cluster(several: Several) -> Result<Target, Error> {
    if let Some((name, _)) = several.parameters()?.first() {
        return Err(bad(format!("unknown parameter `{name}`")));
    }
    if database(&several.path)? != 0 {
        return Err(bad("a cluster has one database, the database 0"));
    }
    let (user, password) = (several.user, several.password);
    Ok(Target { places: Places::Cluster(several.addresses), database: 0, user, password })
}

fn unix(url: &Url) -> Result<Target, Error> {
    if url.host_str().is_some_and(|host| !host.is_empty()) {
        return Err(bad("a unix socket's path begins with three slashes: unix:///run/redis.sock"));
    }
    let path = decoded(url.path(), "path")?;
    if path.trim_matches('/').is_empty() {
        return Err(bad("the path of the unix socket is missing"));
    }
    let places = Places::One(Address::Unix(path.into()));
    let mut target = Target { places, database: 0, user: None, password: None };
    for (name, value) in url.query_pairs() {
        match &*name {
            "db" => target.database = database(&value)?,
            "user" => target.user = Some(value.into_owned()),
            "pass" => target.password = Some(value.into_owned()),
            _ => return Err(unknown(&name, target.password.is_some(), "db, user or pass")),
        }
    }
    target.user = target.user.filter(|user| !user.is_empty());
    check_credentials(target.user.as_deref(), target.password.as_deref())?;
    Ok(target)
}

/// Behind a password it may be the rest of it, after a `&` that was not encoded, and is not shown.
fn unknown(name: &str, is_behind_password: bool, known: &str) -> Error {
    if is_behind_password {
        let detail =
            format!("an unknown parameter behind the password: use {known}, and %26 for `&` in a password");
        return bad(detail);
    }
    bad(format!("unknown parameter `{name}`: use {known}"))
}

pub(crate) fn database(text: &str) -> Result<i64, Error> {
    match text {
        "" => Ok(0),
        text => match text.parse::<u32>() {
            Ok(number) => Ok(i64::from(number)),
            Err(_) => Err(bad(format!(
                "the database `{}` is not a number",
                text.chars().take(40).collect::<String>()
            ))),
        },
    }
}

fn decoded(text: &str, part: &str) -> Result<String, Error> {
    let decoded =
        percent_decode_str(text).decode_utf8().map_err(|_| bad(format!("the {part} is not UTF-8")))?;
    if decoded.contains('\0') {
        return Err(bad(format!("the {part} contains NUL")));
    }
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_read() {
        let target = Target::parse("rediss://al%40ce:p%3Aw@[::1]:7000/3").unwrap();
        assert!(target.places == Places::One(Address::Tcp { host: "::1".into(), port: 7000, tls: true }));
        assert_eq!(
            (target.database, target.user.as_deref(), target.password.as_deref()),
            (3, Some("al@ce"), Some("p:w"))
        );
        let target = Target::parse("unix:///run/r.sock?db=2&pass=x").unwrap();
        assert!(target.places == Places::One(Address::Unix("/run/r.sock".into())));
        assert_eq!((target.database, target.password.as_deref()), (2, Some("x")));
        assert_eq!(Target::parse("redis://host").unwrap().to_string(), "redis://host:6379/0");
    }

    #[test]
    fn every_malformed_shape_names_the_part_and_hides_the_password() {
        let shapes = [
            ("", "scheme"),
            ("localhost", "scheme"),
            ("localhost:6379", "scheme"),
            ("http://h", "`http`"),
            ("redis:h", "two slashes"),
            ("redis://", "host"),
            ("redis://:hunter2@", "host"),
            ("redis://:hunter2@:6379", "host"),
            ("redis://:hunter2@h:port", "port"),
            ("redis://:hunter2@h:99999", "port"),
            ("redis://:hunter2@h:0", "port"),
            ("redis://:hunter2@h/x", "database `x`"),
            ("redis://:hunter2@h/-1", "database `-1`"),
            ("redis://:hunter2@h/1/2", "database `1/2`"),
            ("redis://:hunter2@h?timeout=1", "parameter `timeout`"),
            ("redis://:hunter2@h#frag", "`#`"),
            ("redis://u:12/hunter2@host:6379", "percent-encoded"),
            ("redis://u:1?hunter2@h", "percent-encoded"),
            ("redis://u:hun/ter2@h", "percent-encoded"),
            ("redis://u:hunt#er2@h", "percent-encoded"),
            ("redis://:hunter2%ff@h", "password"),
            ("redis://:hunter2@[::1", "host"),
            ("redis://:hunter2@a b", "host"),
            ("unix://relative", "three slashes"),
            ("unix:///", "path"),
            ("unix:///s?pass=hunter2&db=x", "database"),
            ("unix:///s?pass=hunter2&x=1", "use db, user or pass"),
            ("unix:///s?pass=abc&hunter2", "%26"),
            ("unix:///s?y=1&pass=abc&hunter2", "parameter `y`"),
            ("redis+sentinel:h", "two slashes"),
            ("redis+sentinel://:hunter2@h", "service"),
            ("redis+sentinel://:hunter2@h/", "service"),
            ("redis+sentinel://:hunter2@h,/s", "host"),
            ("redis+sentinel://:hunter2@/s", "host"),
            ("redis+sentinel://:hunter2@h:x/s", "port"),
            ("redis+sentinel://:hunter2@h/s/x", "database `x`"),
            ("redis+sentinel://h/s?sentinel_password=hunter2&x=1", "use sentinel_user"),
            ("redis+sentinel://h/s?sentinel_password=abc&hunter2", "%26"),
            ("redis+sentinel://h/s?sentinel_password=abc&hunter2=%ff", "not UTF-8"),
            ("redis+sentinel://h/s?x=1&sentinel_password=hunter2", "parameter `x`"),
            ("redis+sentinel://:hun/ter2@h/s", "percent-encoded"),
            ("redis+sentinel://h/s?sentinel_password=hunter2%ff", "sentinel_password"),
            ("redis+cluster://:hunter2@", "host"),
            ("redis+cluster://:hunter2@h/1", "one database"),
            ("redis+cluster://:hunter2@h?x=1", "parameter `x`"),
            ("redis+cluster://a,b,a", "twice"),
            ("redis+cluster://:hunter2@u@h", "percent-encoded"),
            ("redis://hunter2@h", "a user without a password"),
            ("redis://hunter2:@h", "a user without a password"),
            ("unix:///s?user=hunter2", "a user without a password"),
            ("redis+cluster://hunter2@h", "a user without a password"),
            ("redis+sentinel://hunter2:@h/s", "a user without a password"),
            ("redis+sentinel://h/s?sentinel_user=hunter2", "needs a sentinel_password"),
        ];
        for (shape, part) in shapes {
            let error = Target::parse(shape).err().unwrap_or_else(|| panic!("accepted {shape}"));
            assert!(error.to_string().contains(part), "{shape}: {error}");
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2") && !shown.contains("er2"), "{shape}: {shown}");
        }
    }
    #[test]
    fn several_servers_are_read_and_shown_without_secrets() {
        let tcp = |host: &str, port| Address::Tcp { host: host.into(), port, tls: false };
        let text =
            "redis+sentinel://al:hunter2@a,[::1]:7,c:8/main/3?sentinel_user=s&sentinel_password=hunter2";
        let target = Target::parse(text).unwrap();
        let Places::Sentinel(sentinels) = &target.places else { panic!("Sentinels") };
        assert_eq!(sentinels.addresses, [tcp("a", 26_379), tcp("::1", 7), tcp("c", 8)]);
        assert_eq!((&*sentinels.service, sentinels.user.as_deref()), ("main", Some("s")));
        assert_eq!((target.database, target.user.as_deref()), (3, Some("al")));
        assert_eq!(target.to_string(), "redis+sentinel://a:26379,[::1]:7,c:8/main/3");
        let target = Target::parse("rediss+cluster://a,b:7/").unwrap();
        assert_eq!(target.to_string(), "rediss+cluster://a:6379,b:7");
    }
}
