//! What the tests stand on: a server, the command, scratch files, and a look at processes.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use lockkeeper_faults::{RedisServer, Reply, ServerKind, available};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

/// Far beyond what anything takes.
pub(crate) const BOUND: Duration = Duration::from_secs(30);

/// Says that it runs, and ends when it is told to.
pub(crate) const HOLD: &str = "echo $$ >child; touch holds; until [ -e go ]; do (sleep 0.02); done";

/// A server of its own, and a directory in which commands run.
pub(crate) struct Bench {
    pub(crate) server: RedisServer,
    folder: TempDir,
    url: String,
}

impl Bench {
    /// `None`, and a loud line, where no server is installed.
    pub(crate) fn new() -> Option<Self> {
        if !available(ServerKind::Redis) {
            return None;
        }
        let server = RedisServer::builder().start().unwrap();
        let url = server.url();
        Some(Self { server, folder: TempDir::new().unwrap(), url })
    }

    /// The same, with commands that reach the server at another address.
    pub(crate) fn reaching(self, url: String) -> Self {
        Self { url, ..self }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
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

    pub(crate) fn wait_for_file(&self, name: &str) {
        wait_for(&format!("the file {name}"), || self.path(name).exists());
    }

    /// `lockkeeper` with these arguments, not started yet.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = lockkeeper(args);
        command.env("LOCKKEEPER_URL", &self.url).current_dir(self.folder.path());
        command
    }

    /// Runs `lockkeeper` to its end.
    pub(crate) fn lockkeeper<S: AsRef<OsStr>>(&self, args: &[S]) -> Output {
        Running::start(self.command(args)).output()
    }

    /// Starts `lockkeeper run OPTIONS -- sh -c SCRIPT`.
    pub(crate) fn run(&self, options: &[&str], script: &str) -> Running {
        let args: Vec<&str> =
            ["run"].iter().chain(options).chain(&["--", "sh", "-c", script]).copied().collect();
        Running::start(self.command(&args))
    }

    /// The key exists on the server.
    pub(crate) fn is_held(&self, key: &str) -> bool {
        self.server.command(&["EXISTS", key]).unwrap() == Reply::Int(1)
    }

    /// How many connections the server has.
    pub(crate) fn clients(&self) -> usize {
        match self.server.command(&["CLIENT", "LIST"]).unwrap() {
            Reply::Bytes(list) => list.iter().filter(|byte| **byte == b'\n').count(),
            other => panic!("{other:?}"),
        }
    }

    /// When the key expires, if it is there: not before this.
    pub(crate) fn expires_at(&self, key: &str) -> Option<Instant> {
        let asked = Instant::now();
        match self.server.command(&["PTTL", key]).unwrap() {
            Reply::Int(ms) if ms >= 0 => Some(asked + Duration::from_millis(u64::try_from(ms).unwrap())),
            _ => None,
        }
    }
}

/// `lockkeeper` without a server.
pub(crate) fn lockkeeper<S: AsRef<OsStr>>(args: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.args(args).env_remove("REDIS_URL").env_remove("LOCKKEEPER_URL").env_remove("LOCKKEEPER_LOG");
    command
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A command in a process group of its own, which is killed when a test fails.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        Self(command.spawn().unwrap())
    }

    pub(crate) fn with_input(mut command: Command, input: &[u8]) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
        std::thread::spawn(move || stdin.write_all(&input));
        Self(child)
    }

    pub(crate) fn process(&self) -> Process {
        Process(i32::try_from(self.0.id()).unwrap())
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for("the command's end", || !self.is_running());
        self.0.wait().unwrap()
    }

    /// Nobody reads what is said on standard error any more.
    pub(crate) fn close_stderr(&mut self) {
        self.0.stderr = None;
    }

    /// Waits for the end, and reads what was said.
    pub(crate) fn output(mut self) -> Output {
        let (stdout, stderr) = (self.0.stdout.take().unwrap(), self.0.stderr.take().unwrap());
        let stdout = std::thread::spawn(move || read_all(stdout));
        let stderr = std::thread::spawn(move || read_all(stderr));
        let code = self.wait().code();
        Output { code, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
    }
}

fn read_all(mut source: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = source.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
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
    pub(crate) fn signal(self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn pid(self) -> Pid {
        Pid::from_raw(self.0).unwrap()
    }

    /// The letter of its state; a zombie counts as gone.
    fn state(self) -> Option<char> {
        test_kill_process(self.pid()).ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        rest.trim_start().chars().next().filter(|state| *state != 'Z')
    }

    pub(crate) fn is_gone(self) -> bool {
        self.state().is_none()
    }

    pub(crate) fn is_stopped(self) -> bool {
        self.state() == Some('T')
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
