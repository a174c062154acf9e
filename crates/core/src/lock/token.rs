//! Who holds: the secret that proves ownership, and the part of it that people may see.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::presence::KeeperName;
use crate::error::Error;
use crate::key::Escaped;
use crate::time::Timestamp;
use crate::url_safe::{URL_SAFE_CHARS, is_url_safe, url_safe};

/// The longest token that we write or accept, in bytes.
pub const MAX_TOKEN_BYTES: usize = 256;
const SECRET_CHARS: usize = URL_SAFE_CHARS;
const MOST_LABEL: usize = 64;

/// The right to release one acquisition: 128 random bits, then who and when in clear:
/// `IZ9…(22 characters)@host:pid:acquired-ms[:label]`.
///
/// `Debug` and `Display` show the holder only. Unique per acquisition, never per client.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerToken(Arc<[u8]>);

impl OwnerToken {
    /// A token of ours. `random` must come from the system's generator.
    pub fn generate(random: [u8; 16], identity: &Identity, now: Timestamp) -> Self {
        let mut digits = [0; 20];
        let parts =
            [identity.text.as_bytes(), decimal(now.as_millis(), &mut digits), identity.label.as_bytes()];
        let secret = url_safe(random);
        let mut token = [0; MAX_TOKEN_BYTES];
        token[..SECRET_CHARS].copy_from_slice(&secret);
        let mut length = SECRET_CHARS;
        for part in parts {
            token[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        }
        Self(token[..length].into())
    }

    /// A token that the caller chose, for example to release in another process.
    ///
    /// # Errors
    /// Empty, or longer than [`MAX_TOKEN_BYTES`].
    pub fn given(bytes: impl AsRef<[u8]>) -> Result<Self, Error> {
        match bytes.as_ref() {
            [] => Err(Error::bad_argument("token", "the token is empty")),
            bytes if bytes.len() > MAX_TOKEN_BYTES => {
                let detail = format!("the token has {} bytes; at most {MAX_TOKEN_BYTES}", bytes.len());
                Err(Error::bad_argument("token", detail))
            }
            bytes => Ok(Self(bytes.into())),
        }
    }

    /// The same holder with nothing in the secret's place: the right to nothing.
    #[must_use]
    pub fn without_secret(&self) -> Self {
        let mut bytes = self.0.to_vec();
        let secret = if self.holder().is_ours() { SECRET_CHARS } else { bytes.len() };
        bytes[..secret].fill(b'-');
        Self(bytes.into())
    }

    /// The secret itself. Who has it can release.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// What may be shown.
    pub fn holder(&self) -> Holder {
        Holder::new(&self.0, self.0.len() as u64)
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerToken({})", self.holder())
    }
}

/// Who this process is, prepared once: host, process id, and an optional label.
#[derive(Clone, Debug)]
pub struct Identity {
    text: String,
    label: String,
}

impl Identity {
    /// Unusual characters become `_`; host and label are cut to 64 characters.
    pub fn new(host: &str, pid: u32) -> Self {
        let host = sanitised(host);
        Self {
            text: format!("@{}:{pid}:", if host.is_empty() { "unknown" } else { &host }),
            label: String::new(),
        }
    }

    /// Under `label`, if there is one.
    pub fn labelled_or_as_is(&self, label: Option<&str>) -> Cow<'_, Self> {
        label.map_or(Cow::Borrowed(self), |label| Cow::Owned(self.labelled(label)))
    }

    /// The name of a keeper in this process: unique by `random`, and readable.
    pub fn keeper(&self, random: u32) -> KeeperName {
        let who = self.text.trim_start_matches('@');
        KeeperName::new(format!("{who}{random:08x}{}", self.label))
    }

    /// The same process under a label, shown after the time.
    #[must_use]
    pub fn labelled(&self, label: &str) -> Self {
        let label = sanitised(label);
        let label = if label.is_empty() { label } else { format!(":{label}") };
        Self { text: self.text.clone(), label }
    }
}

/// A holder, as found in the store. Shows who it is, without the secret.
///
/// Of a token of ours, everything after the random part. Of a foreign token, which may be its owner's secret as a
/// whole, the first eight characters (or bytes in hexadecimal) and its length.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The first [`MAX_TOKEN_BYTES`] bytes: what a forced release is compared with.
    token: Arc<[u8]>,
    length: u64,
}

impl Holder {
    /// From the value under a key (or its first bytes) and the value's full length.
    pub fn new(value: &[u8], length: u64) -> Self {
        Self { token: value[..value.len().min(MAX_TOKEN_BYTES)].into(), length }
    }

    /// The first bytes of the token. They are (part of) a secret: do not show or log them.
    pub fn token_bytes(&self) -> &[u8] {
        &self.token
    }

    /// The token's full length in bytes.
    pub fn token_length(&self) -> u64 {
        self.length
    }

