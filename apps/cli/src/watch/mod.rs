//! `lockkeeper watch`: one lock, looked at again and again.

mod changes;
mod form;
mod pace;
mod screen;
mod show;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

use lockkeeper::core::lock::Inspection;
use lockkeeper::{Error, ErrorKind, Keeper, Refusal};

use crate::common::{self, Common, Namespace, bytes_of};
use crate::exit::{INTERRUPTED, NOT_A_LOCK, code_of};
use crate::show::full_key;
use changes::Changes;
pub(crate) use form::Form;
pub(crate) use pace::Pace;
use show::Show;
pub(crate) use show::{reason, write_line};

/// Watch a lock: who holds it, who waits, and how often it changes hands.
///
/// On a terminal it redraws a few lines in place; otherwise it prints a line for each look, and with --json an object
/// for each. When the server cannot be reached it says so and goes on looking; at what does not pass by itself, such
/// as a wrong password, it ends.
///
/// Changes are counted from one look to the next, so at most one for each: there may have been more. A keeper that
/// passes the lock on among its own callers does so without the server, and nobody else can see that.
///
/// Exit codes after --for or --count are those of the last look: 0; 65 the key is no lock; 69 no answer. 130 after
/// Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// The lock's name; with --exact, its whole key.
    key: OsString,

    #[command(flatten)]
    namespace: Namespace,

    #[command(flatten)]
    pace: Pace,
}

/// What one look saw.
type Look = Result<Inspection, Error>;

pub(crate) async fn run(args: WatchArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let name = bytes_of(&args.key, "the key")?;
    // Lazily: a server that is away is no reason not to wait for it.
    let keeper = common.builder()?.prefix(args.namespace.prefix()?)?.lazy().connect().await?;
    let mut show = Show::new(full_key(&keeper, name), args.pace.every, common.json);
    let end = tokio::select! {
        biased;
        pressed = tokio::signal::ctrl_c() => pressed.map(|()| None).map_err(Into::into),
        end = watch(&keeper, name, &args, &mut show) => end.map(Some),
    };
    if let Ok(None) = end {
        show.end();
    }
    common::close(&keeper).await;
    Ok(end?.unwrap_or(ExitCode::from(INTERRUPTED)))
}

/// Until the time is up, or nobody reads any more.
async fn watch(keeper: &Keeper, name: &[u8], args: &WatchArgs, show: &mut Show) -> anyhow::Result<ExitCode> {
    let mut changes = Changes::default();
    let look = async || {
        let look = settled(keeper.inspect(name).await)?;
        if let Ok(seen) = &look {
            changes.saw(seen, Instant::now());
        }
        show.look(&look, &changes)?;
        Ok(code_for(&look))
    };
    args.pace.keep(look).await
}

/// What will not pass by itself ends the watching. That somebody may not look yet can be mended meanwhile, and is gone
/// on with.
pub(crate) fn settled<T>(look: Result<T, Error>) -> anyhow::Result<Result<T, Error>> {
    match look {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::BadArgument | ErrorKind::Refused(Refusal::NotAuthenticated)
            ) =>
        {
            Err(error.into())
        }
        look => Ok(look),
    }
}

fn code_for(look: &Look) -> u8 {
    match look {
        Ok(seen) if seen.wrong_type => NOT_A_LOCK,
        Ok(_) => 0,
        Err(error) => code_of(&error.clone().into()),
    }
}
