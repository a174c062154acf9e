//! `lockkeeper once resolve`: say what became of an attempt that went away.

use std::ffi::OsString;
use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use lockkeeper::core::idempotency::MAX_STORED_BYTES;
use lockkeeper::core::key::Escaped;
use lockkeeper::{Fence, Resolution, ResolveReply, Stored};
use serde::Serialize;

use super::Which;
use crate::common::{self, Common, bytes_of, rounded};
use crate::exit::{BUSY, Failure, NOTHING};

/// Say what became of an attempt that went away.
///
/// Find out first, at the system that had the effect or did not. Exactly the attempt with this fence (as `once show`
/// prints it) is resolved, and only where its lease has ended and nothing has begun since; should it come back, it is told
/// that it was taken over.
///
/// Exit codes: 0 resolved; 1 there is no record, or it had ended already; 75 it is running, or its latest attempt has another
/// fence.
#[derive(Debug, clap::Args)]
pub(super) struct ResolveArgs {
    #[command(flatten)]
    which: Which,

    /// The fence of the attempt.
    #[arg(long, value_name = "N")]
    fence: u64,

    #[command(flatten)]
    became: Became,

    /// Remember the key for so long from now on, or as long as it would have been, whichever is longer.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = common::duration)]
    retain: Duration,
}

/// What became of it.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Became {
    /// It had no effect: the next caller runs it.
    #[arg(long)]
    undone: bool,

    /// It had its effect, with this result: JSON, or a file with it, or `-` for standard input.
    ///
    /// Later callers are answered these bytes, so they are to be what the program itself would have stored: JSON for
    /// `Once::run`; for an answer over HTTP, a line such as {"status":201,"headers":[["content-type","application/json"]]} and
    /// then the body, as `once show --result` prints one. Who does not have it says --not-kept: it cannot be corrected later.
    /// Other users of this machine can read command lines.
    #[arg(long, value_name = "FILE|-|JSON", allow_hyphen_values = true)]
    completed: Option<OsString>,

    /// It had its effect, and its result is not known. Later callers are told so.
    #[arg(long)]
    not_kept: bool,
}

impl std::fmt::Debug for Became {
    /// Without the result, which is nobody's business.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Became").field("undone", &self.undone).finish_non_exhaustive()
    }
}

/// What JSON shows.
#[derive(Serialize)]
struct Report {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_ms: Option<u64>,
}

pub(super) async fn run(args: ResolveArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let resolution = args.became.resolution()?;
    let (keeper, once) = args.which.open(common).await?;
    let once = once.retain(args.retain);
    let reply = once.resolve(args.which.key()?, Fence::new(args.fence), resolution).await;
    common::close(&keeper).await;
    let (key, reply) = (args.which.full_key()?, reply?);
    if common.json {
        common::print_json(&report(&key, &reply))?;
    } else {
        common::print(&text(&key, &reply))?;
    }
    Ok(code(&reply))
}

fn code(reply: &ResolveReply) -> ExitCode {
    match reply {
        ResolveReply::Resolved => ExitCode::SUCCESS,
        ResolveReply::Gone | ResolveReply::Settled => ExitCode::from(NOTHING),
        ResolveReply::Running { .. } | ResolveReply::Changed(_) => ExitCode::from(BUSY),
    }
}

fn text(key: &[u8], reply: &ResolveReply) -> String {
    let key = Escaped(key);
    match reply {
        ResolveReply::Resolved => format!("{key} is resolved"),
        ResolveReply::Gone => format!("{key} is not remembered: there was nothing to resolve"),
        ResolveReply::Settled => format!("{key} had ended already: there was nothing to resolve"),
        ResolveReply::Running { holder, remaining } => {
            format!("{key} is running: {holder} has {} left of its lease", rounded(*remaining))
        }
        ResolveReply::Changed(fence) => {
            format!("the latest attempt of {key} has fence {fence}, not the one given: look with `once show`")
        }
    }
}

fn report(key: &[u8], reply: &ResolveReply) -> Report {
    let (outcome, fence, running) = match reply {
        ResolveReply::Resolved => ("resolved", None, None),
        ResolveReply::Gone => ("gone", None, None),
        ResolveReply::Settled => ("settled", None, None),
        ResolveReply::Running { holder, remaining } => ("running", None, Some((holder, *remaining))),
        ResolveReply::Changed(fence) => ("changed", Some(fence.get()), None),
    };
    Report {
        key: common::text_of(key),
        key_hex: common::hex_of(key),
        outcome,
        fence,
        holder: running.map(|(holder, _)| holder.to_string()),
        remaining_ms: running.map(|(_, remaining)| crate::ls::millis(remaining)),
    }
}

impl Became {
    fn resolution(&self) -> anyhow::Result<Resolution> {
        Ok(match &self.completed {
            Some(result) => Resolution::Completed(Stored::whole(read(result)?)?),
            None if self.not_kept => Resolution::Completed(Stored::not_kept(Vec::new())?),
            None => Resolution::Undone,
        })
    }
}

/// What is JSON is the result itself; anything else names a file.
fn read(result: &OsString) -> anyhow::Result<Vec<u8>> {
    if result == "-" {
        return bounded(std::io::stdin(), "standard input");
    }
    let bytes = bytes_of(result, "the result")?;
    if serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok() {
        return Ok(bytes.to_vec());
    }
    let name = Escaped(bytes).to_string();
    let unreadable = |error| {
        Failure::usage(format!("--completed {name}: neither JSON nor a file that can be read: {error}"))
    };
    bounded(std::fs::File::open(result).map_err(unreadable)?, &name)
}

fn bounded(source: impl Read, what: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let unreadable = |error| Failure::usage(format!("--completed {what}: {error}"));
    source.take(MAX_STORED_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > MAX_STORED_BYTES {
        let detail = format!("--completed {what}: a result has at most {MAX_STORED_BYTES} bytes");
        return Err(Failure::usage(detail).into());
    }
    Ok(bytes)
}
