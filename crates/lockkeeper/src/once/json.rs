//! The digest of what a JSON text says, in one pass.
//!
//! Each value is fed as a letter for its kind and what it says in one form only. An object is fed as its members in the order of
//! their names, each with the digest of its value.

use std::borrow::Cow;
use std::fmt;

use sha2::{Digest, Sha256};

/// The deepest nesting of arrays and objects.
pub const MAX_DEPTH: usize = 128;
/// An exponent with more digits is refused: nobody means it.
const MOST_EXPONENT_DIGITS: usize = 18;

/// What is wrong with a text, and at which byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid {
    at: usize,
    what: What,
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    Expected(&'static str),
    Text(String),
    Twice(String),
    TooDeep,
    Exponent,
}

/// Feeds `digest` with what `text` says.
pub(super) fn digest(text: &[u8], digest: &mut Sha256) -> Result<(), Invalid> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    reader.value(digest)?;
    reader.space();
    match reader.at == text.len() {
        true => Ok(()),
        false => Err(reader.expected("nothing more")),
    }
}

/// Feeds `digest` with these bytes and their length.
pub(super) fn put(digest: &mut Sha256, bytes: &[u8]) {
    digest.update((bytes.len() as u64).to_be_bytes());
    digest.update(bytes);
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, digest: &mut Sha256) -> Result<(), Invalid> {
        self.space();
        match self.peek() {
            Some(b'{') => self.nested(digest, Self::object),
            Some(b'[') => self.nested(digest, Self::array),
            Some(b'"') => {
                digest.update(b"s");
                put(digest, self.string()?.as_bytes());
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(digest),
            Some(b't') => self.word("true", digest),
            Some(b'f') => self.word("false", digest),
            Some(b'n') => self.word("null", digest),
            _ => Err(self.expected("a value")),
        }
    }

    fn nested(
        &mut self,
        digest: &mut Sha256,
        read: fn(&mut Self, &mut Sha256) -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        if self.depth == MAX_DEPTH {
            return Err(self.invalid(What::TooDeep));
        }
        self.depth += 1;
        self.at += 1;
        read(self, digest)?;
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self, digest: &mut Sha256) -> Result<(), Invalid> {
        digest.update(b"[");
        self.space();
        if !self.eat(b']') {
            loop {
                self.value(digest)?;
                self.space();
                if self.eat(b']') {
                    break;
                }
                self.want(b',', "`,` or `]`")?;
            }
        }
        digest.update(b"]");
        Ok(())
    }

    fn object(&mut self, digest: &mut Sha256) -> Result<(), Invalid> {
        let mut members: Vec<(Cow<'a, str>, [u8; 32])> = Vec::new();
        self.space();
        if !self.eat(b'}') {
            loop {
                members.push(self.member()?);
                self.space();
                if self.eat(b'}') {
                    break;
                }
                self.want(b',', "`,` or `}`")?;
            }
        }
        members.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(self.invalid(What::Twice(pair[0].0.chars().take(64).collect())));
        }
        digest.update(b"{");
        digest.update((members.len() as u64).to_be_bytes());
        for (name, value) in members {
            put(digest, name.as_bytes());
            digest.update(value);
        }
        Ok(())
    }

    fn member(&mut self) -> Result<(Cow<'a, str>, [u8; 32]), Invalid> {
        self.space();
        if self.peek() != Some(b'"') {
            return Err(self.expected("a name"));
        }
        let name = self.string()?;
        self.space();
        self.want(b':', "`:`")?;
        let mut value = Sha256::new();
        self.value(&mut value)?;
        Ok((name, value.finalize().into()))
    }

    /// Finds its end; what is between is `serde_json`'s to read.
    fn string(&mut self) -> Result<Cow<'a, str>, Invalid> {
        let start = self.at;
        self.at += 1;
        let mut is_plain = true;
        loop {
            match self.peek() {
                None => return Err(self.expected("the end of a string")),
                Some(b'"') => break,
                Some(b'\\') => {
                    is_plain = false;
                    self.at += 2;
                }
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        let quoted = &self.text[start..self.at];
        let read = match is_plain {
            true => serde_json::from_slice::<&str>(quoted).map(Cow::Borrowed),
            false => serde_json::from_slice::<String>(quoted).map(Cow::Owned),
        };
        read.map_err(|error| Invalid { at: start, what: What::Text(error.to_string()) })
    }

    fn number(&mut self, digest: &mut Sha256) -> Result<(), Invalid> {
        let is_negative = self.eat(b'-');
        let whole = self.digits()?;
        if whole.len() > 1 && whole[0] == b'0' {
            return Err(self.expected("a number without leading zeros"));
        }
        let part = if self.eat(b'.') { self.digits()? } else { &[] };
        let exponent = if self.eat(b'e') || self.eat(b'E') { self.exponent()? } else { 0 };
        digest.update(b"#");
        put(digest, &decimal(is_negative, whole, part, exponent));
        Ok(())
    }

    fn exponent(&mut self) -> Result<i64, Invalid> {
        let is_negative = self.eat(b'-');
        if !is_negative {
            self.eat(b'+');
        }
        let digits = self.digits()?;
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        if digits.len() - zeros > MOST_EXPONENT_DIGITS {
            return Err(self.invalid(What::Exponent));
        }
        let value = digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        Ok(if is_negative { -value } else { value })
    }

    fn digits(&mut self) -> Result<&'a [u8], Invalid> {
        let text = self.text;
        let rest = &text[self.at..];
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 {
            return Err(self.expected("a digit"));
        }
        self.at += length;
        Ok(&rest[..length])
    }

    fn word(&mut self, word: &'static str, digest: &mut Sha256) -> Result<(), Invalid> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return Err(self.expected(word));
        }
        self.at += word.len();
        digest.update(&word[..1]);
        Ok(())
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn want(&mut self, byte: u8, what: &'static str) -> Result<(), Invalid> {
        if self.eat(byte) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn expected(&self, what: &'static str) -> Invalid {
        self.invalid(What::Expected(what))
    }

    fn invalid(&self, what: What) -> Invalid {
        Invalid { at: self.at, what }
    }
}

/// The value in one form: sign, digits that neither begin nor end with a zero, `e`, and the power of ten of the last one.
fn decimal(is_negative: bool, whole: &[u8], part: &[u8], exponent: i64) -> Vec<u8> {
    let digits: Vec<u8> = whole.iter().chain(part).copied().skip_while(|digit| *digit == b'0').collect();
    let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
    let digits = &digits[..digits.len() - zeros];
    if digits.is_empty() {
        return b"0".to_vec();
    }
    let power = i128::from(exponent) - part.len() as i128 + zeros as i128;
    let sign: &[u8] = if is_negative { b"-" } else { b"" };
    [sign, digits, format!("e{power}").as_bytes()].concat()
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, what } = self;
        match what {
            What::Expected(what) => write!(f, "no JSON: {what} was expected at byte {at}"),
            What::Text(why) => write!(f, "no JSON: the string at byte {at}: {why}"),
            What::Twice(name) => write!(f, "the object that ends at byte {at} has the member {name:?} twice"),
            What::TooDeep => write!(f, "nested deeper than {MAX_DEPTH} at byte {at}"),
            What::Exponent => {
                write!(f, "the exponent that ends at byte {at} has more than {MOST_EXPONENT_DIGITS} digits")
            }
        }
    }
}
