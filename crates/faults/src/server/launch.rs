//! One start of a server process: spawn it, wait until it answers, and clean up if it does not.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use super::error::ServerError;
use super::libfaketime;
use super::ready;
use super::settings::Settings;
use super::spawn::{spawn, tied_command};

/// What the end of a log is, in bytes.
const TAIL: usize = 4096;

/// The process with everything it was started with.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) binary: &'a Path,
    pub(crate) folder: &'a Path,
    pub(crate) port: u16,
}

impl Launch<'_> {
    /// Starts the process and waits until it is ready; a process that does not get there is gone afterwards.
    pub(crate) fn run(&self) -> Result<Child, ServerError> {
        self.remove_socket();
        self.write_sentinel_file().map_err(ServerError::io("writing the Sentinel's file"))?;
        let log_start = fs::metadata(log_path(self.folder)).map_or(0, |metadata| metadata.len());
        let mut child = self.spawn().map_err(ServerError::io("starting the server"))?;
        match ready::wait(self, &mut child, log_start) {
            Ok(()) => Ok(child),
            Err(error) => {
                let pid = child.id();
                // The first error is the one to report.
                let _ = child.kill();
                let _ = child.wait();
                self.sweep(pid);
                Err(error)
            }
        }
    }

    /// Removes what a process that has ended left outside its folder.
    pub(crate) fn sweep(&self, pid: u32) {
        if self.settings.clock.is_some() {
            libfaketime::sweep(pid);
        }
    }

    /// Once: a restarted one goes on with what it wrote itself.
    fn write_sentinel_file(&self) -> std::io::Result<()> {
        match (&self.settings.sentinel, self.settings.sentinel_file(self.folder)) {
            (Some(lines), Some(file)) if !file.exists() => fs::write(file, lines),
            _ => Ok(()),
        }
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(log_path(self.folder))?;
        let errors: File = log.try_clone()?;
        let mut command = tied_command(self.binary.as_os_str());
        command.args(self.settings.arguments(self.folder, self.port));
        command.current_dir(self.folder).stdin(Stdio::null()).stdout(log).stderr(errors);
        if let Some(clock) = &self.settings.clock {
            libfaketime::preload(&mut command, clock.library(), &clock.time_file());
        }
        spawn(command)
    }

    /// A killed server leaves its socket; with it in place, readiness would be harder to tell.
    fn remove_socket(&self) {
        if let Some(path) = self.settings.socket(self.folder) {
            let _ = fs::remove_file(path);
        }
    }
}

pub(crate) fn log_path(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

/// The end of the log, of what was written after this position.
pub(crate) fn log_tail(folder: &Path, start: u64) -> String {
    let log = fs::read(log_path(folder)).unwrap_or_default();
    let start = usize::try_from(start).unwrap_or(usize::MAX).min(log.len());
    let written = &log[start..];
    String::from_utf8_lossy(&written[written.len().saturating_sub(TAIL)..]).into_owned()
}
