//! `lockkeeper limit check` and `peek`.

use std::process::ExitCode;
use std::time::Duration;

use super::answer::{self, Question};
use super::what::{Rules, Whom};
use crate::common::{self, Common};

const EXAMPLES: &str = "\
Exit codes:
   0  allowed
  75  denied: try again later
  77  never: it costs more than the limit can ever hold
  69  the server is unreachable or refuses; that says nothing about the limit
  65  the key holds something else

As a throttle (which ends at anything but 75, where it would turn for ever):
  until lockkeeper limit check -q upload user:42 --limit 10/min; do [ $? -eq 75 ] || exit; sleep 1; done
or, without asking in vain:
  lockkeeper limit check -q --wait 1h upload user:42 --limit 10/min && ./upload";

/// Take from the limits, or be told when to come back.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    rules: Rules,

    #[command(flatten)]
    whom: Whom,

    /// Take so much, or nothing.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    cost: u64,

    /// Take as much as there is, at most so much.
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with_all = ["cost", "wait"])]
    up_to: Option<u64>,

    /// Wait until it is allowed, for so long at most; denied at once where that will not do.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = common::duration)]
    wait: Option<Duration>,

    /// Print nothing: the exit code says it.
    #[arg(short, long)]
    quiet: bool,
}

/// Look at what a check would be answered, without taking.
///
/// Exit codes: 0 would be allowed; 75 would be denied; 77 never; else as those of `check`.
#[derive(Debug, clap::Args)]
pub(super) struct PeekArgs {
    #[command(flatten)]
    rules: Rules,

    #[command(flatten)]
    whom: Whom,

    /// As if so much were to be taken.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    cost: u64,
}

pub(super) async fn check(args: CheckArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let subject = args.whom.subject()?;
    let (keeper, limiter) = args.rules.open(common).await?;
    let verdict = match (args.up_to, args.wait) {
        (Some(most), _) => limiter.check_up_to(&subject, most).await,
        (None, Some(limit)) => limiter.until_ready(&subject, args.cost, limit).await,
        (None, None) => limiter.check_cost(&subject, args.cost).await,
    };
    common::close(&keeper).await;
    let asked = args.up_to.unwrap_or(args.cost);
    let question = Question { limiter: &limiter, subject: &subject, asked, takes: true };
    if args.quiet { Ok(answer::code(&verdict?)) } else { question.print(&verdict?, common.json) }
}

pub(super) async fn peek(args: PeekArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let subject = args.whom.subject()?;
    let (keeper, limiter) = args.rules.open(common).await?;
    let verdict = limiter.peek(&subject, args.cost).await;
    common::close(&keeper).await;
    Question { limiter: &limiter, subject: &subject, asked: args.cost, takes: false }
        .print(&verdict?, common.json)
}
