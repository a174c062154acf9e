//! What went wrong on the wire, sorted by what it means: not sent, refused, or sent and not answered.

use std::time::Duration;

use lockkeeper_core::{Error, ErrorKind, Refusal};
use redis::RedisError;

/// Why there is no connection. Cheap to clone: all waiting callers get it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) detail: String,
}

impl Failure {
    pub(crate) fn unreachable(detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unreachable, detail: detail.into() }
    }

    /// The same, should the server have repeated the password.
    pub(crate) fn without(mut self, password: &str) -> Self {
        if !password.is_empty() && self.detail.contains(password) {
            self.detail = self.detail.replace(password, "***");
        }
        self
    }

    /// The same attempt may succeed later.
    pub(crate) fn may_pass(&self) -> bool {
        match self.kind {
            ErrorKind::Unreachable => true,
            ErrorKind::Refused(refusal) => refusal.is_transient(),
            _ => false,
        }
    }

    pub(crate) fn is_about_credentials(&self) -> bool {
        self.kind == ErrorKind::Refused(Refusal::NotAuthenticated)
    }

    pub(crate) fn into_error(self, operation: &'static str) -> Error {
        Error::new(self.kind, operation, self.detail)
    }
}

/// How one command ended without a reply.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The server answered with an error.
    Answered(ServerWords),
    /// The connection broke after the command may have been sent.
    Broken(String),
    /// No answer within the limit.
    Silent,
}

/// An error as the server worded it.
#[derive(Debug)]
pub(crate) struct ServerWords {
    code: String,
    text: String,
}

/// The words that a server's error may begin with, or that an old server buries in a script's error.
const CODES: [&str; 17] = [
    "NOSCRIPT",
    "READONLY",
    "OOM",
    "NOPERM",
    "NOAUTH",
    "WRONGPASS",
    "LOADING",
    "MISCONF",
    "NOREPLICAS",
    "BUSY",
    "MOVED",
    "ASK",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "TRYAGAIN",
    "MASTERDOWN",
    "WRONGTYPE",
];

impl ServerWords {
    pub(crate) fn new(error: &RedisError) -> Self {
        let code = error.code().unwrap_or("ERR").to_owned();
        let text = format!("{code} {}", without_arguments(error.detail().unwrap_or_default()));
        let known = |word: &str| CODES.contains(&word);
        if known(&code) {
            return Self { code, text };
        }
        // A script's own call was refused: old servers bury the code in the text, newer ones have none.
        let buried = match text.contains("user executing the script") {
            true => Some("NOPERM"),
            false => text.split(|c: char| !c.is_ascii_uppercase()).find(|word| known(word)),
        };
        Self { code: buried.map_or(code, str::to_owned), text }
    }

    fn is_no_script(&self) -> bool {
        self.code == "NOSCRIPT"
    }

    /// `unknown command`: an old server, a proxy, or a renamed command.
    pub(crate) fn is_unknown_command(&self) -> bool {
        self.text.contains("unknown command")
    }

    /// The key holds another type.
    pub(crate) fn is_wrong_type(&self) -> bool {
        self.code == "WRONGTYPE"
    }

    /// The script did not run, and sending it in another way may help: the hash, or the command, is not to be had.
    pub(crate) fn asks_for_another_way(&self) -> bool {
        self.is_no_script() || self.is_unknown_command() || self.text.contains("'eval")
    }

    pub(crate) fn refusal(&self) -> Refusal {
        Refusal::from_code(&self.code)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The first word, as far as it is one that we know.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    pub(crate) fn into_error(self, operation: &'static str) -> Error {
        if self.is_unknown_command() {
            let detail = format!("scripts are unavailable on this server: {}", self.text);
            return Error::new(ErrorKind::Unsupported, operation, detail);
        }
        if matches!(self.code.as_str(), "MOVED" | "ASK") {
            let detail = format!("{}: this server is one node of a cluster; use redis+cluster://", self.text);
            return Error::new(ErrorKind::Refused(self.refusal()), operation, detail);
        }
        if self.code == "READONLY" {
            let detail = format!("{} Give the URL of the primary, or redis+sentinel://.", self.text);
            return Error::new(ErrorKind::Refused(self.refusal()), operation, detail);
        }
        Error::new(ErrorKind::Refused(self.refusal()), operation, self.text)
    }
}

/// Sorts an error of the client: the server's words, or a broken connection.
pub(crate) fn classify(error: &RedisError) -> CallError {
    if error.is_io_error() || error.is_connection_dropped() || error.code().is_none() {
        return CallError::Broken(without_arguments(&error.to_string()).to_owned());
    }
    CallError::Answered(ServerWords::new(error))
}

/// What a server says, without the arguments that it repeats: of a command that it does not know, it shows the first, and
/// those may be a password or a token.
pub(crate) fn without_arguments(text: &str) -> &str {
    let end = text.find("with args beginning with").unwrap_or(text.len());
    text[..end].trim_end_matches([',', ' '])
}

/// A limit for people: what is left of one has digits that nobody reads.
pub(crate) fn rounded(limit: Duration) -> Duration {
    let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
    if micros < 1000 { limit } else { Duration::from_millis(micros.saturating_add(500) / 1000) }
}

/// A reply that does not parse.
pub(crate) fn malformed(operation: &'static str, what: &str) -> Error {
    Error::new(ErrorKind::Protocol, operation, format!("the script's reply is {what}"))
}
