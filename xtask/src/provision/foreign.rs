//! The lock libraries of other languages, which share keys with us in the tests: redis-py, and redlock for Node.
//! Each lies in a folder of its own below `target/interop`; nothing of the machine's Python or Node is changed.

use std::path::Path;

use super::node::{self, Node};
use crate::call::Call;
use crate::workspace::Workspace;

/// The newest redis-py that runs on Python 3.9, the oldest that distributions still have.
const REDIS_PY: &str = "7.0.1";

/// A program or library that the tests run as a foreign client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// The package `redis` for Python.
    RedisPy,
    /// Node with npm.
    Node,
    /// The package `redlock` for Node.
    Redlock,
}

impl Foreign {
    /// How people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Foreign::RedisPy => "redis-py",
            Foreign::Node => "node with npm",
            Foreign::Redlock => "redlock for node",
        }
    }

    /// How to get it where we can't.
    pub(crate) fn by_hand(self) -> String {
        match self {
            Foreign::RedisPy => {
                format!(
                    "install it by `python3 -m pip install --target target/interop/python redis=={REDIS_PY}`"
                )
            }
            Foreign::Node => format!("install Node {} or later, and npm", node::OLDEST),
            Foreign::Redlock => {
                format!(
                    "install it by `npm install --prefix target/interop/node {}`",
                    node::packages().join(" ")
                )
            }
        }
    }

    /// What does not run without it.
    pub(crate) fn left_out(self) -> &'static str {
        match self {
            Foreign::RedisPy => "tests against redis-py",
            Foreign::Node | Foreign::Redlock => "tests against redlock for node",
        }
    }

    /// Whether pip brings it.
    pub(crate) fn is_by_pip(self) -> bool {
        matches!(self, Foreign::RedisPy | Foreign::Node)
    }

    /// Whether it is there, in the version we ask for, and works.
    pub(crate) fn is_present(self, workspace: &Workspace) -> bool {
        match self {
            Foreign::RedisPy => has_redis_py(workspace),
            Foreign::Node => Node::find(workspace).is_some(),
            Foreign::Redlock => Node::find(workspace).is_some_and(|node| node.has_packages(workspace)),
        }
    }

    /// The call that fetches it; none where there is no npm to do it.
    pub(crate) fn install(self, workspace: &Workspace) -> Option<Call> {
        match self {
            Foreign::RedisPy => Some(pip(&format!("redis=={REDIS_PY}"), &workspace.interop().join("python"))),
            Foreign::Node => Some(pip(node::WHEEL, &workspace.interop().join("nodejs"))),
            Foreign::Redlock => Node::find(workspace).map(|node| node.install_packages(workspace)),
        }
    }
}

fn has_redis_py(workspace: &Workspace) -> bool {
    let code = format!("import redis, redis.lock, sys; sys.exit(redis.__version__ != '{REDIS_PY}')");
    let path = workspace.interop().join("python");
    let call = Call::new("python3", "-c").arg(code).env("PYTHONPATH", path.to_string_lossy());
    call.output(&workspace.root).is_some()
}

/// Whatever was there in another version is replaced.
fn pip(requirement: &str, into: &Path) -> Call {
    let call = Call::new("python3", "-m pip install --quiet --upgrade --only-binary=:all: --target");
    call.arg(into.to_string_lossy()).arg(requirement)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        Workspace { root: "r".into(), target: "t".into() }
    }

    #[test]
    fn python_packages_are_pinned_and_lie_below_the_target_directory() {
        let call = pip("redis==1.2.3", &workspace().interop().join("python")).to_string();
        let expected = "python3 -m pip install --quiet --upgrade --only-binary=:all: \
                        --target t/interop/python redis==1.2.3";
        assert_eq!(call, expected);
    }

    #[test]
    fn only_what_pip_brings_wants_pip() {
        assert!(Foreign::RedisPy.is_by_pip() && Foreign::Node.is_by_pip() && !Foreign::Redlock.is_by_pip());
    }
}
