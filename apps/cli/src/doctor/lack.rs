//! What of one feature a user may not do, and how bad that is.

use lockkeeper::Error;
use lockkeeper::redis::access::{Command, Feature, KeysOf, OF_ONE_PRODUCT, Prefixes};

use super::access::{Access, Trial};
use super::finding::Level;
use super::permissions::Asked;
use super::trials;

/// A feature that is not allowed in full.
pub(super) struct Lack {
    pub(super) feature: Feature,
    pub(super) refused: Vec<Command>,
    /// Not on this server at all.
    pub(super) absent: Vec<Command>,
    /// Prefixes whose keys are refused.
    pub(super) keys: Vec<KeysOf>,
    /// Nobody could tell whether keys are allowed.
    pub(super) blind: Vec<KeysOf>,
}

/// Tries each command that the feature sends. `None`: it may do all of it.
///
/// # Errors
/// No answer.
pub(super) async fn lack(
    trial: &Trial<'_>,
    asked: &Asked<'_>,
    feature: Feature,
) -> Result<Option<Lack>, Error> {
    let mut lack = Lack { feature, refused: vec![], absent: vec![], keys: vec![], blind: vec![] };
    for &keys in feature.keys() {
        match keys {
            KeysOf::Marker => lack.try_marker(trial).await?,
            _ => lack.try_keys(trial, asked, keys).await?,
        }
    }
    if feature.keys().is_empty() {
        for command in commands(feature, asked) {
            let Some(call) = trials::call(command.name, "") else { continue };
            match trial.of(&call).await? {
                Access::NoCommand => lack.refused.push(command),
                Access::Absent if command.since() <= (6, 2) => lack.absent.push(command),
                _ => {}
            }
        }
    }
    lack.keys.dedup();
    let lacks = lack.refused.len() + lack.absent.len() + lack.keys.len() + lack.blind.len();
    Ok((lacks > 0).then_some(lack))
}

/// Those that a server of this version may have.
fn commands(feature: Feature, asked: &Asked<'_>) -> impl Iterator<Item = Command> {
    let version = asked.version;
    let may_be = move |since: (u32, u32)| since <= version || since == OF_ONE_PRODUCT || version == (0, 0);
    feature.commands().filter(move |command| may_be(command.since()))
}

impl Lack {
    async fn try_keys(&mut self, trial: &Trial<'_>, asked: &Asked<'_>, keys: KeysOf) -> Result<(), Error> {
        let key = trial.key(keys);
        let mut seen = false;
        for command in commands(self.feature, asked) {
            let Some(call) = trials::call(command.name, &key.main) else { continue };
            match trial.of(&call).await? {
                Access::Granted => seen |= call.contains(&key.main.as_str()),
                Access::NoCommand => self.refused.push(command),
                Access::NoKey => self.keys.push(keys),
                Access::Absent if command.since() > (6, 2) => {}
                Access::Absent => self.absent.push(command),
            }
        }
        if trial.of(&["GET", &key.side]).await? == Access::NoKey {
            self.keys.push(keys);
        } else if !seen && self.keys.is_empty() && !self.refused.is_empty() {
            self.blind.push(keys);
        }
        Ok(())
    }

    /// A key that is in use: it is read, and a write is tried that is a mistake.
    async fn try_marker(&mut self, trial: &Trial<'_>) -> Result<(), Error> {
        let key = &trial.key(KeysOf::Marker).main;
        for command in ["get", "set"] {
            let Some(call) = trials::call(command, key) else { continue };
            if trial.of(&call).await? == Access::NoKey {
                self.keys.push(KeysOf::Marker);
            }
        }
        Ok(())
    }

    /// How bad it is. Whoever named a feature needs it.
    pub(super) fn level(&self, named: bool) -> Level {
        let mut missing = self.refused.iter().chain(&self.absent);
        let fails = !self.keys.is_empty() || missing.any(|command| command.without.is_none());
        match self.feature {
            Feature::Locks | Feature::Cluster | Feature::Sentinel | Feature::Quorum | Feature::Plain
                if fails =>
            {
                Level::Problem
            }
            _ if named && fails => Level::Problem,
            Feature::Probing if !named => Level::Note,
            _ if self.refused.is_empty() && self.absent.is_empty() && !fails => Level::Note,
            _ => Level::Warning,
        }
    }

    pub(super) fn items(&self, prefixes: &Prefixes) -> Vec<String> {
        let mut items = vec![];
        for (commands, verb) in [(&self.refused, "may not run"), (&self.absent, "not on this server:")] {
            let fatal: Vec<&str> =
                commands.iter().filter(|one| one.without.is_none()).map(|one| one.name).collect();
            if !fatal.is_empty() {
                items.push(format!("{verb} {} (for {})", fatal.join(", "), self.feature.purpose()));
            }
            for (without, names) in grouped(commands) {
                items.push(format!("{verb} {} ({}: {without})", names.join(", "), self.feature));
            }
        }
        let patterns = |keys: &[KeysOf]| -> Vec<String> {
            let shown = |keys| match keys {
                KeysOf::Marker => prefixes.pattern(keys),
                _ => format!("{}*", String::from_utf8_lossy(prefixes.of(keys))),
            };
            keys.iter().copied().map(shown).collect()
        };
        items.extend(
            patterns(&self.keys).iter().map(|keys| format!("may not read and write all keys {keys}")),
        );
        let blind = |keys: &String| format!("whether keys {keys} are allowed cannot be seen before that");
        items.extend(patterns(&self.blind).iter().map(blind));
        items
    }
}

/// Optional commands by what becomes of the feature without them.
fn grouped(commands: &[Command]) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = vec![];
    for command in commands {
        let Some(without) = command.without else { continue };
        match groups.iter_mut().find(|(known, _)| *known == without) {
            Some((_, names)) => names.push(command.name),
            None => groups.push((without, vec![command.name])),
        }
    }
    groups
}
