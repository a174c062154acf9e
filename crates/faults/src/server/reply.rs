//! A reply of a server, as simple as a test needs it, and how it is read from a stream (RESP2).

use std::io::{self, BufRead};

use super::error::ServerError;

/// No reply of a test is larger; a larger number means that the stream is not RESP.
const LARGEST: i64 = 512 * 1024 * 1024;

/// A reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing: a missing key, for instance.
    Nil,
    /// A number.
    Int(i64),
    /// A string of bytes.
    Bytes(Vec<u8>),
    /// Several replies.
    Array(Vec<Reply>),
    /// An error, without the leading `-`.
    Error(String),
    /// A status such as `OK`, without the leading `+`.
    Status(String),
}

impl Reply {
    /// The number: of a number, or of a string that is one (as in the reply to `TIME`).
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Reply::Int(number) => Some(*number),
            _ => self.as_str()?.parse().ok(),
        }
    }

    /// The bytes of a string, a status or an error.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Reply::Bytes(bytes) => Some(bytes),
            Reply::Status(text) | Reply::Error(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// The text of a string, a status or an error, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()?).ok()
    }

    /// The parts of an array.
    pub fn as_array(&self) -> Option<&[Reply]> {
        match self {
            Reply::Array(parts) => Some(parts),
            _ => None,
        }
    }

    /// Whether this is [`Reply::Nil`].
    pub fn is_nil(&self) -> bool {
        *self == Reply::Nil
    }

    /// Whether this is [`Reply::Error`].
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// Reads one whole reply.
    pub(crate) fn read(from: &mut impl BufRead) -> Result<Reply, ServerError> {
        let line = read_line(from)?;
        let Some((kind, rest)) = line.split_at_checked(1) else {
            return Err(ServerError::Protocol("an empty line".to_owned()));
        };
        match kind {
            "+" => Ok(Reply::Status(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Int(number(rest)?)),
            "$" => match length(rest)? {
                None => Ok(Reply::Nil),
                Some(length) => read_bytes(from, length).map(Reply::Bytes),
            },
            "*" => match length(rest)? {
                None => Ok(Reply::Nil),
                Some(count) => {
                    (0..count).map(|_| Reply::read(from)).collect::<Result<_, _>>().map(Reply::Array)
                }
            },
            _ => Err(ServerError::Protocol(line)),
        }
    }
}

fn read_line(from: &mut impl BufRead) -> Result<String, ServerError> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line).map_err(ServerError::io("reading a reply"))?;
    match line.strip_suffix(b"\r\n") {
        Some(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        None if line.is_empty() => Err(closed()),
        None => Err(ServerError::Protocol(String::from_utf8_lossy(&line).into_owned())),
    }
}

fn read_bytes(from: &mut impl BufRead, length: usize) -> Result<Vec<u8>, ServerError> {
    let mut bytes = vec![0; length + 2];
    from.read_exact(&mut bytes).map_err(ServerError::io("reading a reply"))?;
    bytes.truncate(length);
    Ok(bytes)
}

fn number(text: &str) -> Result<i64, ServerError> {
    text.parse().map_err(|_| ServerError::Protocol(format!("{text:?} for a number")))
}

/// A length; minus one is the length of nothing.
fn length(text: &str) -> Result<Option<usize>, ServerError> {
    match number(text)? {
        -1 => Ok(None),
        length @ 0..=LARGEST => Ok(usize::try_from(length).ok()),
        _ => Err(ServerError::Protocol(format!("{text:?} for a length"))),
    }
}

fn closed() -> ServerError {
    let source = io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection");
    ServerError::Io { what: "reading a reply", source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Reply, ServerError> {
        Reply::read(&mut text.as_bytes())
    }

    #[test]
    fn every_type_is_read() {
        let reply = read("*6\r\n+OK\r\n-ERR no\r\n:-7\r\n$2\r\n\r\n\r\n$-1\r\n*-1\r\n").unwrap();
        let expected = vec![
            Reply::Status("OK".to_owned()),
            Reply::Error("ERR no".to_owned()),
            Reply::Int(-7),
            Reply::Bytes(b"\r\n".to_vec()),
            Reply::Nil,
            Reply::Nil,
        ];
        assert_eq!(reply, Reply::Array(expected));
    }

    #[test]
    fn a_torn_reply_is_an_error() {
        for text in ["", "\r\n", "+OK", "$5\r\nabc", ":x\r\n", "$-2\r\n", "*2\r\n+OK\r\n", "HTTP/1.1\r\n"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn accessors_answer_what_is_there() {
        assert_eq!(Reply::Bytes(b"12".to_vec()).as_int(), Some(12));
        assert_eq!(Reply::Int(3).as_str(), None);
        assert!(Reply::Nil.is_nil() && !Reply::Int(0).is_nil());
    }
}
