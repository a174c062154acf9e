//! Reading what a script answered.

use std::time::Duration;

use lockkeeper_core::Timestamp;
use lockkeeper_core::lock::{Busy, Fence, Holder};
use redis::Value;

/// A reply that no script of ours sends; says what was wrong with it.
#[derive(Debug)]
pub struct Malformed(pub &'static str);

/// The fields of a reply array, taken from the front.
#[derive(Debug)]
pub struct Fields(std::vec::IntoIter<Value>);

impl Fields {
    /// The fields of this reply.
    ///
    /// # Errors
    /// It is no array.
    pub fn of(value: Value) -> Result<Self, Malformed> {
        match value {
            Value::Array(fields) => Ok(Self(fields.into_iter())),
            _ => Err(Malformed("not an array")),
        }
    }

    fn next(&mut self) -> Result<Value, Malformed> {
        self.0.next().ok_or(Malformed("too short"))
    }

    /// A whole number.
    ///
    /// # Errors
    /// There is none in this place.
    pub fn int(&mut self) -> Result<i64, Malformed> {
        match self.next()? {
            Value::Int(number) => Ok(number),
            _ => Err(Malformed("a number was expected")),
        }
    }

    /// A whole number that is not negative.
    ///
    /// # Errors
    /// There is none in this place.
    pub fn unsigned(&mut self) -> Result<u64, Malformed> {
        u64::try_from(self.int()?).map_err(|_| Malformed("a negative number"))
    }

    /// An index.
    ///
    /// # Errors
    /// There is none in this place.
    pub fn index(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.int()?).map_err(|_| Malformed("a negative index"))
    }

    /// A string.
    ///
    /// # Errors
    /// There is none in this place.
    pub fn bytes(&mut self) -> Result<Vec<u8>, Malformed> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(bytes),
            Value::SimpleString(text) => Ok(text.into_bytes()),
            Value::Okay => Ok(b"OK".to_vec()),
            _ => Err(Malformed("bytes were expected")),
        }
    }

    /// An array of names and numbers in turn.
    ///
    /// # Errors
    /// There is none in this place.
    pub fn pairs<T>(&mut self, pair: impl Fn(&[u8], u64) -> T) -> Result<Vec<T>, Malformed> {
        let mut fields = Self::of(self.next()?)?;
        let mut pairs = Vec::with_capacity(fields.0.len() / 2);
        while fields.0.len() > 0 {
            pairs.push(pair(&fields.bytes()?, fields.unsigned()?));
        }
        Ok(pairs)
    }

    /// Nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// What is left.
    pub fn rest(self) -> impl Iterator<Item = Value> {
        self.0
    }

    /// A moment in microseconds.
    ///
    /// # Errors
    /// There is none in this place.
    pub fn timestamp(&mut self) -> Result<Timestamp, Malformed> {
        self.unsigned().map(Timestamp::from_micros)
    }

    pub(crate) fn fence(&mut self) -> Result<Fence, Malformed> {
        self.unsigned().map(Fence::new)
    }

    pub(crate) fn holder(&mut self) -> Result<Holder, Malformed> {
        let token = self.bytes()?;
        Ok(Holder::new(&token, self.unsigned()?))
    }

    /// A `PTTL`: `None` for "no expiry".
    pub(crate) fn remaining(&mut self) -> Result<Option<Duration>, Malformed> {
        Ok(u64::try_from(self.int()?).ok().map(Duration::from_millis))
    }

    pub(crate) fn busy(&mut self) -> Result<Busy, Malformed> {
        Ok(Busy { index: self.index()?, holder: self.holder()?, remaining: self.remaining()? })
    }
}
