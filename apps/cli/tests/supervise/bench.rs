//! What the tests stand on: the wrapper, its scratch files, and a look at processes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

/// Far beyond what anything takes.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

/// The example `supervise`. Built here, because `cargo test --test` does not build examples; with the features of the whole
/// workspace, as everything beside it was built, or all that it needs would be built once more.
pub(crate) fn wrapper() -> &'static Path {
    static WRAPPER: OnceLock<PathBuf> = OnceLock::new();
    WRAPPER.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.ancestors().nth(2).unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--offline", "--workspace", "--all-features"]);
        build.args(["--example", "supervise", "--manifest-path"]);
        build.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
        build.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success());
        profile.join("examples/supervise")
    })
}

/// A directory for the files by which test, wrapper and child talk.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn touch(&self, name: &str) {
        std::fs::write(self.path(name), "").unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The process that wrote its number, with a line end, into this file.
    pub(crate) fn pid(&self, name: &str) -> Process {
        wait_for(&format!("{name} to hold a number"), || self.read(name).ends_with('\n'));
        Process(self.read(name).trim().parse().unwrap())
    }

    /// The wrapper running `sh -c script` in this directory, in a process group of its own.
    pub(crate) fn start(&self, options: &[&str], script: &str) -> Running {
        let mut command = Command::new(wrapper());
        command.args(options).args(["sh", "-c", script]).current_dir(self.0.path());
        Running::start(command)
    }
}

/// A wrapper that is killed, with what is left of its child, when a test fails.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        use std::os::unix::process::CommandExt;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        Self(command.spawn().unwrap())
    }

    pub(crate) fn process(&self) -> Process {
        Process(i32::try_from(self.0.id()).unwrap())
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_for("the wrapper's end", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    pub(crate) fn code(&mut self) -> Option<i32> {
        self.wait().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process by its number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Process(pub(crate) i32);

impl Process {
    pub(crate) fn pid(self) -> Pid {
        Pid::from_raw(self.0).unwrap()
    }

    pub(crate) fn signal(self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn signal_group(self, signal: Signal) {
        kill_process_group(self.pid(), signal).unwrap();
    }

    /// The letter of its state; a zombie counts as gone.
    fn state(self) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        rest.trim_start().chars().next().filter(|state| *state != 'Z')
    }

    pub(crate) fn is_stopped(self) -> bool {
        self.state() == Some('T')
    }

    pub(crate) fn is_gone(self) -> bool {
        self.state().is_none()
    }

    pub(crate) fn is_running(self) -> bool {
        !self.is_gone() && !self.is_stopped()
    }
}

/// Waits for `condition`, and fails if it does not come true.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + BOUND;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
