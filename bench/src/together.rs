//! Many tasks at once.

use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinSet;

use crate::arm::Arm;
use crate::runtime::cycles;

/// All arms at once, each as a task of its own; the number of their cycles.
pub(crate) async fn together<A: Arm>(turn: Duration, arms: Vec<A>) -> Result<u64> {
    let mut tasks: JoinSet<Result<u64>> = arms.into_iter().map(|arm| cycles(turn, arm)).collect();
    let mut done = 0;
    while let Some(result) = tasks.join_next().await {
        done += result??;
    }
    Ok(done)
}
