//! `lockkeeper quorum wait`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockkeeper::redis::{NodeReport, NodeStanding, QuorumStore};

use super::status;
use crate::common::duration;
use crate::exit::{BUSY, UNAVAILABLE, say};

/// How often the servers' standing is read.
const EVERY: Duration = Duration::from_millis(200);
/// How long one sign of life may take.
const BEAT: Duration = Duration::from_secs(1);

/// Stay connected until no server abstains any more, and a majority votes.
///
/// A server that was restarted gets its vote back only from a client that watches it for the whole of max_lease. A
/// service that is always connected does that by itself. Where all clients are short-lived (cron), run this after a
/// restart. Exit code 0: nobody abstains, and a majority votes; servers that are away are named, and not waited for then.
/// 75: not within the limit. 69: so many servers are refused that the others are no majority.
#[derive(Debug, clap::Args)]
pub(crate) struct WaitArgs {
    /// Wait so long at most; without it, for ever.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    limit: Option<Duration>,
}

pub(super) async fn run(args: WaitArgs, store: &QuorumStore, json: bool) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let mut told = Vec::new();
    loop {
        // Whoever asks for a sign of life uses the majority, so its servers are looked after. Who does not vote is seen below.
        let _ = store.heartbeat(BEAT).await;
        let reports = store.known();
        tell(&reports, &mut told);
        let is_late = args.limit.is_some_and(|limit| began.elapsed() >= limit);
        let code = match stage(&reports, store) {
            Stage::Votes => 0,
            Stage::Never => UNAVAILABLE,
            Stage::Waits if is_late => BUSY,
            Stage::Waits => {
                let left = args.limit.map_or(EVERY, |limit| limit.saturating_sub(began.elapsed()));
                tokio::time::sleep(left.min(EVERY)).await;
                continue;
            }
        };
        status::print(&reports, json)?;
        status::print_votes(&reports, store.majority(), json)?;
        return Ok(ExitCode::from(code));
    }
}

enum Stage {
    Votes,
    Waits,
    /// Waiting does not help.
    Never,
}

fn stage(reports: &[NodeReport], store: &QuorumStore) -> Stage {
    let (majority, count) = (store.majority(), |is: fn(&NodeStanding) -> bool| {
        reports.iter().filter(|one| is(&one.standing)).count()
    });
    let refused = count(|standing| matches!(standing, NodeStanding::Refused(_)));
    let coming = count(|standing| matches!(standing, NodeStanding::Unknown | NodeStanding::Abstains(_)));
    if !majority.is_reached(reports.len() - refused) {
        Stage::Never
    } else if coming == 0 && majority.is_reached(status::votes(reports)) {
        Stage::Votes
    } else {
        Stage::Waits
    }
}

/// Says on standard error who does not vote, once for each kind of reason.
fn tell(reports: &[NodeReport], told: &mut Vec<std::mem::Discriminant<NodeStanding>>) {
    let kinds: Vec<_> = reports.iter().map(|one| std::mem::discriminant(&one.standing)).collect();
    for (at, one) in reports.iter().enumerate() {
        let is_new = told.get(at) != kinds.get(at);
        if is_new && !matches!(one.standing, NodeStanding::Votes | NodeStanding::Unknown) {
            say(&format!("{} {}", one.address, one.standing));
        }
    }
    *told = kinds;
}
