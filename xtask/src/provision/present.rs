//! Looks whether a need is met on this machine, by trying it where that is possible.

use std::env;
use std::path::{Path, PathBuf};

use super::need::Need;
use crate::call::Call;
use crate::workspace::Workspace;

/// What distributions call the browser; the tests look for the same names.
const CHROMIUM: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// Say where the tests find the browser, and the database's programs, if elsewhere.
const CHROMIUM_AT: &str = "LOCKKEEPER_CHROMIUM";
const POSTGRES_AT: &str = "LOCKKEEPER_POSTGRES_BIN";
/// The programs that the tests run.
const POSTGRES: [&str; 3] = ["initdb", "postgres", "pg_isready"];

impl Need {
    /// Whether it is there and works.
    pub(crate) fn is_present(self, workspace: &Workspace) -> bool {
        let root = &workspace.root;
        let works = |call: Call| call.output(root).is_some();
        match self {
            Need::Rustfmt => works(Call::cargo("fmt --version")),
            Need::Clippy => works(Call::cargo("clippy --version")),
            Need::RedisServer => works(Call::new("redis-server", "--version")),
            Need::Faketime => faketime_places().any(|place| place.is_file()),
            Need::Chromium => {
                browsers(named(CHROMIUM_AT)).iter().any(|name| works(Call::new(name, "--version")))
            }
            Need::Postgres => postgres_places(named(POSTGRES_AT))
                .iter()
                .any(|place| POSTGRES.iter().all(|program| place.join(program).is_file())),
            Need::Pip => works(Call::new("python3", "-m pip --version")),
            Need::Server(wheel) => wheel.is_unpacked(workspace),
            Need::Foreign(foreign) => foreign.is_present(workspace),
            Need::CargoDeny => works(Call::cargo("deny --version")),
        }
    }
}

/// What a variable says, if it says something.
fn named(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

/// What is named, and then what distributions call it.
fn browsers(named: Option<String>) -> Vec<String> {
    named.into_iter().chain(CHROMIUM.map(str::to_owned)).collect()
}

/// The folder that is named alone; or else where distributions put the programs of the server: on the path, or, on Debian, in
/// one directory per version.
fn postgres_places(named: Option<String>) -> Vec<PathBuf> {
    if let Some(folder) = named {
        return vec![PathBuf::from(folder)];
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let per_version = Path::new("/usr/lib/postgresql").read_dir().into_iter().flatten().flatten();
    env::split_paths(&path).chain(per_version.map(|entry| entry.path().join("bin"))).collect()
}

/// Where distributions put the library. Debian has one directory per architecture.
fn faketime_places() -> impl Iterator<Item = PathBuf> {
    let fixed = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/opt/homebrew/lib"].map(PathBuf::from);
    let per_architecture = Path::new("/usr/lib").read_dir().into_iter().flatten().flatten();
    let dirs = fixed.into_iter().chain(per_architecture.map(|entry| entry.path()));
    dirs.flat_map(|dir| {
        ["libfaketime.so.1", "libfaketime.1.dylib"].map(|file| dir.join("faketime").join(file))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_comes_first_and_a_named_folder_is_the_only_one() {
        assert_eq!(browsers(Some("mine".to_owned()))[..2], ["mine", CHROMIUM[0]]);
        assert_eq!(browsers(None), CHROMIUM);
        assert_eq!(postgres_places(Some("/mine".to_owned())), [PathBuf::from("/mine")]);
        assert!(postgres_places(None).len() > 1);
    }

    /// They cannot share it: the tests are no part of this program.
    #[test]
    fn the_tests_look_for_the_same_programs() {
        let browser = include_str!("../../../apps/shop/tests/browser/mod.rs");
        let postgres = include_str!("../../../crates/faults/src/postgres.rs");
        assert!(browser.contains(&format!("{CHROMIUM:?}")) && browser.contains(CHROMIUM_AT));
        assert!(postgres.contains(&format!("{POSTGRES:?}")) && postgres.contains(POSTGRES_AT));
    }
}
