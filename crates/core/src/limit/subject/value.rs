//! Who or what a limit counts.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::encode::Encoded;
use super::text::{MAX_SUBJECT_BYTES, Text};
use crate::error::Error;
use crate::key::Escaped;

/// The longest kind of a typed subject, in bytes.
pub const MAX_KIND_BYTES: usize = 32;

const OPERATION: &str = "subject";

/// Who or what a limit counts: a user, an address, an API key, or several of them together.
///
/// Encoded once, into at most [`MAX_SUBJECT_BYTES`] bytes of printable ASCII, of whatever length and bytes it was
/// made. Cheap to clone. Equal and hashed as the encoded bytes are.
///
/// | Made by | Encoded as |
/// |---|---|
/// | [`new("user:42")`](Self::new) | `user:42` |
/// | [`user("42")`](Self::user) | `@user:42` |
/// | [`user("42")?.and("route", "/login")`](Self::and) | `@user:42@route:/login` |
/// | [`ip(…)`](Self::ip) | `@ip:192.0.2.1`, `@ip:2001:db8:1:2::/64` |
/// | [`secret("api_key", …)`](Self::secret) | `@api_key:#` and 22 characters |
///
/// Different users never share a count because of how they are written: a plain subject never equals a typed one,
/// and different lists of parts never give the same bytes. In a value, `%`, `{`, `}`, `@`, a `#` at its beginning and
/// every byte that is not printable ASCII is written `%XX`.
///
/// A value whose escaped form is longer than [`MAX_VALUE_BYTES`](super::MAX_VALUE_BYTES), and every secret, is
/// replaced by `#` and a digest: the first 128 bits of the SHA-256 of its raw bytes. Parts that are together longer
/// than [`MAX_SUBJECT_BYTES`] are replaced by `@#` and a digest of them all. Two of those are equal only if somebody
/// finds a collision of 128 bits.
///
/// ```
/// use lockkeeper_core::limit::Subject;
///
/// let subject = Subject::user("42")?.and("route", "/login")?;
/// assert_eq!(subject.to_string(), "@user:42@route:/login");
/// # Ok::<(), lockkeeper_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Subject(Text);

impl Subject {
    /// A plain one, of any bytes. Where it may be confused with another kind of subject (a user called `127.0.0.1`),
    /// use [`of`](Self::of).
    ///
    /// # Errors
    /// It is empty.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, Error> {
        match bytes.as_ref() {
            [] => Err(Error::bad_argument(OPERATION, "the subject is empty")),
            bytes => Ok(Self(Text::of(&[Encoded::value(bytes).as_bytes()]))),
        }
    }

    /// One of a kind, such as `of("user", "42")`. For addresses use [`ip`](Self::ip), which groups them.
    ///
    /// # Errors
    /// The kind is not a letter of a–z and at most 31 more of a–z, 0–9 and `_`; or the value is empty.
    pub fn of(kind: &str, value: impl AsRef<[u8]>) -> Result<Self, Error> {
        let value = checked(kind, value.as_ref())?;
        Ok(Self::part(kind, &Encoded::value(value)))
    }

    /// A user, by whatever tells users apart: `@user:42`.
    ///
    /// # Errors
    /// It is empty.
    pub fn user(id: impl AsRef<[u8]>) -> Result<Self, Error> {
        Self::of("user", id)
    }

    /// What must not be readable on the server, such as an API key: always a digest, of all its bytes.
    ///
    /// The digest hides a random secret. What can be guessed (a telephone number, a short password) can be guessed
    /// from its digest too.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn secret(kind: &str, bytes: impl AsRef<[u8]>) -> Result<Self, Error> {
        let bytes = checked(kind, bytes.as_ref())?;
        Ok(Self::part(kind, &Encoded::digest(&[bytes])))
    }

    /// One by its encoded bytes, as a key, a listing or [`Display`](fmt::Display) shows them: for operators' tools.
    /// Whatever comes from a client goes through the other constructors, which keep different subjects apart.
    ///
    /// # Errors
    /// Empty, longer than [`MAX_SUBJECT_BYTES`], or with a byte that no encoded subject has.
    pub fn from_encoded(bytes: impl AsRef<[u8]>) -> Result<Self, Error> {
        let bytes = bytes.as_ref();
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'{' | b'}');
        if (1..=MAX_SUBJECT_BYTES).contains(&bytes.len()) && bytes.iter().all(is_plain) {
            return Ok(Self(Text::of(&[bytes])));
        }
        let detail = format!(
            "`{}` is no encoded subject: 1 to {MAX_SUBJECT_BYTES} bytes of printable ASCII without braces",
            Escaped(bytes)
        );
        Err(Error::bad_argument(OPERATION, detail))
    }

    /// This and another part together: each combination is counted on its own. The order of parts matters.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn and(&self, kind: &str, value: impl AsRef<[u8]>) -> Result<Self, Error> {
        Ok(self.followed_by(&Self::of(kind, value)?))
    }

    /// This and another typed subject together, such as an address and a secret.
    ///
    /// Join in the same order everywhere: beyond [`MAX_SUBJECT_BYTES`], `a.join(b.join(c))` has another digest than
    /// `a.join(b).join(c)`.
    ///
    /// # Errors
    /// The other one is plain: where it begins could not be told. This one may be plain.
    pub fn join(&self, other: &Self) -> Result<Self, Error> {
        if !other.is_typed() {
            let detail = format!("`{other}` is plain and cannot be joined to `{self}`; give it a kind");
            return Err(Error::bad_argument(OPERATION, detail));
        }
        Ok(self.followed_by(other))
    }

    /// Made of parts with kinds, not of plain bytes.
    pub fn is_typed(&self) -> bool {
        self.as_bytes().first() == Some(&b'@')
    }

    /// The encoded bytes: 1 to [`MAX_SUBJECT_BYTES`] of printable ASCII without braces.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(super) fn part(kind: &str, value: &Encoded) -> Self {
        Self(Text::of(&[b"@", kind.as_bytes(), b":", value.as_bytes()]))
    }

    fn followed_by(&self, other: &Self) -> Self {
        let both = [self.as_bytes(), other.as_bytes()];
        if both[0].len() + both[1].len() <= MAX_SUBJECT_BYTES {
            return Self(Text::of(&both));
        }
        // No kind begins with `#`, so this is no list of parts.
        Self(Text::of(&[b"@", Encoded::digest(&both).as_bytes()]))
    }
}

fn checked<'a>(kind: &str, value: &'a [u8]) -> Result<&'a [u8], Error> {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
    let starts_well = kind.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    if !starts_well || kind.len() > MAX_KIND_BYTES || !kind.as_bytes().iter().all(plain) {
        let detail = format!(
            "the kind `{}` must be a letter of a-z and at most {} more of a-z, 0-9 and _",
            Escaped(kind.as_bytes()),
            MAX_KIND_BYTES - 1
        );
        return Err(Error::bad_argument(OPERATION, detail));
    }
    if value.is_empty() {
        return Err(Error::bad_argument(OPERATION, format!("the value of `{kind}` is empty")));
    }
    Ok(value)
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}
impl Eq for Subject {}
impl Hash for Subject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}
/// Equal and hashed as its bytes are.
impl Borrow<[u8]> for Subject {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(self.as_bytes()) {
            Ok(text) => f.pad(text),
            Err(_) => Escaped(self.as_bytes()).fmt(f),
        }
    }
}
impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subject({self})")
    }
}
