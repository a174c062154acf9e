//! `lockkeeper once ls`: what is remembered, and what nobody knows.

use std::collections::BTreeMap;
use std::process::ExitCode;

use lockkeeper::core::key::Escaped;
use lockkeeper::{Keeper, OncePhase, OnceView};
use serde::Serialize;

use super::Place;
use super::row::{Facts, word};
use crate::common::{self, Common};
use crate::table::table;

/// List operations: those with an unknown outcome first, then by key.
///
/// Walks the key space with SCAN, which does not block the server but looks at every key of the database. With more
/// records than the limit, the first ones found are shown, and that is said.
#[derive(Debug, clap::Args)]
pub(super) struct LsArgs {
    /// Only operations of this name.
    name: Option<String>,

    #[command(flatten)]
    place: Place,

    /// Only those with an unknown outcome, which somebody has to resolve.
    #[arg(long)]
    unknown: bool,

    /// Show so many at most.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// A record as JSON shows it.
#[derive(Serialize)]
struct Row {
    name: String,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    #[serde(flatten)]
    facts: Facts,
}

/// What was found: unknown ones first, then in the order of keys.
struct Found {
    views: BTreeMap<(bool, Vec<u8>), OnceView>,
    more: bool,
}

pub(super) async fn run(args: LsArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let keeper = args.place.connect(common).await?;
    common::refuse_sentinel(&keeper).await?;
    common.tell_of_part(&keeper).await?;
    let found = find(&keeper, &args).await;
    common::close(&keeper).await;
    let found = found?;
    if common.json {
        print_json(&found)?;
    } else {
        print_table(&found)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Walks the pages; SCAN may show a key twice, in another phase too. Goes on until one more than the limit is found, to
/// know whether there are more.
async fn find(keeper: &Keeper, args: &LsArgs) -> Result<Found, lockkeeper::Error> {
    let mut found = Found { views: BTreeMap::new(), more: false };
    let mut cursor = None;
    loop {
        let page = keeper.list_once(args.name.as_deref(), cursor).await?;
        for view in page.records {
            let (is_unknown, key) =
                (view.seen.phase == OncePhase::Unknown, view.full_key.as_bytes().to_vec());
            if args.unknown && !is_unknown {
                continue;
            }
            found.views.remove(&(is_unknown, key.clone()));
            let place = (!is_unknown, key);
            if found.views.len() >= args.limit as usize && !found.views.contains_key(&place) {
                found.more = true;
                return Ok(found);
            }
            found.views.insert(place, view);
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(found),
        }
    }
}

fn print_json(found: &Found) -> anyhow::Result<()> {
    let rows: Result<Vec<_>, _> =
        found.views.values().map(|view| serde_json::to_string(&row(view))).collect();
    let rows = rows?;
    // An array, with a line for each record.
    common::print(&if rows.is_empty() { "[]".to_owned() } else { format!("[\n{}\n]", rows.join(",\n")) })?;
    if found.more {
        crate::exit::say(&count(found));
    }
    Ok(())
}

fn print_table(found: &Found) -> anyhow::Result<()> {
    if !found.views.is_empty() {
        let heading = ["NAME", "KEY", "PHASE", "ATTEMPT", "FENCE", "REMAINING", "HOLDER"];
        common::print(&table(heading, found.views.values().map(cells)))?;
    }
    common::print(&count(found))
}

fn cells(view: &OnceView) -> [String; 7] {
    let seen = &view.seen;
    [
        view.name.clone(),
        Escaped(&view.key).to_string(),
        word(seen.phase).to_owned(),
        seen.attempt.to_string(),
        seen.fence.to_string(),
        common::rounded(seen.remaining),
        seen.holder.to_string(),
    ]
}

fn count(found: &Found) -> String {
    match (found.views.len(), found.more) {
        (1, false) => "1 record".to_owned(),
        (some, false) => format!("{some} records"),
        (some, true) => format!("the first {some} found; more exist (see --limit and --unknown)"),
    }
}

fn row(view: &OnceView) -> Row {
    Row {
        name: view.name.clone(),
        key: common::text_of(&view.key),
        key_hex: common::hex_of(&view.key),
        facts: Facts::of(&view.seen),
    }
}
