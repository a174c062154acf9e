//! When a server counts as up: it answers `PING` with any line but `-LOADING`, and it is the process that was
//! started, not another one that has the same port.

use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use super::client::{Address, Client};
use super::error::ServerError;
use super::launch::{Launch, log_tail};
use super::reply::Reply;
use super::signal::{POLL, PROCESS_TIMEOUT};

/// How long one question may take; a server that is slow to answer is asked again.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits until the process answers.
pub(crate) fn wait(launch: &Launch<'_>, child: &mut Child, log_start: u64) -> Result<(), ServerError> {
    let address = launch.settings.address(launch.folder, launch.port);
    let password = launch.settings.password.as_deref();
    let deadline = Instant::now() + PROCESS_TIMEOUT;
    loop {
        if let Some(status) = child.try_wait().map_err(ServerError::io("waiting for the server"))? {
            return Err(ServerError::Exited { status, log: log_tail(launch.folder, log_start) });
        }
        if is_up(&address, password, child.id()).unwrap_or(false) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(ServerError::NotReady { log: log_tail(launch.folder, log_start) });
        }
        thread::sleep(POLL);
    }
}

fn is_up(address: &Address, password: Option<&str>, pid: u32) -> Result<bool, ServerError> {
    let mut client = Client::connect(address, ASK_TIMEOUT)?;
    let answered = match client.call(&[b"PING"])? {
        Reply::Status(_) => true,
        Reply::Error(text) => !text.starts_with("LOADING"),
        _ => false,
    };
    Ok(answered && is_process(&mut client, password, pid)?)
}

/// Whether the server that answers has this process id. One that does not tell is believed.
fn is_process(client: &mut Client, password: Option<&str>, pid: u32) -> Result<bool, ServerError> {
    if let Some(password) = password {
        client.call(&[b"AUTH", password.as_bytes()])?;
    }
    let info = client.call(&[b"INFO", b"server"])?;
    let Reply::Bytes(text) = info else { return Ok(true) };
    let text = String::from_utf8_lossy(&text);
    let told = text.lines().find_map(|line| line.strip_prefix("process_id:"));
    Ok(told.is_none_or(|told| told.trim() == pid.to_string()))
}
