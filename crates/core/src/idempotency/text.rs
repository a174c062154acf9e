//! A record as the bytes of one string key.
//!
//! `once1 <r|t|c|o> <fence> <attempt> <ends> <hold> <retain> <fingerprint> <whole> <token length> <token><result>`
//!
//! Running is `r`, or `t` where it is a takeover.
//!
//! The format's version is in the value, not in the key's name: a program that does not know the format must find the
//! record and refuse, instead of finding nothing and running the operation a second time.

use super::fingerprint::Fingerprint;
use super::record::{Record, RecordState};
use super::stored::Stored;
use crate::lock::{MAX_TOKEN_BYTES, OwnerToken};

/// What every record begins with.
const FORMAT: &[u8] = b"once1";
const FIELDS: usize = 10;
/// More digits than any number of a record has.
const MOST_DIGITS: usize = 16;

impl Record {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (state, whole, result): (char, u8, &[u8]) = match &self.state {
            RecordState::Running { takeover: false } => ('r', 0, b""),
            RecordState::Running { takeover: true } => ('t', 0, b""),
            RecordState::Open => ('o', 0, b""),
            RecordState::Completed(stored) => ('c', stored.is_whole().into(), stored.bytes()),
        };
        let hex = self.fingerprint.to_hex();
        let head = format!(
            "once1 {state} {} {} {} {} {} {} {whole} {} ",
            self.fence,
            self.attempt,
            self.ends,
            self.hold,
            self.retain,
            std::str::from_utf8(&hex).unwrap_or_default(),
            self.token.as_bytes().len(),
        );
        [head.as_bytes(), self.token.as_bytes(), result].concat()
    }

    /// `None` where it is no record of ours.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut fields = bytes.splitn(FIELDS + 1, |byte| *byte == b' ');
        let mut next = || fields.next();
        if next()? != FORMAT {
            return None;
        }
        let state = next()?;
        let [fence, attempt, ends, hold, retain] = [next()?, next()?, next()?, next()?, next()?].map(number);
        let (fingerprint, whole, length, rest) =
            (Fingerprint::from_hex(next()?)?, next()?, number(next()?)?, next()?);
        let length = usize::try_from(length).ok().filter(|length| (1..=MAX_TOKEN_BYTES).contains(length))?;
        let (token, result) = rest.split_at_checked(length)?;
        let state = match (state, whole, result) {
            (b"r", b"0", b"") => RecordState::Running { takeover: false },
            (b"t", b"0", b"") => RecordState::Running { takeover: true },
            (b"o", b"0", b"") => RecordState::Open,
            (b"c", b"0", result) => RecordState::Completed(Stored::not_kept(result).ok()?),
            (b"c", b"1", result) => RecordState::Completed(Stored::whole(result).ok()?),
            _ => return None,
        };
        let token = OwnerToken::given(token).ok()?;
        let (fence, attempt, ends) = (fence?, attempt?, ends?);
        let record = Self { state, fence, attempt, ends, hold: hold?, retain: retain?, fingerprint, token };
        record.is_sound().then_some(record)
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = (1..=MOST_DIGITS).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}
