//! The rows of the table, one kind per file.

mod allocating;
mod ceiling;
mod crowd;
mod durable;
mod failover;
mod fair;
mod hand_off;
mod held;
mod latency;
mod limit_allocating;
mod limit_circuit;
mod limit_denied;
mod limit_hot;
mod limit_leased;
mod limit_many_tasks;
mod limit_memory;
mod limit_one_task;
mod limit_server_memory;
mod many_tasks;
mod memory;
mod newcomer;
mod once_one_task;
mod once_replay;
mod one_task;
mod quorum;

use anyhow::Result;

use crate::pair::Plan;
use crate::row::Row;

/// Rows that are measured together.
pub(crate) struct Kind {
    /// What `--only` calls them.
    pub(crate) name: &'static str,
    pub(crate) measure: fn(&Plan) -> Result<Vec<Row>>,
}

/// All of them, in the order of the table.
pub(crate) const ALL: &[Kind] = &[
    Kind { name: "one-task", measure: one_task::measure },
    Kind { name: "many-tasks", measure: many_tasks::measure },
    Kind { name: "durable", measure: durable::measure },
    Kind { name: "held", measure: held::measure },
    Kind { name: "memory", measure: memory::measure },
    Kind { name: "limit-memory", measure: limit_memory::measure },
    Kind { name: "allocations", measure: allocating::measure },
    Kind { name: "latency", measure: latency::measure },
    Kind { name: "hand-off", measure: hand_off::measure },
    Kind { name: "fair", measure: fair::measure },
    Kind { name: "crowd", measure: crowd::measure },
    Kind { name: "newcomer", measure: newcomer::measure },
    Kind { name: "ceiling", measure: ceiling::measure },
    Kind { name: "limit-one-task", measure: limit_one_task::measure },
    Kind { name: "limit-many-tasks", measure: limit_many_tasks::measure },
    Kind { name: "limit-hot", measure: limit_hot::measure },
    Kind { name: "limit-leased", measure: limit_leased::measure },
    Kind { name: "limit-server-memory", measure: limit_server_memory::measure },
    Kind { name: "limit-circuit", measure: limit_circuit::measure },
    Kind { name: "limit-denied", measure: limit_denied::measure },
    Kind { name: "quorum", measure: quorum::measure },
    Kind { name: "once-one-task", measure: once_one_task::measure },
    Kind { name: "once-replay", measure: once_replay::measure },
    Kind { name: "failover", measure: failover::measure },
    Kind { name: "limit-allocations", measure: limit_allocating::measure },
];
