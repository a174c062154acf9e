//! Exit codes of our own, and the one line that says why. The numbers are those of `sysexits.h`.

use std::fmt;
use std::process::ExitCode;

use lockkeeper::{Error, ErrorKind};

/// Nothing there, or not confirmed.
pub const NOTHING: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 64;
/// The key holds something that is not a lock, or not the state of a limit.
pub const NOT_A_LOCK: u8 = 65;
/// The store cannot be reached, or refuses.
pub const UNAVAILABLE: u8 = 69;
/// Something that should not happen.
pub const SOFTWARE: u8 = 70;
/// Somebody else holds the lock.
pub const BUSY: u8 = 75;
/// A limit refuses for now. As with [`BUSY`], trying again later is right.
pub const DENIED: u8 = 75;
/// A limit refuses for ever: trying again is wrong.
pub const NEVER: u8 = 77;
/// The lock was lost while the command ran.
pub const LOST: u8 = 76;
/// Ended by Ctrl-C, as shells say it: 128 and the number of SIGINT.
pub const INTERRUPTED: u8 = 130;

/// Why we end with a code of our own. Its text is for a person.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// Ends with `code`.
    pub fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The command line is wrong.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(USAGE, text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// The exit code for `error`.
pub fn code_of(error: &anyhow::Error) -> u8 {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.code;
    }
    match error.downcast_ref::<Error>().map(Error::kind) {
        Some(ErrorKind::BadArgument) => USAGE,
        Some(ErrorKind::WrongType) => NOT_A_LOCK,
        Some(ErrorKind::Busy) => BUSY,
        // A lease that ends before its grant arrives means that the store is too slow for it.
        Some(
            ErrorKind::Unreachable
            | ErrorKind::Refused(_)
            | ErrorKind::Crowded
            | ErrorKind::TooLate
            | ErrorKind::OutcomeUnknown { .. }
            | ErrorKind::NotDurable { .. }
            | ErrorKind::Lost
            | ErrorKind::Unsupported
            | ErrorKind::Protocol,
        ) => UNAVAILABLE,
        _ => SOFTWARE,
    }
}

/// Says on standard error what is wrong.
pub fn report(error: &anyhow::Error) -> ExitCode {
    say(&format!("{error:#}"));
    ExitCode::from(code_of(error))
}

/// One line on standard error.
pub fn say(text: &str) {
    use std::io::Write;
    let line = text.trim().replace(['\n', '\r'], " ");
    // Nobody is left to be told when standard error is closed.
    let _ = writeln!(std::io::stderr(), "lockkeeper: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockkeeper::Refusal;

    #[test]
    fn a_store_that_refuses_is_as_unavailable_as_one_that_is_away() {
        let kinds = [
            ErrorKind::Refused(Refusal::ReadOnly),
            ErrorKind::Unreachable,
            ErrorKind::Unsupported,
            ErrorKind::Protocol,
            ErrorKind::NotDurable { acknowledged: 1, wanted: 2 },
        ];
        for kind in kinds {
            assert_eq!(code_of(&Error::new(kind, "acquire", "").into()), UNAVAILABLE);
        }
        assert_eq!(code_of(&Error::bad_argument("url", "").into()), USAGE);
        assert_eq!(code_of(&Failure::new(7, "").into()), 7);
    }
}
