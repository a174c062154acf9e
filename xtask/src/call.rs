//! One call of another program: built as a value, so that it can be shown,
//! compared in tests, and only then run.

use std::env;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// A program, its arguments, and what it gets on top of our environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Call {
    /// A call of `program` with the words of `args`, which hold no quotes.
    pub(crate) fn new(program: &str, args: &str) -> Self {
        let args = args.split_whitespace().map(str::to_owned).collect();
        Self { program: program.to_owned(), args, env: Vec::new() }
    }

    /// A call of cargo.
    pub(crate) fn cargo(args: &str) -> Self {
        Self::new("cargo", args)
    }

    /// Adds one argument, as it is.
    pub(crate) fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds a variable to the environment.
    pub(crate) fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Runs it on our own screen; `true` if it ended well.
    pub(crate) fn run(&self, dir: &Path) -> Result<bool> {
        let status = self.command(dir).status().with_context(|| format!("can't start `{self}`"))?;
        Ok(status.success())
    }

    /// Runs it out of sight; its standard output if it ended well.
    pub(crate) fn output(&self, dir: &Path) -> Option<String> {
        let output = self.command(dir).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(&self, dir: &Path) -> Command {
        let mut command = Command::new(resolve(&self.program));
        command.args(&self.args).current_dir(dir);
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_leak)) {
            command.env_remove(name);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={} ", quoted(value))?;
        }
        f.write_str(&self.program)?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))
    }
}

fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) { format!("'{word}'") } else { word.to_owned() }
}

/// The cargo that runs us, rather than the first one on the path.
fn resolve(program: &str) -> String {
    let own = if program == "cargo" { env::var("CARGO").ok() } else { None };
    own.unwrap_or_else(|| program.to_owned())
}

/// Whether `cargo run` sets this variable about us. A cargo below us must not
/// see it: build scripts that watch these variables would run again each time.
fn is_leak(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"].iter().any(|p| name.starts_with(p))
        || ["CARGO_PRIMARY_PACKAGE", "OUT_DIR"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_shows_as_it_would_be_typed() {
        let call = Call::cargo("doc --no-deps").arg("a b").env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(call.to_string(), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'a b'");
    }

    #[test]
    fn only_what_cargo_says_about_us_is_hidden() {
        assert!(is_leak("CARGO_PKG_NAME") && is_leak("CARGO_MANIFEST_DIR"));
        assert!(!is_leak("CARGO_TARGET_DIR") && !is_leak("CARGO_HOME") && !is_leak("PATH"));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_and_no_output() {
        let call = Call::new("no-such-program-anywhere", "");
        assert!(call.run(Path::new(".")).is_err());
        assert_eq!(call.output(Path::new(".")), None);
    }
}
