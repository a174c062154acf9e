//! `lockkeeper limit refund` and `reset`.

use std::process::ExitCode;

use serde::Serialize;

use super::what::{Rules, Whom};
use crate::common::{self, Common};

/// Give back what was taken for work that did not happen.
///
/// As far as that much was used, and no window moves. Exit codes: 0 given back; 69 the server is unreachable or refuses:
/// where the outcome is unknown it may have been given back, so do not repeat it.
#[derive(Debug, clap::Args)]
pub(super) struct RefundArgs {
    #[command(flatten)]
    rules: Rules,

    #[command(flatten)]
    whom: Whom,

    /// So much.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    cost: u64,
}

/// Forget everything that was taken.
///
/// Exactly this key is reset: `*` is a character like any other. Other processes may go on refusing for a second, which
/// is how long they remember. Exit code 0 whether there was something to forget or not.
#[derive(Debug, clap::Args)]
pub(super) struct ResetArgs {
    #[command(flatten)]
    rules: Rules,

    #[command(flatten)]
    whom: Whom,
}

#[derive(Serialize)]
struct Report<'a> {
    limiter: &'a str,
    subject: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
}

pub(super) async fn refund(args: RefundArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let subject = args.whom.subject()?;
    let (keeper, limiter) = args.rules.open(common).await?;
    let refunded = limiter.refund(&subject, args.cost).await;
    common::close(&keeper).await;
    refunded?;
    let (limiter, cost) = (limiter.name(), args.cost);
    if common.json {
        let subject = subject.to_string();
        common::print_json(&Report { limiter, subject, outcome: "refunded", cost: Some(cost) })?;
    } else {
        common::print(&format!("{limiter} {subject}: {cost} given back, as far as that much was used"))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn reset(args: ResetArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let subject = args.whom.subject()?;
    let (keeper, limiter) = args.rules.open(common).await?;
    let reset = limiter.reset(&subject).await;
    common::close(&keeper).await;
    let (outcome, words) = match reset? {
        true => ("reset", "is reset"),
        false => ("nothing", "had nothing to reset"),
    };
    let limiter = limiter.name();
    if common.json {
        common::print_json(&Report { limiter, subject: subject.to_string(), outcome, cost: None })?;
    } else {
        common::print(&format!("{limiter} {subject} {words}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
