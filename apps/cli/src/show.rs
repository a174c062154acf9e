//! `lockkeeper show`: one lock in detail.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockkeeper::core::key::Escaped;
use lockkeeper::core::lock::{Inspection, MAX_PRESENT};
use lockkeeper::{Holder, Keeper, Key, Prefix};
use serde::Serialize;

use crate::common::{self, Common, Namespace, bytes_of};
use crate::exit::NOT_A_LOCK;
use crate::ls::{millis, remaining};
use crate::waiters::{self, WaiterRow};

/// Show who holds a lock, since when and for how long, and who waits for it.
///
/// The exit code is 0 whether it is held or free, and 65 for a key with another type; JSON says which in `state`:
/// `held`, `free` or `not_a_lock`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The lock's name; with --exact, its whole key.
    key: OsString,

    #[command(flatten)]
    namespace: Namespace,
}

/// What JSON shows.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    state: &'static str,
    holder: Option<String>,
    holder_id: Option<String>,
    ours: Option<bool>,
    acquired_ms: Option<u64>,
    remaining_ms: Option<u64>,
    fence: Option<u64>,
    waiting: u64,
    waiters: Vec<WaiterRow>,
}

pub(crate) async fn run(args: ShowArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let name = bytes_of(&args.key, "the key")?;
    let keeper = common.connect(&args.namespace).await?;
    let seen = keeper.inspect(name).await;
    let partly = held_partly(&keeper, name, seen.as_ref().ok()).await;
    common::close(&keeper).await;
    let (key, seen) = (full_key(&keeper, name), seen?);
    if common.json {
        common::print_json(&report(&key, &seen))?;
    } else {
        common::print(&text(&key, &seen))?;
        for line in partly {
            common::print(&line)?;
        }
    }
    Ok(if seen.wrong_type { ExitCode::from(NOT_A_LOCK) } else { ExitCode::SUCCESS })
}

/// Servers of a majority that keep a lock which too few keep for it to be held: what is left of a try, or of a holder whose
/// lease has ended elsewhere.
async fn held_partly(keeper: &Keeper, name: &[u8], seen: Option<&Inspection>) -> Vec<String> {
    let (Some(store), Some(None)) = (keeper.quorum_store(), seen.map(|seen| &seen.holder)) else {
        return vec![];
    };
    let key = Prefix::new(keeper.prefix()).and_then(|prefix| Key::new(&prefix, name));
    let Ok(key) = key else { return vec![] };
    let each = store.inspect_each(&key, store.response_timeout()).await.unwrap_or_default();
    let held = each.into_iter().filter_map(|(address, seen)| Some((address, seen.holder?, seen.remaining)));
    held.map(|(address, holder, left)| format!("  at {address} only: {holder}, {}", remaining(left)))
        .collect()
}

/// The key on the server.
pub(crate) fn full_key(keeper: &Keeper, name: &[u8]) -> Vec<u8> {
    [keeper.prefix(), name].concat()
}

pub(crate) fn report(key: &[u8], seen: &Inspection) -> Report {
    let holder = seen.holder.as_ref();
    Report {
        key: common::text_of(key),
        key_hex: common::hex_of(key),
        state: match (seen.wrong_type, holder) {
            (true, _) => "not_a_lock",
            (false, Some(_)) => "held",
            (false, None) => "free",
        },
        holder: holder.map(ToString::to_string),
        holder_id: holder.map(Holder::id),
        ours: holder.map(Holder::is_ours),
        acquired_ms: holder.and_then(Holder::acquired_at).map(|at| at.as_millis()),
        remaining_ms: seen.remaining.map(millis),
        fence: seen.fence.map(|fence| fence.get()),
        waiting: seen.waiting(),
        waiters: waiters::rows(&seen.waiters),
    }
}

fn text(key: &[u8], seen: &Inspection) -> String {
    let lines = facts(seen, MAX_PRESENT).into_iter().map(|(name, value)| format!("\n  {name:<9}  {value}"));
    format!("{} {}{}", Escaped(key), state(seen), lines.collect::<String>())
}

/// In words.
pub(crate) fn state(seen: &Inspection) -> &'static str {
    match (&seen.holder, seen.wrong_type) {
        (_, true) => "is not a lock: the key holds another type",
        (Some(_), false) => "is held",
        (None, false) => "is free",
    }
}

/// What there is to say, by name; at most so many keepers that wait.
pub(crate) fn facts(seen: &Inspection, most: usize) -> Vec<(&'static str, String)> {
    let mut facts = vec![];
    if let Some(holder) = &seen.holder {
        facts.extend([("holder", holder.to_string()), ("holder id", holder.id())]);
        facts.extend(since(holder).map(|since| ("since", since)));
        facts.push(("remaining", remaining(seen.remaining)));
    }
    let note = if seen.holder.is_none() { " (the last one given)" } else { "" };
    facts.extend(seen.fence.map(|fence| ("fence", format!("{fence}{note}"))));
    if seen.waiting() > 0 {
        facts.push(("waiting", seen.waiting().to_string()));
        facts.extend(waiters::lines(&seen.waiters, most).into_iter().map(|line| ("", line)));
    }
    facts
}

/// When it was acquired, by the holder's clock, and how long ago that is by ours.
fn since(holder: &Holder) -> Option<String> {
    let since_epoch = Duration::from_millis(holder.acquired_at()?.as_millis());
    let at = UNIX_EPOCH.checked_add(since_epoch)?;
    // Beyond the year 9999 there is no notation; such a stamp is not a time anyway.
    if since_epoch > Duration::from_secs(253_402_300_799) {
        return None;
    }
    let ago = SystemTime::now().duration_since(at).map(common::rounded).unwrap_or_default();
    let ago = if ago.is_empty() { String::new() } else { format!(" ({ago} ago)") };
    Some(format!("{}{ago}", humantime::format_rfc3339_millis(at)))
}
