//! `lockkeeper once show`: one operation in detail.

use std::process::ExitCode;

use lockkeeper::core::key::Escaped;
use lockkeeper::{OnceInspection, Stored};
use serde::Serialize;

use super::Which;
use super::row::{Facts, facts, sentence};
use crate::common::{self, Common};

/// Show whether an operation runs, has ended or is unknown, of whom, and for how long that is remembered.
///
/// The exit code is 0 whether there is a record or not, and 65 for a key with something else; JSON says which in `phase`:
/// `running`, `lapsed`, `unknown`, `completed`, `open` or `absent`.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    which: Which,

    /// Print the result too. It may be somebody's private business.
    #[arg(long)]
    result: bool,
}

/// What JSON shows.
#[derive(Serialize)]
struct Report {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    #[serde(flatten)]
    seen: Seen,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_hex: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Seen {
    Record(Facts),
    Nothing { phase: &'static str },
}

pub(super) async fn run(args: ShowArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let (keeper, once) = args.which.open(common).await?;
    let key = args.which.key()?;
    let seen = once.inspect(key).await;
    let stored = if args.result { once.stored(key).await } else { Ok(None) };
    common::close(&keeper).await;
    let (key, seen, stored) = (args.which.full_key()?, seen?, stored?);
    if common.json {
        common::print_json(&report(&key, seen.as_ref(), stored.as_ref()))?;
    } else {
        common::print(&text(&key, seen.as_ref(), stored.as_ref()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn report(key: &[u8], seen: Option<&OnceInspection>, stored: Option<&Stored>) -> Report {
    Report {
        key: common::text_of(key),
        key_hex: common::hex_of(key),
        seen: seen.map_or(Seen::Nothing { phase: "absent" }, |seen| Seen::Record(Facts::of(seen))),
        result: stored.map(|stored| common::text_of(stored.bytes())),
        result_hex: stored.and_then(|stored| common::hex_of(stored.bytes())),
    }
}

fn text(key: &[u8], seen: Option<&OnceInspection>, stored: Option<&Stored>) -> String {
    let key = Escaped(key);
    let Some(seen) = seen else { return format!("{key} is not remembered") };
    let lines = facts(seen).into_iter().map(|(name, value)| format!("\n  {name:<9}  {value}"));
    let result = stored.map(|stored| format!("\n{}", common::text_of(stored.bytes()))).unwrap_or_default();
    format!("{key} {}{}{result}", sentence(seen), lines.collect::<String>())
}
