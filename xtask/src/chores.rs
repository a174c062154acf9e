//! What each chore consists of: lists of steps, with nothing run yet.

use crate::call::Call;
use crate::cli::{Task, TestOptions};
use crate::provision::{Need, TEST_NEEDS};

/// One line of the summary.
#[derive(Debug)]
pub(crate) struct Step {
    /// How the summary calls it.
    pub(crate) name: &'static str,
    /// The tool without which it can't run.
    pub(crate) tool: Option<Need>,
    /// What it does.
    pub(crate) work: Work,
}

/// What a step does.
#[derive(Debug)]
pub(crate) enum Work {
    /// Installs what of these is missing.
    Provision(&'static [Need]),
    /// Calls a program.
    Call(Call),
    /// Calls a program that starts servers, and tells it where they are.
    CallWithServers(Call),
    /// Checks the other targets that are installed.
    Targets,
}

const LINT_NEEDS: &[Need] = &[Need::Rustfmt, Need::Clippy, Need::CargoDeny];

/// The steps of a chore, in order.
pub(crate) fn steps_of(task: &Task) -> Vec<Step> {
    match task {
        Task::Test(options) => test(options),
        Task::Provision => vec![provision(TEST_NEEDS)],
        Task::Lint(_) => vec![provision(LINT_NEEDS), fmt(), clippy(), docs(), deny()],
        Task::Advisories => vec![provision(&[Need::CargoDeny]), advisories()],
        Task::Targets => vec![targets()],
    }
}

fn test(options: &TestOptions) -> Vec<Step> {
    let (tests, doc_tests) = (tests(options), doc_tests(options));
    vec![provision(TEST_NEEDS), fmt(), clippy(), docs(), tests, doc_tests, deny(), lean(), targets()]
}

fn provision(needs: &'static [Need]) -> Step {
    Step { name: "provision", tool: None, work: Work::Provision(needs) }
}

fn fmt() -> Step {
    let work = Work::Call(Call::cargo("fmt --all --check"));
    Step { name: "fmt", tool: Some(Need::Rustfmt), work }
}

fn clippy() -> Step {
    let call = Call::cargo("clippy --workspace --all-targets --all-features -- -D warnings");
    Step { name: "clippy", tool: Some(Need::Clippy), work: Work::Call(call) }
}

fn docs() -> Step {
    let call = Call::cargo("doc --workspace --no-deps --all-features").env("RUSTDOCFLAGS", "-D warnings");
    Step { name: "docs", tool: None, work: Work::Call(call) }
}

/// The kinds of targets are spelled out to leave benches out, which would run
/// as slow tests.
fn tests(options: &TestOptions) -> Step {
    let call = Call::cargo("test --workspace --all-features --lib --bins --tests --examples");
    Step { name: "tests", tool: None, work: Work::CallWithServers(with_options(call, options)) }
}

fn doc_tests(options: &TestOptions) -> Step {
    let call = with_options(Call::cargo("test --workspace --all-features --doc"), options);
    Step { name: "doc tests", tool: None, work: Work::CallWithServers(call) }
}

fn with_options(mut call: Call, options: &TestOptions) -> Call {
    if options.going.keep_going {
        call = call.arg("--no-fail-fast");
    }
    match options.test_threads {
        Some(threads) => call.arg("--").arg(format!("--test-threads={threads}")),
        None => call,
    }
}

/// The command as it is published, without its additive features. In a folder of its own, because dependencies have
/// fewer features then.
fn lean() -> Step {
    let call = Call::cargo("check -p lockkeeper-cli --target-dir target/lean");
    Step { name: "lean", tool: None, work: Work::Call(call.env("RUSTFLAGS", "-D warnings")) }
}

/// Advisories are not among these checks: their database needs the network,
/// and a new entry would break a build which nobody touched.
fn deny() -> Step {
    let work = Work::Call(Call::cargo("deny check --hide-inclusion-graph bans licenses sources"));
    Step { name: "deny", tool: Some(Need::CargoDeny), work }
}

fn advisories() -> Step {
    let work = Work::Call(Call::cargo("deny check advisories"));
    Step { name: "advisories", tool: Some(Need::CargoDeny), work }
}

fn targets() -> Step {
    Step { name: "targets", tool: None, work: Work::Targets }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Going;
    use std::num::NonZeroU16;

    fn names(task: &Task) -> Vec<&'static str> {
        steps_of(task).iter().map(|step| step.name).collect()
    }

    fn shown(step: &Step) -> String {
        match &step.work {
            Work::Call(call) | Work::CallWithServers(call) => call.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn test_runs_everything_in_order() {
        let all = ["provision", "fmt", "clippy", "docs", "tests", "doc tests", "deny", "lean", "targets"];
        assert_eq!(names(&Task::Test(TestOptions::default())), all);
    }

    #[test]
    fn lint_runs_no_tests() {
        assert_eq!(names(&Task::Lint(Going::default())), ["provision", "fmt", "clippy", "docs", "deny"]);
    }

    #[test]
    fn tests_choose_their_own_parallelism_unless_told() {
        let plain = shown(&tests(&TestOptions::default()));
        assert_eq!(plain, "cargo test --workspace --all-features --lib --bins --tests --examples");
    }

    #[test]
    fn options_reach_cargo_and_the_tests_in_this_order() {
        let options = TestOptions { going: Going { keep_going: true }, test_threads: NonZeroU16::new(3) };
        assert!(shown(&tests(&options)).ends_with("--examples --no-fail-fast -- --test-threads=3"));
        assert!(shown(&doc_tests(&options)).ends_with("--doc --no-fail-fast -- --test-threads=3"));
    }
}
