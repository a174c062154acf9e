//! `lockkeeper once show`: one operation in detail.

use std::borrow::Cow;
use std::io::IsTerminal as _;
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

    /// Print the result too. It may be somebody's private business. On a terminal, control characters are shown as
    /// escapes, so that they move nothing there.
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
        let is_terminal = std::io::stdout().is_terminal();
        common::print(&text(&key, seen.as_ref(), stored.as_ref(), is_terminal))?;
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

fn text(key: &[u8], seen: Option<&OnceInspection>, stored: Option<&Stored>, is_terminal: bool) -> String {
    let key = Escaped(key);
    let Some(seen) = seen else { return format!("{key} is not remembered") };
    let lines = facts(seen).into_iter().map(|(name, value)| format!("\n  {name:<9}  {value}"));
    let result = stored.map(|stored| {
        let text = common::text_of(stored.bytes());
        format!("\n{}", if is_terminal { harmless(&text) } else { Cow::Borrowed(&*text) })
    });
    let result = result.unwrap_or_default();
    format!("{key} {}{}{result}", sentence(seen), lines.collect::<String>())
}

/// What a result may do to a terminal: nothing, but begin a line and move to the next tab.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let shown =
        text.chars().map(|c| if is_harmful(c) { c.escape_default().to_string() } else { c.to_string() });
    Cow::Owned(shown.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_moves_nothing_on_a_terminal() {
        let hostile = "{\"a\":\t1}\n\u{1b}]0;title\u{7}\u{1b}[2J\r\u{9b}é";
        let shown = harmless(hostile);
        assert_eq!(shown, "{\"a\":\t1}\n\\u{1b}]0;title\\u{7}\\u{1b}[2J\\r\\u{9b}é");
        assert!(matches!(harmless("a\tb\né"), Cow::Borrowed(_)));
        let stored = Stored::whole(hostile.as_bytes()).unwrap();
        let seen = OnceInspection {
            phase: lockkeeper::OncePhase::Completed,
            holder: lockkeeper::core::lock::OwnerToken::given("a").unwrap().holder(),
            fence: lockkeeper::Fence::new(1),
            attempt: 1,
            remaining: std::time::Duration::from_secs(1),
            result: None,
        };
        let text = |is_terminal| text(b"k", Some(&seen), Some(&stored), is_terminal);
        assert!(!text(true).contains('\u{1b}') && text(false).contains('\u{1b}'));
    }
}
