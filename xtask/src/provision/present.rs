//! Looks whether a need is met on this machine, by trying it where that is possible.

use std::path::{Path, PathBuf};

use super::need::Need;
use crate::call::Call;
use crate::workspace::Workspace;

/// What distributions call the browser.
const CHROMIUM: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

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
            Need::Chromium => CHROMIUM.iter().any(|name| works(Call::new(name, "--version"))),
            Need::Postgres => postgres_places().any(|place| place.join("initdb").is_file()),
            Need::Pip => works(Call::new("python3", "-m pip --version")),
            Need::Server(wheel) => wheel.is_unpacked(workspace),
            Need::Foreign(foreign) => foreign.is_present(workspace),
            Need::CargoDeny => works(Call::cargo("deny --version")),
        }
    }
}

/// Where distributions put the programs of the server: on the path, or, on Debian, in one directory per version.
fn postgres_places() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let per_version = Path::new("/usr/lib/postgresql").read_dir().into_iter().flatten().flatten();
    on_path.into_iter().chain(per_version.map(|entry| entry.path().join("bin")))
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
