//! Reading a server's URL. Errors name the part at fault and never show a password.

use std::fmt;
use std::path::PathBuf;

use lockkeeper_core::{Error, ErrorKind};
use percent_encoding::percent_decode_str;
use url::Url;

const DEFAULT_PORT: u16 = 6379;

/// A server, as its URL names it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) database: i64,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
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
            "redis" | "rediss" if !rest.starts_with("//") => {
                Err(bad(format!("after `{scheme}:` come two slashes")))
            }
            "redis" | "rediss" => tcp(&parsed(text)?, scheme == "rediss"),
            "unix" | "redis+unix" => unix(&parsed(text)?),
            "redis+sentinel" | "rediss+sentinel" | "redis+cluster" | "rediss+cluster" | "redis+quorum" => {
                Err(Error::new(
                    ErrorKind::Unsupported,
                    "url",
                    format!("the scheme `{scheme}` is not built yet"),
                ))
            }
            _ if scheme.len() < 20 => {
                Err(bad(format!("unknown scheme `{scheme}`: use redis, rediss or unix")))
            }
            _ => Err(bad("it has no scheme, such as redis://")),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp { host, port, tls } => {
                let (scheme, brackets) = (if *tls { "rediss" } else { "redis" }, host.contains(':'));
                let (open, close) = if brackets { ("[", "]") } else { ("", "") };
                write!(f, "{scheme}://{open}{host}{close}:{port}/{}", self.database)
            }
            Address::Unix(path) => write!(f, "unix://{}?db={}", path.display(), self.database),
        }
    }
}

/// An `@` after the end of what names the server: a character of the password ended it. Nothing of the rest may be
/// shown.
fn is_cut_in_its_password(text: &str) -> bool {
    let is_tcp = text.starts_with("redis:") || text.starts_with("rediss:");
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    is_tcp && rest.find(['/', '?', '#']).is_some_and(|end| rest[end..].contains('@'))
}

fn bad(detail: impl Into<String>) -> Error {
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
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| bad("the host is missing"))?;
    let host = decoded(host.trim_start_matches('[').trim_end_matches(']'), "host")?;
    let port = url.port().unwrap_or(DEFAULT_PORT);
    if port == 0 {
        return Err(bad("the port is not a number from 1 to 65535"));
    }
    if let Some((name, _)) = url.query_pairs().next() {
        return Err(bad(format!("unknown parameter `{name}`")));
    }
    Ok(Target {
        address: Address::Tcp { host, port, tls },
        database: database(url.path().trim_start_matches('/'))?,
        user: Some(decoded(url.username(), "user")?).filter(|user| !user.is_empty()),
        password: url.password().map(|password| decoded(password, "password")).transpose()?,
    })
}

fn unix(url: &Url) -> Result<Target, Error> {
    if url.host_str().is_some_and(|host| !host.is_empty()) {
        return Err(bad("a unix socket's path begins with three slashes: unix:///run/redis.sock"));
    }
    let path = decoded(url.path(), "path")?;
    if path.trim_matches('/').is_empty() {
        return Err(bad("the path of the unix socket is missing"));
    }
    let mut target = Target { address: Address::Unix(path.into()), database: 0, user: None, password: None };
    for (name, value) in url.query_pairs() {
        match &*name {
            "db" => target.database = database(&value)?,
            "user" => target.user = Some(value.into_owned()),
            "pass" => target.password = Some(value.into_owned()),
            _ => return Err(bad(format!("unknown parameter `{name}`: use db, user or pass"))),
        }
    }
    Ok(target)
}

fn database(text: &str) -> Result<i64, Error> {
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
        assert_eq!(target.address, Address::Tcp { host: "::1".into(), port: 7000, tls: true });
        assert_eq!(
            (target.database, target.user.as_deref(), target.password.as_deref()),
            (3, Some("al@ce"), Some("p:w"))
        );
        let target = Target::parse("unix:///run/r.sock?db=2&pass=x").unwrap();
        assert_eq!(target.address, Address::Unix("/run/r.sock".into()));
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
            ("unix:///s?pass=hunter2&x=1", "parameter `x`"),
            ("redis+sentinel://h", "not built yet"),
        ];
        for (shape, part) in shapes {
            let error = Target::parse(shape).err().unwrap_or_else(|| panic!("accepted {shape}"));
            assert!(error.to_string().contains(part), "{shape}: {error}");
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2") && !shown.contains("er2"), "{shape}: {shown}");
        }
    }
}
