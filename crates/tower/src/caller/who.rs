//! From a request to a subject.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use http::header::AUTHORIZATION;
use http::request::Parts;
use lockkeeper::{Error, IntoSubject, Subject};

use super::peer::peer_of;
use crate::client_address::{ClientAddress, SingleAddressWatch};

const SCHEME: &str = "bearer";

/// How a request's subject is found. Cheap to clone.
///
/// As whom a limit counts: per route, unless it is said that all routes count [together](Self::over_all_routes). A request
/// whose subject cannot be told is never let past, and never answered with an error: all such requests of a rule (and
/// route) have one count together, as `@unknown:subject`, and a warning in the log says why, at the first of them, the
/// second, the fourth and so on.
///
/// As whose an idempotency key is: a request whose subject cannot be told is refused.
#[derive(Clone)]
pub struct Who {
    find: Arc<Find>,
    is_over_all_routes: bool,
}

type Find = dyn Fn(&Parts) -> Result<Subject, Unknown> + Send + Sync;

/// Why a subject cannot be told.
pub(crate) struct Unknown(Cow<'static, str>);

impl Who {
    /// Your own way. `None`: it cannot be told.
    ///
    /// ```
    /// use lockkeeper::Subject;
    /// use lockkeeper_tower::rate_limit::Who;
    ///
    /// # #[derive(Clone)] struct User { id: String }
    /// let by_user = Who::by(|request| Some(Subject::user(&request.extensions.get::<User>()?.id)));
    /// ```
    pub fn by<F, I>(find: F) -> Self
    where
        F: Fn(&Parts) -> Option<I> + Send + Sync + 'static,
        I: IntoSubject,
    {
        Self::found(move |parts| {
            let found = find(parts).ok_or(Unknown(Cow::Borrowed("the request does not name it")))?;
            Ok(found.into_subject()?)
        })
    }

    /// The client's address; IPv6 by its first 64 bits.
    ///
    /// The peer is whatever of these the request's extensions hold: [`PeerAddress`](super::PeerAddress), a
    /// [`SocketAddr`](std::net::SocketAddr), and with the feature `axum` its `ConnectInfo<SocketAddr>`, for which an
    /// axum server is started with `into_make_service_with_connect_info::<SocketAddr>()`.
    ///
    /// Warns once if all of the first 1000 requests came from one private address: then a proxy stands in front that
    /// `address` was not told of.
    pub fn address(address: ClientAddress) -> Self {
        let watch = Arc::new(SingleAddressWatch::new());
        Self::found(move |parts| {
            let found = address.find(peer_of(parts), &parts.headers);
            let found = found.map_err(|error| {
                let hint = "start the server with connect info, or insert a `PeerAddress`";
                Unknown(format!("{error}; {hint}").into())
            })?;
            watch.saw(found);
            Ok(Subject::ip(found))
        })
    }

    /// A header's value, such as an API key, as a secret of this kind: all of it, digested. Nothing of it is readable on
    /// the server. Of any length and any bytes.
    ///
    /// Only where somebody checks that the value is real, or beside a rule for the address: who can invent values has
    /// a new count with each. Two different values in one request cannot be told, because nobody knows which one counts
    /// further in.
    ///
    /// # Errors
    /// `kind` is not a letter of a–z and at most 31 more of a–z, 0–9 and `_`.
    pub fn secret_header(kind: &str, name: HeaderName) -> Result<Self, Error> {
        Subject::secret(kind, b"any")?;
        let kind = kind.to_owned();
        Ok(Self::found(move |parts| Ok(Subject::secret(&kind, only_value(parts, &name)?)?)))
    }

    /// The token of `Authorization: Bearer …`, as [`secret_header`](Self::secret_header). However the word `Bearer`
    /// and the space behind it are written, the token is the same.
    ///
    /// Not for idempotency keys where tokens are renewed, as those of OAuth are every few minutes: a retry with the next token
    /// is another caller's request, and has its effect a second time. There, use the account ([`extension`](Self::extension)).
    pub fn bearer_token() -> Self {
        Self::found(|parts| {
            let value = only_value(parts, &AUTHORIZATION)?;
            let (scheme, token) = value.split_at_checked(SCHEME.len()).unwrap_or_default();
            if !scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) || !token.starts_with(b" ") {
                return Err(Unknown(Cow::Borrowed("the header `authorization` has no bearer token")));
            }
            Ok(Subject::secret("bearer", token.trim_ascii())?)
        })
    }

    /// What an earlier layer put into the request's extensions, such as the user who logged in.
    pub fn extension<T, I>(subject: impl Fn(&T) -> I + Send + Sync + 'static) -> Self
    where
        T: Clone + Send + Sync + 'static,
        I: IntoSubject,
    {
        Self::found(move |parts| match parts.extensions.get::<T>() {
            Some(found) => Ok(subject(found).into_subject()?),
            None => {
                let name = std::any::type_name::<T>();
                Err(Unknown(format!("the request has no extension `{name}`").into()))
            }
        })
    }

    /// Everybody together: one count for each route; idempotency keys that all callers share.
    pub fn everyone() -> Self {
        Self::found(|_| Ok(Subject::of("everyone", "1")?))
    }

    fn found(find: impl Fn(&Parts) -> Result<Subject, Unknown> + Send + Sync + 'static) -> Self {
        Self { find: Arc::new(find), is_over_all_routes: false }
    }

    /// Where this one cannot be told, `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let Self { find, is_over_all_routes } = self;
        Self { is_over_all_routes, ..Self::found(move |parts| find(parts).or_else(|_| (other.find)(parts))) }
    }

    /// This one and `other` together: each combination is counted on its own. `other` must give typed subjects.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let Self { find, is_over_all_routes } = self;
        let both = move |parts: &Parts| {
            // Not the error, which would put the subjects into the log.
            let plain = |_| Unknown(Cow::Borrowed("the second of two subjects is plain; give it a kind"));
            find(parts)?.join(&(other.find)(parts)?).map_err(plain)
        };
        Self { is_over_all_routes, ..Self::found(both) }
    }

    /// Counts over all routes together instead of each route on its own. Idempotency keys belong to a route all the same.
    #[must_use]
    pub fn over_all_routes(self) -> Self {
        Self { is_over_all_routes: true, ..self }
    }

    /// The subject, or why it cannot be told.
    pub(crate) fn find(&self, parts: &Parts) -> Result<Subject, Unknown> {
        (self.find)(parts)
    }

    #[cfg(feature = "rate-limit")]
    pub(crate) fn is_over_all_routes(&self) -> bool {
        self.is_over_all_routes
    }
}

/// The value of a header that has one value only.
fn only_value<'a>(parts: &'a Parts, name: &HeaderName) -> Result<&'a [u8], Unknown> {
    let mut values = parts.headers.get_all(name).iter();
    let Some(first) = values.next() else {
        return Err(Unknown(format!("the request has no header `{name}`").into()));
    };
    if values.any(|other| other != first) {
        return Err(Unknown(format!("the request has several values of the header `{name}`").into()));
    }
    Ok(first.as_bytes())
}

impl From<Error> for Unknown {
    fn from(error: Error) -> Self {
        Self(error.to_string().into())
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Who").field("is_over_all_routes", &self.is_over_all_routes).finish_non_exhaustive()
    }
}
