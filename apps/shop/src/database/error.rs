//! What went wrong with the database, and whether the same statement may succeed later.

use std::fmt;

/// A failed statement, connection or migration.
#[derive(Debug)]
pub struct DatabaseError(Box<sqlx::Error>);

/// How a failure has to be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// A unique index said no.
    Duplicate,
    /// These values will never be accepted: a constraint, or the data itself.
    Forbidden,
    /// Everything else: the network, a lock, a full disk, a table that an operator has to mend.
    MayPass,
}

/// Classes of SQLSTATE that speak of the values: data exceptions, integrity constraints, exceptions that somebody raised.
const FORBIDDING_CLASSES: [&str; 3] = ["22", "23", "P0"];
const SQLSTATE_LEN: usize = 5;
/// SQLite's primary result codes `CONSTRAINT`, `TOOBIG` and `MISMATCH`; extended ones have it in their low byte.
const FORBIDDING_CODES: [u32; 3] = [19, 18, 20];
const PRIMARY: u32 = 0xff;

impl DatabaseError {
    /// A unique index said no: it is there already.
    pub fn is_duplicate(&self) -> bool {
        self.meaning() == Meaning::Duplicate
    }

    /// The database will never take these values, however often they are sent.
    pub fn is_permanent(&self) -> bool {
        self.meaning() != Meaning::MayPass
    }

    /// The cause in words, without a host or a password.
    pub fn reason(&self) -> String {
        match &*self.0 {
            sqlx::Error::Database(error) => error.message().to_owned(),
            other => other.to_string(),
        }
    }

    fn meaning(&self) -> Meaning {
        let sqlx::Error::Database(error) = &*self.0 else { return Meaning::MayPass };
        if error.is_unique_violation() {
            return Meaning::Duplicate;
        }
        match error.code().is_some_and(|code| forbids(&code)) {
            true => Meaning::Forbidden,
            false => Meaning::MayPass,
        }
    }
}

/// `code` is an SQLSTATE (five characters), or a result code of SQLite (a number, never of five digits).
fn forbids(code: &str) -> bool {
    match code.len() {
        SQLSTATE_LEN => FORBIDDING_CLASSES.iter().any(|class| code.starts_with(class)),
        _ => code.parse::<u32>().is_ok_and(|code| FORBIDDING_CODES.contains(&(code & PRIMARY))),
    }
}

impl From<sqlx::Error> for DatabaseError {
    fn from(error: sqlx::Error) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database: {}", self.0)
    }
}

impl std::error::Error for DatabaseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_speaks_of_the_values_forbids_them() {
        // NOT NULL, CHECK, RAISE in a function; constraint, unique, trigger.
        for code in ["23502", "23514", "P0001", "22001", "19", "2067", "1811"] {
            assert!(forbids(code), "{code}");
        }
        // No table, no connection slot, disk full, deadlock; busy, locked, disk full, read-only.
        for code in ["42P01", "53300", "53100", "40P01", "5", "6", "13", "8", "261", ""] {
            assert!(!forbids(code), "{code}");
        }
    }

    #[test]
    fn a_lost_connection_may_pass() {
        for error in [sqlx::Error::PoolTimedOut, sqlx::Error::WorkerCrashed, sqlx::Error::PoolClosed] {
            assert!(!DatabaseError::from(error).is_permanent());
        }
    }
}
