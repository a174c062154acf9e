//! `doctor --rules`: the whole ACL rule of each feature. Asks no server.

use lockkeeper::redis::access::{Feature, Prefixes, Rule};
use serde::Serialize;

use crate::common;

/// The newest version that a command is asked of; older servers refuse rules with commands that they do not know.
const NEWEST: (u32, u32) = (u32::MAX, 0);

/// A rule, for programs.
#[derive(Serialize)]
struct Row {
    feature: &'static str,
    purpose: &'static str,
    rule: String,
}

/// Prints the rules of `features`, and one of all of them, for a server that is compatible with this Redis version.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn print(
    features: &[Feature],
    prefixes: &Prefixes,
    version: Option<(u32, u32)>,
    json: bool,
) -> anyhow::Result<()> {
    let all: Vec<Feature> = Feature::all().collect();
    let features = if features.is_empty() { &all } else { features };
    let version = version.unwrap_or(NEWEST);
    let row = |&feature: &Feature| Row {
        feature: feature.name(),
        purpose: feature.purpose(),
        rule: Rule::of(&[feature], prefixes, version).to_string(),
    };
    if json {
        return common::print_json(&features.iter().map(row).collect::<Vec<_>>());
    }
    common::print("# For the prompt of redis-cli; a shell would take > and * for its own.\n")?;
    for feature in features {
        let Row { feature, purpose, rule } = row(feature);
        common::print(&format!("# {feature}: {purpose}\nACL SETUSER app on >password {rule}\n"))?;
    }
    // Sentinels have users of their own.
    let together: Vec<Feature> =
        features.iter().copied().filter(|&feature| feature != Feature::Sentinels).collect();
    if together.len() > 1 {
        let rule = Rule::of(&together, prefixes, version);
        common::print(&format!("# all of these on one server\nACL SETUSER app on >password {rule}"))?;
    }
    Ok(())
}

/// A version as typed: `7.0`.
///
/// # Errors
/// It is none.
pub(super) fn version(text: &str) -> Result<(u32, u32), String> {
    let mut parts = text.split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => Err("it is no version such as 6.2 or 7.0".to_owned()),
    }
}
