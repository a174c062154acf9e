//! The guard of a running server: what it is and where it listens. When it goes, so does the process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Signal;
use tempfile::TempDir;

use super::builder::ServerBuilder;
use super::client::{COMMAND_TIMEOUT, Client};
use super::error::ServerError;
use super::launch::{Launch, log_path};
use super::reply::Reply;
use super::settings::{Listen, Settings};
use super::signal;

/// A real server process, ended when this is dropped.
///
/// All methods take `&self` and may be called from any thread. They block, at most for about ten seconds
/// each. On Linux with `setpriv` (util-linux) the process is killed by the kernel, too, when this process
/// ends without running destructors; elsewhere a server survives that.
#[derive(Debug)]
pub struct RedisServer {
    pub(super) settings: Settings,
    pub(super) binary: PathBuf,
    pub(super) folder: TempDir,
    pub(super) port: u16,
    pub(super) child: Mutex<Option<Child>>,
}

impl RedisServer {
    /// Starts with the defaults: Redis on a free TCP port of 127.0.0.1, nothing persistent, no password.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    pub(crate) fn start(settings: &Settings, binary: &Path, port: u16) -> Result<RedisServer, ServerError> {
        let folder = tempfile::Builder::new()
            .prefix("lockkeeper-server-")
            .tempdir()
            .map_err(ServerError::io("making a folder for the server"))?;
        let launch = Launch { settings, binary, folder: folder.path(), port };
        let child = Mutex::new(Some(launch.run()?));
        Ok(RedisServer { settings: settings.clone(), binary: binary.to_owned(), folder, port, child })
    }

    /// The TCP port on 127.0.0.1; 0 when the server listens on a unix socket only.
    pub fn port(&self) -> u16 {
        if self.settings.listen == Listen::Unix { 0 } else { self.port }
    }

    /// The URL of the TCP port, without a password: `redis://127.0.0.1:PORT`, or `rediss://` with TLS.
    ///
    /// A server that listens on a unix socket only has none; then this is the URL of the socket
    /// (`unix://PATH`).
    pub fn url(&self) -> String {
        match self.socket_path() {
            Some(path) if self.settings.listen == Listen::Unix => format!("unix://{}", path.display()),
            _ if self.settings.tls.is_some() => format!("rediss://127.0.0.1:{}", self.port),
            _ => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    /// The unix socket, if the server listens on one.
    pub fn socket_path(&self) -> Option<PathBuf> {
        self.settings.socket(self.folder.path())
    }

    /// The folder that the server works in; it goes with the guard.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// All that the server wrote to its output since its first start.
    pub fn log(&self) -> String {
        let log = fs::read(log_path(self.folder.path())).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Runs one command over a connection of its own and answers the reply; an error reply is
    /// [`Reply::Error`]. A server that does not answer within five seconds is an error.
    pub fn command(&self, args: &[&str]) -> Result<Reply, ServerError> {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        self.command_bytes(&args)
    }

    /// The same with arguments that need not be text.
    pub fn command_bytes(&self, args: &[&[u8]]) -> Result<Reply, ServerError> {
        let address = self.settings.address(self.folder.path(), self.port);
        let mut client = Client::connect(&address, COMMAND_TIMEOUT)?;
        if let Some(password) = &self.settings.password {
            let answer = client.call(&[b"AUTH", password.as_bytes()])?;
            if answer.is_error() {
                return Ok(answer);
            }
        }
        client.call(args)
    }

    pub(super) fn launch(&self) -> Launch<'_> {
        let folder = self.folder.path();
        Launch { settings: &self.settings, binary: &self.binary, folder, port: self.port }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let slot = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut child) = slot.take() {
            // There is nobody to report to; a process that is gone already is what we want.
            let _ = signal::send(&child, Signal::CONT);
            let _ = signal::send(&child, Signal::KILL);
            let _ = signal::wait_ended(&mut child);
            self.launch().sweep(child.id());
        }
    }
}
