//! Which servers there are and where their binaries lie: the environment first, then the usual places.

use std::env;
use std::fmt;
use std::path::PathBuf;

/// A kind of server that can be started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ServerKind {
    /// The Redis of this machine: `redis-server` on the `PATH`.
    #[default]
    Redis,
    /// Redis 6.2, the oldest version that is supported.
    Redis62,
    /// Valkey.
    Valkey,
}

impl ServerKind {
    /// Every kind, for tests that run against each.
    pub const ALL: [ServerKind; 3] = [ServerKind::Redis, ServerKind::Redis62, ServerKind::Valkey];

    /// The environment variable that names the binary of this kind.
    pub fn variable(self) -> &'static str {
        match self {
            ServerKind::Redis => "LOCKKEEPER_REDIS_SERVER",
            ServerKind::Redis62 => "LOCKKEEPER_REDIS62_SERVER",
            ServerKind::Valkey => "LOCKKEEPER_VALKEY_SERVER",
        }
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ServerKind::Redis => "Redis",
            ServerKind::Redis62 => "Redis 6.2",
            ServerKind::Valkey => "Valkey",
        })
    }
}

/// The binary of a kind of server, if there is one.
///
/// The variable of the kind ([`ServerKind::variable`]) decides alone when it is set. Without it, Redis is
/// looked for on the `PATH` and the others in the servers folder: `LOCKKEEPER_SERVERS_DIR`, or else
/// `target/servers` of the workspace that the current folder is in.
pub fn find_binary(kind: ServerKind) -> Option<PathBuf> {
    if let Some(path) = env::var_os(kind.variable()).filter(|value| !value.is_empty()) {
        return existing(PathBuf::from(path));
    }
    match kind {
        ServerKind::Redis => on_path("redis-server"),
        ServerKind::Redis62 => existing(servers_folder()?.join("redis-6.2/redis-server")),
        ServerKind::Valkey => existing(servers_folder()?.join("valkey/valkey-server")),
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).find_map(|folder| existing(folder.join(name)))
}

fn servers_folder() -> Option<PathBuf> {
    if let Some(folder) = env::var_os("LOCKKEEPER_SERVERS_DIR").filter(|value| !value.is_empty()) {
        return Some(PathBuf::from(folder));
    }
    let here = env::current_dir().ok()?;
    let workspace = here.ancestors().find(|folder| folder.join("Cargo.lock").is_file())?;
    Some(workspace.join("target/servers"))
}

/// The path made absolute, because the server starts in another folder, if a file is there.
fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then(|| std::path::absolute(&path).unwrap_or(path))
}