    /// Eight hexadecimal digits that tell two holders apart and give nothing away (of the SHA-1 of the token).
    pub fn id(&self) -> String {
        sha1_smol::Sha1::from(&self.token).digest().to_string()[..8].to_owned()
    }

    /// When it was acquired, by the holder's own word, if it is a token of ours.
    pub fn acquired_at(&self) -> Option<Timestamp> {
        let ms: u64 = self.ours()?.split(':').nth(2)?.parse().ok()?;
        Some(Timestamp::from_micros(ms.checked_mul(1000)?))
    }

    /// It carries a token of this project's form.
    pub fn is_ours(&self) -> bool {
        self.ours().is_some()
    }

    /// `host:pid:ms[:label]`, if the token has our form.
    fn ours(&self) -> Option<&str> {
        let text = std::str::from_utf8(&self.token).ok()?;
        let (secret, holder) = text.split_at_checked(SECRET_CHARS)?;
        let holder = holder.strip_prefix('@')?;
        let mut fields = holder.splitn(4, ':');
        let (host, pid, ms) = (fields.next()?, fields.next()?, fields.next()?);
        let ours = secret.bytes().all(is_url_safe)
            && !host.is_empty()
            && pid.parse::<u32>().is_ok()
            && ms.parse::<u64>().is_ok()
            && holder.bytes().all(|byte| byte == b':' || is_plain(byte));
        ours.then_some(holder)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        if let Some(holder) = self.ours() {
            return f.write_str(holder);
        }
        let head = &self.token[..self.token.len().min(SHOWN)];
        let more = if self.length > head.len() as u64 { "…" } else { "" };
        if head.is_ascii() && !head.iter().any(u8::is_ascii_control) {
            write!(f, "foreign `{}{more}` ({} bytes)", Escaped(head), self.length)
        } else {
            write!(f, "foreign 0x")?;
            head.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            write!(f, "{more} ({} bytes)", self.length)
        }
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Holder({self})")
    }
}

fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[start..];
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

fn sanitised(text: &str) -> String {
    text.chars().take(MOST_LABEL).map(|c| if c.is_ascii() && is_plain(c as u8) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(seed: u8) -> OwnerToken {
        let identity = Identity::new("web-1", 4711).labelled("billing");
        OwnerToken::generate([seed; 16], &identity, Timestamp::from_micros(1_767_225_600_123_456))
    }

    #[test]
    fn the_holder_part_is_readable_and_the_secret_is_not_shown() {
        let token = token(0xA5);
        let holder = token.holder();
        assert_eq!(holder.to_string(), "web-1:4711:1767225600123:billing");
        assert_eq!(holder.acquired_at().unwrap().as_micros(), 1_767_225_600_123_000);
        let secret = std::str::from_utf8(&token.as_bytes()[..SECRET_CHARS]).unwrap().to_owned();
        for shown in [format!("{token:?}"), format!("{holder:?}"), format!("{holder}"), holder.id()] {
            assert!(!shown.contains(&secret), "{shown}");
        }
    }

    #[test]
    fn all_128_random_bits_reach_the_token() {
        let base = token(0);
        for bit in 0..128 {
            let mut random = [0u8; 16];
            random[bit / 8] ^= 1 << (bit % 8);
            let identity = Identity::new("web-1", 4711).labelled("billing");
            let other =
                OwnerToken::generate(random, &identity, Timestamp::from_micros(1_767_225_600_123_456));
            assert_ne!(base, other, "bit {bit}");
        }
    }

    #[test]
    fn l118_foreign_tokens_are_shown_in_part_and_never_fail_to_decode() {
        let binary = Holder::new(&[0xff; 20], 20);
        assert_eq!(binary.to_string(), "foreign 0xffffffffffffffff… (20 bytes)");
        let text = Holder::new(b"8b3c9d5e6f", 10);
        assert_eq!(text.to_string(), "foreign `8b3c9d5e…` (10 bytes)");
        assert!(!text.is_ours() && Holder::new(b"", 0).to_string().contains("0 bytes"));
    }

    #[test]
    fn hostile_host_names_and_labels_are_sanitised_and_bounded() {
        let identity = Identity::new("a b\n:c\u{e9}", 1).labelled(&"x".repeat(1000));
        let token = OwnerToken::generate([1; 16], &identity, Timestamp::from_micros(0));
        assert!(token.as_bytes().len() <= MAX_TOKEN_BYTES);
        assert!(token.holder().to_string().starts_with("a_b__c_:1:0:xxx"), "{}", token.holder());
    }

    #[test]
    fn given_tokens_are_bounded() {
        assert!(OwnerToken::given("").is_err() && OwnerToken::given([0u8; 257]).is_err());
        assert!(OwnerToken::given([0u8; 256]).is_ok());
    }
}
