//! Checks that library and command compile for other systems. A std that is missing
//! is added where rustup can; one that cannot be had is said loudly, and is no
//! failure: toolchains can't be fetched everywhere.

use std::env::consts::OS;
use std::path::Path;

use anyhow::Result;

use crate::call::Call;
use crate::run::shown;
use crate::workspace::Workspace;

const TARGETS: [&str; 2] = ["x86_64-pc-windows-gnu", "aarch64-apple-darwin"];

/// Checks every target that can be had; `true` if none of them failed.
pub(crate) fn check_all(workspace: &Workspace) -> Result<bool> {
    let mut passed = true;
    for target in TARGETS {
        if is_installed(workspace, target) || add(workspace, target)? {
            passed &= shown(&check(workspace, target), workspace)?;
        } else {
            println!("LEFT OUT: {target} is not installed (`rustup target add {target}`)");
        }
    }
    Ok(passed)
}

fn is_installed(workspace: &Workspace, target: &str) -> bool {
    let call = Call::new("rustc", "--print target-libdir --target").arg(target);
    call.output(&workspace.root).is_some_and(|dir| has_entries(Path::new(dir.trim())))
}

fn add(workspace: &Workspace, target: &str) -> Result<bool> {
    Ok(shown(&Call::new("rustup", "target add").arg(target), workspace).unwrap_or(false)
        && is_installed(workspace, target))
}

fn has_entries(dir: &Path) -> bool {
    dir.read_dir().is_ok_and(|mut entries| entries.next().is_some())
}

/// The check has a target directory of its own because what it builds may
/// come from a stand-in.
fn check(workspace: &Workspace, target: &str) -> Call {
    let call = Call::cargo("check -p lockkeeper -p lockkeeper-cli --all-features --target").arg(target);
    let dir = workspace.target.join("other-targets");
    let call = call.arg("--target-dir").arg(dir.to_string_lossy());
    let stand_in = workspace.root.join("xtask/stand-in");
    if needs_stand_in(OS, target) { with_stand_in(call, target, &stand_in.to_string_lossy()) } else { call }
}

/// Whether the C compiler of this machine makes nothing for that target.
fn needs_stand_in(os: &str, target: &str) -> bool {
    let (macos, windows) = (target.contains("apple"), target.contains("windows"));
    !(os == "windows" || os == "macos" && macos || !macos && !windows)
}

/// Dependencies bring C sources, but a check links nothing: a compiler that makes
/// nothing is as good as a cross compiler, which few machines have.
fn with_stand_in(call: Call, target: &str, stand_in: &str) -> Call {
    let suffix = target.replace('-', "_");
    call.env(format!("CC_{suffix}"), stand_in).env(format!("AR_{suffix}"), stand_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_foreign_compiler_is_stood_in_for() {
        assert!(needs_stand_in("linux", "x86_64-pc-windows-gnu"));
        assert!(needs_stand_in("linux", "aarch64-apple-darwin"));
        assert!(needs_stand_in("macos", "x86_64-pc-windows-msvc"));
        assert!(!needs_stand_in("macos", "x86_64-apple-darwin"));
        assert!(!needs_stand_in("windows", "x86_64-pc-windows-msvc"));
    }

    #[test]
    fn the_variables_are_named_after_the_target() {
        let call = with_stand_in(Call::cargo("check"), "x86_64-apple-darwin", "x");
        let shown = "CC_x86_64_apple_darwin=x AR_x86_64_apple_darwin=x cargo check";
        assert_eq!(call.to_string(), shown);
    }

    #[test]
    fn a_directory_that_is_not_there_has_no_entries() {
        assert!(!has_entries(Path::new("/no/such/directory")));
        assert!(has_entries(Path::new(env!("CARGO_MANIFEST_DIR"))));
    }
}
