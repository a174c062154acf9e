//! Brings what the tests need to a machine that has only Rust and a package
//! manager: looks, installs what is missing, and looks again.
//!
//! Only the second look counts. An installer's exit code does not: a package
//! whose service can't start in a container ends badly, and its program is there.

mod foreign;
mod install;
mod machine;
mod need;
mod node;
mod present;
mod wheel;

use std::env;

use anyhow::Result;

pub(crate) use need::{Need, TEST_NEEDS};

use crate::workspace::Workspace;
use machine::Machine;

/// Installs what is missing of `needs`. `false` if something still is, in CI.
pub(crate) fn provision(workspace: &Workspace, needs: &[Need]) -> Result<bool> {
    let present = |need: Need| need.is_present(workspace);
    let missing = need::to_install(needs, present);
    if !missing.is_empty() {
        install::install_all(workspace, &Machine::look(workspace), &missing)?;
    }
    Ok(report(needs, present) || !in_ci())
}

/// Says of each need whether it is there; `true` if all are.
fn report(needs: &[Need], present: impl Fn(Need) -> bool) -> bool {
    let mut all = true;
    for &need in needs {
        let found = present(need);
        all &= found;
        println!("{}", line(need, found));
    }
    all
}

fn line(need: Need, present: bool) -> String {
    match present {
        true => format!("present: {}", need.name()),
        false => format!("MISSING: {}: {}; left out: {}", need.name(), need.by_hand(), need.left_out()),
    }
}

/// Whether a machine without an eye on its screen runs us: nothing may be left
/// out in silence there.
pub(crate) fn in_ci() -> bool {
    env::var("CI").is_ok_and(|value| is_yes(&value))
}

fn is_yes(value: &str) -> bool {
    ["true", "1"].contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_need_says_what_to_do_and_what_it_costs() {
        let line = line(Need::Faketime, false);
        assert!(line.starts_with("MISSING: libfaketime: install "));
        assert!(line.contains("left out: tests"));
        assert_eq!(line.lines().count(), 1);
    }

    #[test]
    fn only_a_yes_means_ci() {
        assert!(is_yes("true") && is_yes("1"));
        assert!(!is_yes("") && !is_yes("false"));
    }
}
