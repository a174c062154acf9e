//! `lockkeeper release`: give a lock back by its token, or take it from its holder by force.

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use lockkeeper::core::key::Escaped;
use lockkeeper::core::lock::Inspection;
use lockkeeper::{Error, ErrorKind, ForceReleased, Holder, Keeper, OwnerToken, Released};
use serde::Serialize;

use crate::common::{self, Common, Namespace, bytes_of};
use crate::exit::{BUSY, Failure, NOTHING};
use crate::ls::remaining;
use crate::show::full_key;

/// No token is longer than 256 bytes; whoever sends much more sends something else.
const MOST_READ: u64 = 4096;

/// Release a lock with its owner's token, or by force.
///
/// A command under `lockkeeper run` finds its token in LOCKKEEPER_TOKEN. `--force` is for an operator: it removes
/// the holder that was shown and nobody else, and raises the fence. The removed holder is not told until it renews
/// its lease; if it still works, only a resource that checks fences is safe from it.
///
/// Exit codes: 0 released; 1 there was nothing to release, or it was not confirmed; 75 somebody else holds it.
#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    /// The lock's name; with --exact, its whole key.
    key: OsString,

    #[command(flatten)]
    namespace: Namespace,

    #[command(flatten)]
    proof: Proof,

    /// With --force: refuse unless this is the id of the holder (as `lockkeeper show` prints it).
    #[arg(long, value_name = "8HEX", requires = "force")]
    holder_id: Option<String>,

    /// With --force: do not ask. Needed where standard input is not a terminal.
    #[arg(long, requires = "force")]
    yes: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Proof {
    /// The token; `-` reads it from standard input. Other users of this machine can read command lines.
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    token: Option<OsString>,

    /// A file with the token, or `-` for standard input; a line end after it is ignored.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Take the lock from whoever holds it.
    #[arg(long)]
    force: bool,
}

impl std::fmt::Debug for Proof {
    /// Without the token, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proof").field("force", &self.force).finish_non_exhaustive()
    }
}

/// What came of it.
enum Outcome {
    Released,
    Nothing,
    Other(Holder),
    Declined,
}

#[derive(Serialize)]
struct Report {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    outcome: &'static str,
    holder: Option<String>,
    holder_id: Option<String>,
}

pub(crate) async fn run(args: ReleaseArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let name = bytes_of(&args.key, "the key")?;
    let token = args.proof.read()?;
    let keeper = common.connect(&args.namespace).await?;
    let outcome = match token {
        Some(token) => by_token(&keeper, name, &token).await,
        None => by_force(&keeper, name, &args).await,
    };
    common::close(&keeper).await;
    let outcome = outcome?;
    let key = full_key(&keeper, name);
    if common.json {
        common::print_json(&outcome.report(&key))?;
    } else {
        common::print(&outcome.text(&key))?;
    }
    Ok(ExitCode::from(outcome.code()))
}

impl Proof {
    /// The token, unless force is asked for.
    fn read(&self) -> anyhow::Result<Option<OwnerToken>> {
        let given = match (&self.token, &self.token_file) {
            (Some(token), _) if token == "-" => read_input()?,
            (None, Some(path)) if path.as_os_str() == "-" => read_input()?,
            (Some(token), _) => bytes_of(token, "the token")?.to_vec(),
            (None, Some(path)) => {
                let shown = path.display().to_string();
                let file = std::fs::File::open(path);
                read_short(file.map_err(|error| Failure::usage(format!("{shown}: {error}")))?, &shown)?
            }
            (None, None) => return Ok(None),
        };
        let given = given.strip_suffix(b"\n").unwrap_or(&given);
        Ok(Some(OwnerToken::given(given.strip_suffix(b"\r").unwrap_or(given))?))
    }
}

fn read_input() -> anyhow::Result<Vec<u8>> {
    read_short(std::io::stdin().lock(), "standard input")
}

fn read_short(source: impl Read, name: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = source.take(MOST_READ).read_to_end(&mut bytes);
    read.map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    Ok(bytes)
}

async fn by_token(keeper: &Keeper, name: &[u8], token: &OwnerToken) -> anyhow::Result<Outcome> {
    Ok(match keeper.release_token(name, token).await? {
        Released::Released => Outcome::Released,
        Released::Expired => Outcome::Nothing,
        Released::HeldByAnother(holder) => Outcome::Other(holder),
        other => {
            return Err(Failure::new(crate::exit::UNAVAILABLE, format!("the outcome is {other:?}")).into());
        }
    })
}

async fn by_force(keeper: &Keeper, name: &[u8], args: &ReleaseArgs) -> anyhow::Result<Outcome> {
    let seen = keeper.inspect(name).await?;
    let key = full_key(keeper, name);
    if seen.wrong_type {
        let error = Error::new(ErrorKind::WrongType, "force_release", "it is not a lock");
        return Err(error.with_key(Escaped(&key)).into());
    }
    let Some(holder) = &seen.holder else { return Ok(Outcome::Nothing) };
    if args.holder_id.as_ref().is_some_and(|id| !id.eq_ignore_ascii_case(&holder.id())) {
        return Ok(Outcome::Other(holder.clone()));
    }
    if !confirmed(&key, holder, &seen, args.yes)? {
        return Ok(Outcome::Declined);
    }
    Ok(match keeper.force_release(name, holder).await? {
        ForceReleased::Released(_) => Outcome::Released,
        ForceReleased::HeldByAnother(holder) => Outcome::Other(holder),
        _ => Outcome::Nothing,
    })
}

/// Shows the holder, and asks unless `yes`.
fn confirmed(key: &[u8], holder: &Holder, seen: &Inspection, yes: bool) -> anyhow::Result<bool> {
    let left = remaining(seen.remaining);
    let shown = format!("{} is held by {holder} (id {}, {left} left)", Escaped(key), holder.id());
    let mut stderr = std::io::stderr();
    if yes {
        let _ = writeln!(stderr, "{shown}");
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{shown}; to take it without being asked, add --yes")).into());
    }
    write!(stderr, "{shown}\nTake the lock from it? It is not stopped by this. [y/N] ")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

impl Outcome {
    fn code(&self) -> u8 {
        match self {
            Self::Released => 0,
            Self::Nothing | Self::Declined => NOTHING,
            Self::Other(_) => BUSY,
        }
    }

    fn text(&self, key: &[u8]) -> String {
        let key = Escaped(key);
        match self {
            Self::Released => format!("{key} is released"),
            Self::Nothing => format!("{key} is free: there was nothing to release"),
            Self::Other(holder) => format!("{key} is held by another: {holder} (id {})", holder.id()),
            Self::Declined => format!("{key} was left as it is"),
        }
    }

    fn report(&self, key: &[u8]) -> Report {
        let holder = if let Self::Other(holder) = self { Some(holder) } else { None };
        Report {
            key: common::text_of(key),
            key_hex: common::hex_of(key),
            outcome: match self {
                Self::Released => "released",
                Self::Nothing => "free",
                Self::Other(_) => "held_by_another",
                Self::Declined => "declined",
            },
            holder: holder.map(ToString::to_string),
            holder_id: holder.map(Holder::id),
        }
    }
}
