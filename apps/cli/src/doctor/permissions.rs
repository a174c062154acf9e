//! Whether the user may do all that locks need, and the ACL rule that grants what is missing.

use lockkeeper::Error;

use super::access::{Access, Trial};
use super::finding::{Finding, Level};

const CHECK: &str = "permissions";
/// The hash of no script.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// What a command is needed for. The worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Locks,
    Waiting,
    Presence,
    Inspecting,
    Listing,
    Probing,
}

impl Need {
    fn level(self) -> Level {
        match self {
            Self::Locks => Level::Problem,
            Self::Waiting | Self::Presence | Self::Inspecting | Self::Listing => Level::Warning,
            Self::Probing => Level::Note,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Locks => "taking, renewing and releasing locks",
            Self::Waiting => "being told of releases: without it, who waits for a lock polls",
            Self::Presence => "seeing who waits, and taking turns with other keepers",
            Self::Inspecting => "looking at locks",
            Self::Listing => "listing locks",
            Self::Probing => "finding out what the server is",
        }
    }
}

/// What is missing.
#[derive(Default)]
struct Missing {
    /// As in an ACL rule, without the plus.
    commands: Vec<(&'static str, Need)>,
    /// Not on this server at all.
    absent: Vec<(&'static str, Need)>,
    /// Keys under the prefix are refused, or nobody could tell.
    keys: Option<Level>,
}

/// Tries each command that the library sends. Read-only scripts may be absent before Redis 7.0.
///
/// # Errors
/// No answer.
pub(super) async fn check(
    trial: &Trial<'_>,
    prefix: &str,
    read_only_scripts: bool,
) -> Result<Finding, Error> {
    let mut missing = Missing::default();
    let mut seen_keys = 0;
    for (name, need, command) in commands(&trial.main) {
        let on_key = command.contains(&trial.main.as_str());
        match trial.of(&command).await? {
            Access::Granted => seen_keys += usize::from(on_key),
            Access::NoCommand => missing.commands.push((name, need)),
            Access::NoKey => missing.keys = Some(Level::Problem),
            Access::Absent if need == Need::Inspecting && !read_only_scripts => {}
            Access::Absent => missing.absent.push((name, need)),
        }
    }
    let side = trial.of(&["GET", &trial.side]).await?;
    if side == Access::NoKey {
        missing.keys = Some(Level::Problem);
    } else if seen_keys == 0 && !missing.commands.is_empty() {
        missing.keys = missing.keys.or(Some(Level::Note));
    }
    Ok(missing.finding(&trial.user, prefix))
}

/// Name in a rule, purpose, and a call that changes nothing, as nobody uses `key`.
fn commands(key: &str) -> Vec<(&'static str, Need, Vec<&str>)> {
    vec![
        ("evalsha", Need::Locks, vec!["EVALSHA", NO_SCRIPT, "0"]),
        ("eval", Need::Locks, vec!["EVAL", "return 1", "0"]),
        ("time", Need::Locks, vec!["TIME"]),
        ("get", Need::Locks, vec!["GET", key]),
        ("set", Need::Locks, vec!["SET", key, "x", "XX", "PX", "1"]),
        ("del", Need::Locks, vec!["DEL", key]),
        ("pttl", Need::Locks, vec!["PTTL", key]),
        ("pexpire", Need::Locks, vec!["PEXPIRE", key, "1"]),
        // A pair too few: the permissions are checked before that.
        ("hset", Need::Presence, vec!["HSET", key, "x", "x", "x"]),
        ("hdel", Need::Presence, vec!["HDEL", key, "x"]),
        ("hgetall", Need::Presence, vec!["HGETALL", key]),
        ("hlen", Need::Presence, vec!["HLEN", key]),
        ("unlink", Need::Presence, vec!["UNLINK", key]),
        ("hello", Need::Waiting, vec!["HELLO"]),
        ("client|tracking", Need::Waiting, vec!["CLIENT", "TRACKING", "OFF"]),
        ("evalsha_ro", Need::Inspecting, vec!["EVALSHA_RO", NO_SCRIPT, "0"]),
        ("eval_ro", Need::Inspecting, vec!["EVAL_RO", "return 1", "0"]),
        ("scan", Need::Listing, vec!["SCAN", "0", "COUNT", "1"]),
        ("client|trackinginfo", Need::Probing, vec!["CLIENT", "TRACKINGINFO"]),
        ("info", Need::Probing, vec!["INFO", "server"]),
    ]
}

impl Missing {
    fn finding(mut self, user: &str, prefix: &str) -> Finding {
        self.commands.sort_by_key(|&(_, need)| need);
        let refused = self.commands.iter().map(|(_, need)| need.level()).chain(self.keys).max();
        let absent = self.absent.iter().map(|(_, need)| need.level()).max();
        let Some(level) = refused.max(absent) else {
            return Finding::new(CHECK, Level::Ok, format!("User {user} may do all that locks need"));
        };
        let title = match (refused, level) {
            (None, _) => "The server lacks commands".to_owned(),
            (_, Level::Problem) => format!("User {user} lacks permissions that locks need"),
            _ => format!("User {user} lacks permissions"),
        };
        let finding = Finding::new(CHECK, level, title).items(self.items(prefix));
        if refused.is_none() {
            return finding
                .advice("Commands that were renamed or removed have to come back under their names.");
        }
        finding
            .advice("Grant them, and keep the rule (ACL SAVE, or CONFIG REWRITE):")
            .command(self.rule(user, prefix))
    }

    fn items(&self, prefix: &str) -> Vec<String> {
        let mut items = grouped(&self.commands, "may not run");
        items.extend(grouped(&self.absent, "not on this server:"));
        match self.keys {
            Some(Level::Problem) => items.push(format!("may not read and write all keys {prefix}*")),
            Some(_) => items.push(format!("whether keys {prefix}* are allowed cannot be seen before that")),
            None => {}
        }
        items
    }

    /// `ACL SETUSER app +eval +time ~lock:*`.
    fn rule(&self, user: &str, prefix: &str) -> String {
        let mut words = vec!["ACL SETUSER".to_owned(), user.to_owned()];
        words.extend(self.commands.iter().map(|(name, _)| format!("+{name}")));
        if self.keys.is_some() {
            words.push(format!("~{}*", escaped(prefix)));
        }
        words.join(" ")
    }
}

/// One line per purpose.
fn grouped(commands: &[(&'static str, Need)], verb: &str) -> Vec<String> {
    let mut lines: Vec<(Need, String)> = vec![];
    for &(name, need) in commands {
        match lines.last_mut() {
            Some((last, line)) if *last == need => *line += &format!(", {name}"),
            _ => lines.push((need, format!("{verb} {name}"))),
        }
    }
    lines.into_iter().map(|(need, line)| format!("{line} (for {})", need.text())).collect()
}

/// A pattern that matches the prefix literally.
pub(crate) fn escaped(prefix: &str) -> String {
    let special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '^' | '\\');
    prefix.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_grants_exactly_what_is_missing() {
        let missing = Missing {
            commands: vec![("info", Need::Probing), ("eval", Need::Locks), ("time", Need::Locks)],
            absent: vec![],
            keys: Some(Level::Problem),
        };
        let finding = missing.finding("app", "a[b]:");
        assert_eq!(finding.level, Level::Problem);
        assert_eq!(finding.commands, ["ACL SETUSER app +eval +time +info ~a\\[b\\]:*"]);
        assert_eq!(finding.items[0], "may not run eval, time (for taking, renewing and releasing locks)");
    }
}
