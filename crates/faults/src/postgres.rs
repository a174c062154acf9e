//! A real PostgreSQL in a folder of its own, for tests of what writes into a database.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::server::{POLL, ServerError, log_path, log_tail, send, skip, spawn, tied_command, wait_ended};

/// A first start makes a cluster and may take some seconds on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// The role and the database that every server has.
const USER: &str = "postgres";
/// Names a folder with `initdb`, `postgres` and `pg_isready`.
const VARIABLE: &str = "LOCKKEEPER_POSTGRES_BIN";
/// Where Debian and its kin put the programs, by version.
const PER_VERSION: &str = "/usr/lib/postgresql";
const PROGRAMS: [&str; 3] = ["initdb", "postgres", "pg_isready"];
/// Whom a server runs as that root starts, because it refuses to run as root; the first that is there.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// A real server process on a free port of 127.0.0.1, ended when this is dropped. It trusts everybody on this machine, and
/// its data is gone with it.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    port: u16,
    child: Child,
}

/// Whether PostgreSQL is installed; if not, says so on standard error.
///
/// # Panics
///
/// When it is missing and the environment variable `CI` is `true`.
pub fn postgres_available() -> bool {
    programs().is_some() || skip(&format!("PostgreSQL, install it, set {VARIABLE} or run cargo xtask test"))
}

impl PostgresServer {
    /// Makes a cluster and starts it; waits until it answers. Blocks for a second or two.
    ///
    /// # Errors
    /// It is not installed, or did not start; the end of its log is in the error.
    pub fn start() -> Result<Self, ServerError> {
        let programs = programs().ok_or(ServerError::PostgresMissing)?;
        let folder = tempfile::Builder::new()
            .prefix("lockkeeper-postgres-")
            .tempdir()
            .map_err(ServerError::io("making a folder for the server"))?;
        let account = Account::needed()?;
        account.own(folder.path())?;
        init(&programs, folder.path(), &account)?;
        let port = free_port().map_err(ServerError::io("looking for a free port"))?;
        let child = launch(&programs, folder.path(), port, &account)?;
        let mut server = Self { folder, port, child };
        server.wait_ready(&programs)?;
        Ok(server)
    }

    /// The URL of its only database.
    pub fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{USER}", self.port)
    }

    fn wait_ready(&mut self, programs: &Path) -> Result<(), ServerError> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().map_err(ServerError::io("waiting for the server"))? {
                return Err(ServerError::Exited { status, log: log_tail(self.folder.path(), 0) });
            }
            let mut ask = Command::new(programs.join("pg_isready"));
            ask.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            if ask.status().is_ok_and(|status| status.success()) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(ServerError::NotReady { log: log_tail(self.folder.path(), 0) });
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // At once, without a word to its clients; its folder goes anyway. There is nobody to report to.
        let _ = send(&self.child, Signal::QUIT);
        if !matches!(wait_ended(&mut self.child), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Who runs the server: whoever we are, unless that is root.
#[derive(Debug)]
struct Account(Option<(u32, u32)>);

impl Account {
    fn needed() -> Result<Self, ServerError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self(None));
        }
        let passwd = fs::read_to_string("/etc/passwd")
            .map_err(ServerError::io("looking for a user for PostgreSQL"))?;
        let ids = UNPRIVILEGED.iter().find_map(|name| ids_of(&passwd, name));
        ids.map(|ids| Self(Some(ids))).ok_or(ServerError::PostgresMissing)
    }

    fn own(&self, path: &Path) -> Result<(), ServerError> {
        let Some((user, group)) = self.0 else { return Ok(()) };
        chown(path, Some(user), Some(group)).map_err(ServerError::io("giving a folder to PostgreSQL's user"))
    }

    fn run(&self, mut command: Command, folder: &Path) -> Result<Command, ServerError> {
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        let log = File::options().create(true).append(true).open(log_path(folder));
        let log = log.map_err(ServerError::io("opening the server's log"))?;
        let errors = log.try_clone().map_err(ServerError::io("opening the server's log"))?;
        command.current_dir(folder).stdin(Stdio::null()).stdout(log).stderr(errors);
        Ok(command)
    }
}

/// User and group of a line of `passwd`.
fn ids_of(passwd: &str, name: &str) -> Option<(u32, u32)> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn init(programs: &Path, folder: &Path, account: &Account) -> Result<(), ServerError> {
    let mut command = Command::new(programs.join("initdb"));
    command.args(["-D", "data", "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
    let status = account.run(command, folder)?.status().map_err(ServerError::io("running initdb"))?;
    match status.success() {
        true => Ok(()),
        false => Err(ServerError::Exited { status, log: log_tail(folder, 0) }),
    }
}

fn launch(programs: &Path, folder: &Path, port: u16, account: &Account) -> Result<Child, ServerError> {
    let mut command = tied_command(programs.join("postgres").as_os_str());
    command.args(["-D", "data", "-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
    // What a test writes need not survive the machine.
    command.args(["-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "synchronous_commit=off"]);
    spawn(account.run(command, folder)?).map_err(ServerError::io("starting PostgreSQL"))
}

/// The folder of the programs: the variable decides alone when it is set; then the `PATH`, then the newest version.
fn programs() -> Option<PathBuf> {
    let complete = |folder: &PathBuf| PROGRAMS.iter().all(|program| folder.join(program).is_file());
    if let Some(folder) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return Some(PathBuf::from(folder)).filter(complete);
    }
    let on_path = std::env::var_os("PATH").and_then(|path| std::env::split_paths(&path).find(complete));
    on_path.or_else(|| {
        let versions = fs::read_dir(PER_VERSION).ok()?.flatten().filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin"))).filter(|(_, folder)| complete(folder))
        });
        versions.max().map(|(_, folder)| folder)
    })
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_group_come_from_the_line_of_that_very_name() {
        let passwd = "postgres2:x:1:2::/:\npostgres:x:103:110:PostgreSQL,,,:/var/lib:/bin/sh\nbroken";
        assert_eq!(ids_of(passwd, "postgres"), Some((103, 110)));
        assert_eq!(ids_of(passwd, "nobody"), None);
        assert_eq!(ids_of(passwd, "broken"), None);
    }
}
