//! What the user may not do, feature by feature, and the ACL rule that grants what is missing.

use lockkeeper::Error;
use lockkeeper::redis::access::{Feature, Prefixes};

use super::access::Trial;
use super::finding::{Finding, Level};
use super::lack::{Lack, lack};

const CHECK: &str = "permissions";

/// What every user of locks is looked at for; besides, what the form of the URL needs.
pub(super) const OF_LOCKS: [Feature; 6] = [
    Feature::Locks,
    Feature::Waiting,
    Feature::Waiters,
    Feature::Inspecting,
    Feature::Listing,
    Feature::Probing,
];
/// What every user of plain locks is looked at for.
pub(super) const OF_PLAIN_LOCKS: [Feature; 2] = [Feature::Plain, Feature::Probing];
/// What some users do besides.
const OTHERS: [Feature; 5] =
    [Feature::Permits, Feature::Limits, Feature::SlidingLogs, Feature::Once, Feature::Durability];

/// What is to be looked at.
pub(super) struct Asked<'a> {
    /// The features that somebody named. None: what is `usual`, and whether others could be used.
    pub(super) features: &'a [Feature],
    /// What is needed by whoever names nothing.
    pub(super) usual: &'a [Feature],
    /// Others could be used here.
    pub(super) has_others: bool,
    pub(super) prefixes: &'a Prefixes,
    /// The Redis version that the server is compatible with.
    pub(super) version: (u32, u32),
}

/// Tries each command that the features send.
///
/// # Errors
/// No answer.
pub(super) async fn check(trial: &Trial<'_>, asked: &Asked<'_>) -> Result<Vec<Finding>, Error> {
    if !asked.features.is_empty() {
        let lacks = lacks(trial, asked, asked.features).await?;
        let names: Vec<&str> = asked.features.iter().map(|feature| feature.name()).collect();
        return Ok(vec![finding(&lacks, &trial.user, asked, &names.join(", "))]);
    }
    let mut found = vec![finding(&lacks(trial, asked, asked.usual).await?, &trial.user, asked, "locks")];
    if asked.has_others {
        found.extend(unused(&lacks(trial, asked, &OTHERS).await?, &trial.user));
    }
    Ok(found)
}

async fn lacks(trial: &Trial<'_>, asked: &Asked<'_>, features: &[Feature]) -> Result<Vec<Lack>, Error> {
    let mut found = vec![];
    for &feature in features {
        found.extend(lack(trial, asked, feature).await?);
    }
    Ok(found)
}

/// The finding of features that are needed.
fn finding(lacks: &[Lack], user: &str, asked: &Asked<'_>, needs: &str) -> Finding {
    let level = |lack: &Lack| lack.level(!asked.features.is_empty());
    let Some(worst) = lacks.iter().map(level).max() else {
        return Finding::new(CHECK, Level::Ok, format!("User {user} may do all that {needs} need"));
    };
    let words = rule(lacks, asked.prefixes);
    let title = match (words.is_empty(), worst) {
        (true, _) => "The server lacks commands".to_owned(),
        (_, Level::Problem) => format!("User {user} lacks permissions that {needs} need"),
        _ => format!("User {user} lacks permissions"),
    };
    let mut items: Vec<String> = vec![];
    for item in lacks.iter().flat_map(|lack| lack.items(asked.prefixes)) {
        if !items.contains(&item) {
            items.push(item);
        }
    }
    let finding = Finding::new(CHECK, worst, title).items(items);
    if words.is_empty() {
        return finding.advice("Commands that were renamed or removed have to come back under their names.");
    }
    finding
        .advice("Grant them, and keep the rule (ACL SAVE, or CONFIG REWRITE):")
        .command(format!("ACL SETUSER {user} {}", words.join(" ")))
}

/// The words that grant what is missing: `+eval`, `+time`, `~lock:*`. Each once.
fn rule(lacks: &[Lack], prefixes: &Prefixes) -> Vec<String> {
    let commands = lacks.iter().flat_map(|lack| &lack.refused).map(|command| format!("+{}", command.name));
    let keys = lacks.iter().flat_map(|lack| lack.keys.iter().chain(&lack.blind));
    let keys = keys.map(|&keys| format!("~{}", prefixes.pattern(keys)));
    let mut words: Vec<String> = vec![];
    for word in commands.chain(keys) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// Features that nobody named and that could not be used. Nothing, where all could.
fn unused(lacks: &[Lack], user: &str) -> Option<Finding> {
    let could_not = |lack: &&Lack| lack.level(true) == Level::Problem;
    let names: Vec<&str> = lacks.iter().filter(could_not).map(|lack| lack.feature.name()).collect();
    let title = format!("User {user} may not use {}", names.join(", "));
    let finding = Finding::new(CHECK, Level::Note, title)
        .seen("Locks do not need that.")
        .advice("If you do, name it, and see what is missing; --rules prints the whole rule:");
    let command = format!("lockkeeper doctor --feature {}", names.join(","));
    (!names.is_empty()).then(|| finding.command(command))
}

/// A pattern that matches the prefix literally.
pub(crate) fn escaped(prefix: &str) -> String {
    let special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '^' | '\\');
    prefix.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use lockkeeper::redis::access::KeysOf;

    use super::*;

    fn lacking(feature: Feature, refused: &[&str], keys: &[KeysOf]) -> Lack {
        let refused = feature.commands().filter(|command| refused.contains(&command.name)).collect();
        Lack { feature, refused, absent: vec![], keys: keys.to_vec(), blind: vec![] }
    }

    #[test]
    fn a_rule_grants_exactly_what_is_missing() {
        let prefixes = Prefixes { locks: b"a[b]:".into(), ..Prefixes::default() };
        let asked =
            Asked { features: &[], usual: &OF_LOCKS, has_others: true, prefixes: &prefixes, version: (7, 0) };
        let lacks = [
            lacking(Feature::Locks, &["eval", "time"], &[KeysOf::Locks]),
            lacking(Feature::Waiting, &["eval", "time", "client|tracking"], &[KeysOf::Locks]),
            lacking(Feature::Probing, &["info"], &[]),
        ];
        let found = finding(&lacks, "app", &asked, "locks");
        assert_eq!(found.level, Level::Problem);
        assert_eq!(found.commands, ["ACL SETUSER app +eval +time +client|tracking +info ~a\\[b\\]:*"]);
        assert_eq!(found.items[0], "may not run eval, time (for taking, renewing and releasing locks)");
        assert_eq!(found.items.iter().filter(|item| item.contains("all keys a[b]:*")).count(), 1);
        let found = finding(&lacks[2..], "app", &asked, "locks");
        assert_eq!(found.level, Level::Note);
    }

    #[test]
    fn whoever_named_a_feature_needs_it() {
        let lacks = lacking(Feature::Limits, &["set"], &[]);
        assert_eq!((lacks.level(false), lacks.level(true)), (Level::Warning, Level::Problem));
        let lacks = lacking(Feature::Limits, &["evalsha"], &[]);
        assert_eq!(lacks.level(true), Level::Warning, "it works without");
    }
}
