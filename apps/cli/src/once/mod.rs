//! `lockkeeper once`: what became of operations that run once.

mod ls;
mod resolve;
mod row;
mod show;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Subcommand;
use lockkeeper::{Keeper, Once};

use crate::common::{Common, bytes_of};

/// Look at operations that run once per key, and say what became of one.
///
/// An operation's record belongs to a name (`payment`) and a key (`user:42:order:7`). It is running, or completed with a
/// result, or open: it ended without an effect. Where its process died, it is lapsed (the next caller runs it again), or
/// unknown (nobody does, until somebody found out and said so with `once resolve`).
///
/// Records of HTTP requests have a digest for a key (of caller, method, target and Idempotency-Key): a service that logs
/// `Claim::key` beside the order can be asked for it, and `IdempotencyLayer::record_key` computes it.
#[derive(Debug, clap::Args)]
pub(crate) struct OnceArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Show(show::ShowArgs),
    Resolve(resolve::ResolveArgs),
    Ls(ls::LsArgs),
}

/// Which operation.
#[derive(Debug, clap::Args)]
struct Which {
    /// The operations' name: 1 to 64 of a-z, 0-9 and _.
    name: String,

    /// The operation's key, such as user:42:order:7.
    key: OsString,

    #[command(flatten)]
    place: Place,
}

/// Where the records are.
#[derive(Debug, clap::Args)]
struct Place {
    /// What their keys begin with on the server.
    #[arg(long, value_name = "PREFIX", default_value = "once:")]
    prefix: OsString,
}

pub(crate) async fn run(args: OnceArgs, common: &Common) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Show(args) => show::run(args, common).await,
        Verb::Resolve(args) => resolve::run(args, common).await,
        Verb::Ls(args) => ls::run(args, common).await,
    }
}

impl Which {
    async fn open(&self, common: &Common) -> anyhow::Result<(Keeper, Once)> {
        let keeper = self.place.connect(common).await?;
        let once = keeper.once(&self.name)?;
        Ok((keeper, once))
    }

    fn key(&self) -> anyhow::Result<&[u8]> {
        bytes_of(&self.key, "the key")
    }

    /// The key on the server.
    fn full_key(&self) -> anyhow::Result<Vec<u8>> {
        let prefix = bytes_of(&self.place.prefix, "the prefix")?;
        Ok([prefix, self.name.as_bytes(), b":", self.key()?].concat())
    }
}

impl Place {
    async fn connect(&self, common: &Common) -> anyhow::Result<Keeper> {
        let builder = common.builder()?.once_prefix(bytes_of(&self.prefix, "the prefix")?)?;
        Ok(builder.connect().await?)
    }
}
