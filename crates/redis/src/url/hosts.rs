//! URLs that name several servers: `//[user[:password]@]h1[:p1],h2[:p2],…[/path][?parameters]`.

use lockkeeper_core::Error;

use super::{Address, bad, check_credentials, decoded, host, parsed};

/// The most servers that a URL may name.
pub(crate) const MAX_HOSTS: usize = 64;

/// What such a URL has after its scheme.
pub(crate) struct Several {
    pub(crate) addresses: Vec<Address>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// Without the slash before it; not decoded.
    pub(crate) path: String,
    query: String,
}

impl Several {
    /// Reads what follows `scheme:`.
    pub(crate) fn parse(rest: &str, default_port: u16, tls: bool) -> Result<Self, Error> {
        let rest = rest.trim_start_matches('/');
        if rest.contains('#') {
            return Err(bad("a `#` has no meaning here; percent-encode it in a password (%23)"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        if credentials.contains('@') {
            return Err(bad("`@` in user or password must be percent-encoded (%40)"));
        }
        let (user, password) = match credentials.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password, "password")?)),
            None => (credentials, None),
        };
        let user = Some(decoded(user, "user")?).filter(|user| !user.is_empty());
        check_credentials(user.as_deref(), password.as_deref())?;
        Ok(Self {
            addresses: addresses(hosts, default_port, tls)?,
            user,
            password,
            path: path.to_owned(),
            query: query.to_owned(),
        })
    }

    /// The parameters in order. A value that is not UTF-8 is refused, and never shown.
    pub(crate) fn parameters(&self) -> Result<Vec<(String, String)>, Error> {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        let mut secret = false;
        let read = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decoded(name, "name of a parameter")?;
            // What stands behind a password may be the rest of it.
            let part = if secret { "value of a parameter".to_owned() } else { format!("value of `{name}`") };
            secret |= name.contains("pass");
            Ok((name, decoded(value, &part)?))
        };
        pairs.map(read).collect()
    }
}

fn addresses(hosts: &str, default_port: u16, tls: bool) -> Result<Vec<Address>, Error> {
    let mut addresses = Vec::new();
    for text in hosts.split(',') {
        if text.is_empty() {
            return Err(bad("a host is missing"));
        }
        let address = host(&parsed(&format!("redis://{text}"))?, default_port, tls)?;
        if addresses.contains(&address) {
            return Err(bad(format!("the server {address} is named twice")));
        }
        if addresses.len() == MAX_HOSTS {
            return Err(bad(format!("more than {MAX_HOSTS} servers")));
        }
        addresses.push(address);
    }
    Ok(addresses)
}
