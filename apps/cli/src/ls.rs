//! `lockkeeper ls`: who holds what.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use lockkeeper::{Keeper, Key, LockView};
use serde::Serialize;

use crate::common::{self, Common, bytes_of};
use crate::table::table;
use crate::waiters::{self, WaiterRow};

/// List the locks that are held.
///
/// Walks the key space with SCAN, which does not block the server but looks at every key of the database. Keys are
/// sorted; with more locks than the limit, the first ones found are shown, and that is said.
#[derive(Debug, clap::Args)]
pub(crate) struct LsArgs {
    /// What the keys begin with on the server. An empty one lists every string key of the database.
    #[arg(long, value_name = "PREFIX", default_value = "lock:")]
    prefix: OsString,

    /// Show so many locks at most.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// A lock as JSON shows it.
#[derive(Debug, Serialize)]
struct Row {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    holder: String,
    holder_id: String,
    ours: bool,
    acquired_ms: Option<u64>,
    remaining_ms: Option<u64>,
    fence: Option<u64>,
    waiting: u64,
    waiters: Vec<WaiterRow>,
}

/// What was found.
struct Found {
    locks: BTreeMap<Vec<u8>, LockView>,
    /// Whether a majority keeps these, servers do not say that are away.
    undecided: BTreeSet<Key>,
    /// Their slot is on its way to another server.
    unseen: BTreeSet<Key>,
    more: bool,
}

pub(crate) async fn run(args: LsArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let keeper = common.builder()?.prefix(bytes_of(&args.prefix, "the prefix")?)?.connect().await?;
    common::refuse_sentinel(&keeper).await?;
    common.tell_of_part(&keeper).await?;
    let found = find(&keeper, args.limit as usize).await;
    common::close(&keeper).await;
    let found = found?;
    for key in &found.unseen {
        crate::exit::say(&format!("{key} is not shown: its slot is on its way to another server; ask again"));
    }
    if common.json {
        print_json(&found)?;
    } else {
        print_table(&found)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Walks the pages; SCAN may show a key twice. Goes on until one more than `limit` is found, to know whether there
/// are more.
async fn find(keeper: &Keeper, limit: usize) -> Result<Found, lockkeeper::Error> {
    let (undecided, unseen) = (BTreeSet::new(), BTreeSet::new());
    let mut found = Found { locks: BTreeMap::new(), undecided, unseen, more: false };
    let mut cursor = None;
    loop {
        let page = keeper.list(cursor).await?;
        for view in page.locks {
            let key = view.key.as_bytes().to_vec();
            if found.locks.len() >= limit && !found.locks.contains_key(&key) {
                found.more = true;
                return Ok(found);
            }
            found.locks.insert(key, view);
        }
        found.undecided.extend(page.undecided.into_iter().take(limit));
        found.unseen.extend(page.unseen.into_iter().take(limit));
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(found),
        }
    }
}

fn print_json(found: &Found) -> anyhow::Result<()> {
    let rows: Result<Vec<_>, _> =
        found.locks.values().map(|view| serde_json::to_string(&row(view))).collect();
    let rows = rows?;
    // An array, with a line for each lock.
    common::print(&if rows.is_empty() { "[]".to_owned() } else { format!("[\n{}\n]", rows.join(",\n")) })?;
    if found.more {
        crate::exit::say(&count(found));
    }
    undecided(found).iter().for_each(|line| crate::exit::say(line));
    Ok(())
}

fn print_table(found: &Found) -> anyhow::Result<()> {
    if !found.locks.is_empty() {
        let heading = ["KEY", "HOLDER", "REMAINING", "FENCE", "WAITING"];
        common::print(&table(heading, rows(found)))?;
    }
    common::print(&count(found))?;
    undecided(found).iter().try_for_each(|line| common::print(line))
}

fn undecided(found: &Found) -> Vec<String> {
    let line =
        |key: &Key| format!("{key}: held or free, as servers know that do not answer (see lockkeeper show)");
    found.undecided.iter().map(line).collect()
}

fn rows(found: &Found) -> impl Iterator<Item = [String; 5]> {
    found.locks.values().map(|view| {
        let fence = view.fence.map_or_else(|| "-".to_owned(), |fence| fence.to_string());
        let (left, waiting) = (remaining(view.remaining), view.waiting().to_string());
        [view.key.to_string(), view.holder.to_string(), left, fence, waiting]
    })
}

fn count(found: &Found) -> String {
    match (found.locks.len(), found.more) {
        (1, false) => "1 lock".to_owned(),
        (some, false) => format!("{some} locks"),
        (some, true) => format!("the first {some} found; more exist (see --limit)"),
    }
}

/// What is left of a lease.
pub(crate) fn remaining(remaining: Option<Duration>) -> String {
    remaining.map_or_else(|| "no expiry".to_owned(), common::rounded)
}

fn row(view: &LockView) -> Row {
    let key = view.key.as_bytes();
    Row {
        key: common::text_of(key),
        key_hex: common::hex_of(key),
        holder: view.holder.to_string(),
        holder_id: view.holder.id(),
        ours: view.holder.is_ours(),
        acquired_ms: view.holder.acquired_at().map(|at| at.as_millis()),
        remaining_ms: view.remaining.map(millis),
        fence: view.fence.map(|fence| fence.get()),
        waiting: view.waiting(),
        waiters: waiters::rows(&view.waiters),
    }
}

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
