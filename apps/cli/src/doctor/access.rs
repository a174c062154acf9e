//! Finding out what a user may do: by `ACL DRYRUN` where it is allowed, otherwise by harmless calls.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use lockkeeper::core::{Error, ErrorKind, Key, Prefix};
use lockkeeper::redis::access::{KeysOf, Prefixes};
use lockkeeper::redis::{QUORUM_MARKER, RedisStore, fence_key};

use super::facts::{LOOK, words};

/// The answer to one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// It may.
    Granted,
    /// It may not run the command.
    NoCommand,
    /// It may run the command, but not on this key.
    NoKey,
    /// The server has no such command, or somebody renamed it.
    Absent,
}

/// Asks for one user.
pub(super) struct Trial<'a> {
    store: &'a RedisStore,
    pub(super) user: String,
    dry_run: bool,
    /// What was tried already: features share most of their commands.
    tried: Mutex<HashMap<String, Access>>,
    locks: Unused,
    limits: Unused,
    once: Unused,
    marker: Unused,
}

/// A key and its side key, under a name that nobody uses.
pub(super) struct Unused {
    pub(super) main: String,
    pub(super) side: String,
}

impl<'a> Trial<'a> {
    /// For `named`, or else for the user that is connected; `fallback` is its name where the server does not tell.
    ///
    /// # Errors
    /// Another user's permissions are not shown to this one; no connection.
    pub(super) async fn new(
        store: &'a RedisStore,
        prefixes: &Prefixes,
        named: Option<&str>,
        fallback: &str,
    ) -> Result<Self, Error> {
        let [locks, limits, once] =
            [KeysOf::Locks, KeysOf::Limits, KeysOf::Once].map(|keys| unused(prefixes.of(keys)));
        let user = match (named, store.query::<String>(&["ACL", "WHOAMI"], LOOK).await) {
            (Some(named), _) => named.to_owned(),
            (None, Ok(own)) => own,
            (None, Err(_)) => fallback.to_owned(),
        };
        let dry_run = store.query::<String>(&["ACL", "DRYRUN", &user, "PING"], LOOK).await;
        if let (Some(_), Err(error)) = (named, dry_run.as_ref().map_err(words)) {
            return Err(Error::new(ErrorKind::Unsupported, "doctor", format!("ACL DRYRUN {user}: {error}")));
        }
        let dry_run = dry_run.is_ok();
        Ok(Self {
            store,
            user,
            dry_run,
            tried: Mutex::default(),
            locks: locks?,
            limits: limits?,
            once: once?,
            // Of this one only what changes nothing is tried.
            marker: Unused { main: QUORUM_MARKER.to_owned(), side: QUORUM_MARKER.to_owned() },
        })
    }

    /// A key under this prefix.
    pub(super) fn key(&self, keys: KeysOf) -> &Unused {
        match keys {
            KeysOf::Locks => &self.locks,
            KeysOf::Limits => &self.limits,
            KeysOf::Once => &self.once,
            KeysOf::Marker => &self.marker,
        }
    }

    /// May the user run this? Without a dry run it is run, so it must change nothing.
    ///
    /// # Errors
    /// No answer.
    pub(super) async fn of(&self, command: &[&str]) -> Result<Access, Error> {
        let tried = || self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let words = command.join(" ");
        if let Some(&known) = tried().get(&words) {
            return Ok(known);
        }
        let access = self.ask(command).await?;
        tried().insert(words, access);
        Ok(access)
    }

    async fn ask(&self, command: &[&str]) -> Result<Access, Error> {
        if self.dry_run {
            let dry: Vec<&str> = ["ACL", "DRYRUN", &self.user].iter().chain(command).copied().collect();
            return match self.store.query::<String>(&dry, LOOK).await {
                Ok(verdict) => Ok(read_dry_run(&verdict)),
                Err(error) => answered(error).map(|words| read_error(&words)),
            };
        }
        match self.store.query::<()>(command, LOOK).await {
            Ok(()) => Ok(Access::Granted),
            Err(error) => answered(error).map(|words| read_error(&words)),
        }
    }
}

/// The words of a server that answered.
fn answered(error: Error) -> Result<String, Error> {
    match error.kind() {
        ErrorKind::Refused(_) | ErrorKind::Unsupported | ErrorKind::Protocol => Ok(words(&error)),
        _ => Err(error),
    }
}

fn read_dry_run(verdict: &str) -> Access {
    if verdict.starts_with("OK") { Access::Granted } else { denied(verdict) }
}

/// Every error but these comes after the permissions were checked: the script is not there, the key is elsewhere.
fn read_error(words: &str) -> Access {
    if words.contains("NOPERM") {
        denied(words)
    } else if words.contains("nknown command")
        || words.contains("nknown subcommand")
        || words.contains("not found")
    {
        Access::Absent
    } else {
        Access::Granted
    }
}

/// "… to run the 'get' command" or "… to access the 'x' key", worded differently by each version.
fn denied(words: &str) -> Access {
    if !words.contains("to run") && words.contains("key") { Access::NoKey } else { Access::NoCommand }
}

fn unused(prefix: &[u8]) -> Result<Unused, Error> {
    let name = format!("lockkeeper-doctor-{:016x}", RandomState::new().hash_one(std::process::id()));
    let key = Key::new(&Prefix::new(prefix)?, name)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Unused { main: text(key.as_bytes()), side: text(&fence_key(&key)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_read_in_the_words_of_every_version() {
        let cases = [
            (
                "NOPERM this user has no permissions to run the 'get' command or its subcommand",
                Access::NoCommand,
            ),
            ("NOPERM User app has no permissions to run the 'client|tracking' command", Access::NoCommand),
            (
                "NOPERM this user has no permissions to access one of the keys used as arguments",
                Access::NoKey,
            ),
            ("NOPERM No permissions to access a key", Access::NoKey),
            ("ERR unknown command 'evalsha_ro', with args beginning with: ", Access::Absent),
            ("ERR Command 'evalsha_ro' not found", Access::Absent),
            ("NOSCRIPT No matching script. Please use EVAL.", Access::Granted),
            ("READONLY You can't write against a read only replica.", Access::Granted),
        ];
        for (words, access) in cases {
            assert_eq!(read_error(words), access, "{words}");
        }
        assert_eq!(read_dry_run("This user has no permissions to access the 'bar:1' key"), Access::NoKey);
        assert_eq!(read_dry_run("This user has no permissions to run the 'scan' command"), Access::NoCommand);
        assert_eq!(read_dry_run("OK"), Access::Granted);
    }
}
