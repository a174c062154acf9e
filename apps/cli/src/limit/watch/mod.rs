//! `lockkeeper limit watch`: who has used how much, looked at again and again.

mod find;
mod show;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;

use lockkeeper::{Error, ErrorKind, Keeper, Limiter, Subject, Verdict};
use tokio::task::JoinSet;

use super::answer::is_used;
use super::what::{Manner, Rules};
use crate::common::{self, Common};
use crate::exit::{INTERRUPTED, code_of};
use crate::watch::{Pace, settled};
use find::Places;
use show::Show;

/// So many looks are under way at once.
const AT_ONCE: usize = 100;

/// Watch who has used how much of the limits.
///
/// Without a KEY, those are found that have used something, by walking the key space with SCAN at each look: that does
/// not block the server, but reads every key of the database, up to 5 s long. On a terminal a table is redrawn, with those
/// first who have least left; otherwise there is a line for each change, and with --json an object for each. Looking takes
/// nothing.
///
/// Exit codes after --for or --count are those of the last look: 0; 69 no answer. 130 after Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    rules: Rules,

    /// Who or what is watched, such as user:42.
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,

    #[command(flatten)]
    manner: Manner,

    #[command(flatten)]
    pace: Pace,
}

/// What one look saw.
pub(super) struct Look {
    /// Those with least left first.
    pub(super) rows: Vec<(Subject, Result<Verdict, Error>)>,
    /// Not everybody was found.
    pub(super) partial: bool,
}

pub(crate) async fn run(args: WatchArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let keys = args.keys.iter().map(|key| args.manner.subject(key));
    let named: Vec<Subject> = keys.collect::<anyhow::Result<_>>()?;
    let (keeper, limiter) = args.rules.open(common).await?;
    let places = Places::of(&limiter)?;
    let mut show = Show::new(limiter.clone(), args.pace.every, common.json);
    let watcher = Watcher { keeper: &keeper, limiter: &limiter, places, named };
    let end = tokio::select! {
        biased;
        pressed = tokio::signal::ctrl_c() => pressed.map(|()| None).map_err(Into::into),
        end = watcher.watch(&args.pace, &mut show) => end.map(Some),
    };
    if let Ok(None) = end {
        show.end();
    }
    common::close(&keeper).await;
    Ok(end?.unwrap_or(ExitCode::from(INTERRUPTED)))
}

struct Watcher<'a> {
    keeper: &'a Keeper,
    limiter: &'a Limiter,
    places: Places,
    named: Vec<Subject>,
}

impl Watcher<'_> {
    async fn watch(&self, pace: &Pace, show: &mut Show) -> anyhow::Result<ExitCode> {
        let mut known = BTreeSet::new();
        let look = async || {
            let look = settled(self.look(&known).await)?;
            if let Ok(look) = &look {
                known =
                    look.rows.iter().filter(|(_, seen)| has_used(seen)).map(|(who, _)| name(who)).collect();
            }
            show.look(&look)?;
            Ok(look.err().map_or(0, |error| code_of(&error.into())))
        };
        pace.keep(look).await
    }

    /// Looks at those who were named, or found; and once more at those who were `known` and are gone, who have everything
    /// again.
    async fn look(&self, known: &BTreeSet<Vec<u8>>) -> Result<Look, Error> {
        let (subjects, partial) = if self.named.is_empty() {
            let (mut found, partial) = self.places.find(self.keeper).await?;
            found.extend(known.iter().cloned());
            (found.into_iter().filter_map(|name| Subject::from_encoded(name).ok()).collect(), partial)
        } else {
            (self.named.clone(), false)
        };
        let mut rows = Vec::with_capacity(subjects.len());
        for some in subjects.chunks(AT_ONCE) {
            let mut looks = JoinSet::new();
            for subject in some.iter().cloned() {
                let limiter = self.limiter.clone();
                looks.spawn(async move { (limiter.peek(&subject, 1).await, subject) });
            }
            for (seen, subject) in looks.join_all().await {
                match seen {
                    Err(error) if error.kind() != ErrorKind::WrongType => return Err(error),
                    seen => rows.push((subject, seen)),
                }
            }
        }
        rows.sort_by_key(|(subject, seen)| (seen.as_ref().map_or(0, Verdict::remaining), name(subject)));
        Ok(Look { rows, partial })
    }
}

fn has_used(seen: &Result<Verdict, Error>) -> bool {
    seen.as_ref().is_ok_and(|verdict| verdict.detail().states().any(|state| is_used(&state)))
}

fn name(subject: &Subject) -> Vec<u8> {
    subject.as_bytes().to_vec()
}
