//! Runs steps one after another, and says on the screen what happens.

use std::time::Instant;

use anyhow::Result;

use crate::call::Call;
use crate::chores::{Step, Work};
use crate::provision;
use crate::summary::{self, Line, Outcome};
use crate::targets;
use crate::workspace::Workspace;

/// The variable by which tests find the servers we provision.
const SERVERS_DIR: &str = "LOCKKEEPER_SERVERS_DIR";
/// The variable by which tests find the lock libraries of other languages.
const INTEROP_DIR: &str = "LOCKKEEPER_INTEROP_DIR";

/// Runs the steps until one fails, or all of them with `keep_going`; then shows
/// the summary. `true` if none failed.
pub(crate) fn run_all(workspace: &Workspace, steps: &[Step], keep_going: bool) -> Result<bool> {
    let mut lines = Vec::new();
    for step in steps {
        let line = run_timed(workspace, step)?;
        let stop = line.outcome == Outcome::Failed && !keep_going;
        lines.push(line);
        if stop {
            break;
        }
    }
    let left = steps[lines.len()..].iter().map(|step| Line::not_run(step.name));
    lines.extend(left);
    println!("\n{}", summary::table(&lines));
    Ok(lines.iter().all(|line| line.outcome != Outcome::Failed))
}

fn run_timed(workspace: &Workspace, step: &Step) -> Result<Line> {
    let start = Instant::now();
    println!("\n==> {}", step.name);
    let outcome = run_step(workspace, step)?;
    let line = Line { name: step.name, outcome, took: start.elapsed() };
    println!("==> {}: {} in {}", line.name, line.outcome, summary::seconds(line.took));
    Ok(line)
}

fn run_step(workspace: &Workspace, step: &Step) -> Result<Outcome> {
    if let Some(tool) = step.tool.filter(|tool| !tool.is_present(workspace)) {
        println!("{} is missing", tool.name());
        return Ok(if provision::in_ci() { Outcome::Failed } else { Outcome::Skipped });
    }
    let passed = match &step.work {
        Work::Provision(needs) => provision::provision(workspace, needs)?,
        Work::Call(call) => shown(&for_once(call), workspace)?,
        Work::CallWithServers(call) => shown(&for_once(&with_servers(call, workspace)), workspace)?,
        Work::Targets => targets::check_all(workspace)?,
    };
    Ok(if passed { Outcome::Passed } else { Outcome::Failed })
}

fn with_servers(call: &Call, workspace: &Workspace) -> Call {
    let call = call.clone().env(SERVERS_DIR, workspace.servers().to_string_lossy());
    call.env(INTEROP_DIR, workspace.interop().to_string_lossy())
}

/// A machine that builds once has no use for what a second build would be faster with, and perhaps no room for it.
fn for_once(call: &Call) -> Call {
    if provision::in_ci() { call.clone().env("CARGO_INCREMENTAL", "0") } else { call.clone() }
}

/// Runs a call after showing it.
pub(crate) fn shown(call: &Call, workspace: &Workspace) -> Result<bool> {
    println!("$ {call}");
    call.run(&workspace.root)
}
