//! The outcome for people and for programs.

use super::outcome::{Act, LEFT, NO_ANSWER, Orders, Outcome, WorkersSaw};
use crate::common;
use crate::table::table;

const CONCLUSION: &str = "\
What to conclude: looking and then acting is two steps, and others act between
them. Decide in one step; let limits keep the crowd off it, a lock the chores,
and the idempotency key the second click. Behind them all stands the database:
a unique index, and an update that refuses an older fence.

`lockkeeper demo locks` shows what a lock can and cannot do,
`lockkeeper demo --serve` the shop's page.";

pub(super) fn outcome(outcome: &Outcome, json: bool) -> anyhow::Result<()> {
    if json {
        return common::print_json(outcome);
    }
    common::print(&text(outcome))
}

fn text(outcome: &Outcome) -> String {
    let parts = [
        heading(outcome),
        sales(outcome),
        protections(&outcome.protected),
        orders(&outcome.orders),
        CONCLUSION.to_owned(),
    ];
    parts.join("\n\n")
}

fn heading(outcome: &Outcome) -> String {
    let Outcome { store, database, naive, protected, .. } = outcome;
    let crash = if protected.workers.is_some() { "a worker crashes" } else { "a shop process is killed" };
    format!(
        "A flash sale: {} lanterns, {} buyers who click twice, lose answers and come\n\
         again. First the shop looks and then acts; then it is protected, and midway\n\
         {crash}.\n\
         Store {store}, orders in {database}.",
        naive.stock, naive.buyers
    )
}

fn sales(outcome: &Outcome) -> String {
    let (naive, protected) = (&outcome.naive, &outcome.protected);
    let number = |name: &str, of: &dyn Fn(&Act) -> String| [name.to_owned(), of(naive), of(protected)];
    let mut rows = vec![
        number("stock", &|act| act.stock.to_string()),
        number("sold (orders written)", &|act| act.sold.to_string()),
        number("oversold", &|act| act.oversold.to_string()),
        number("duplicate orders", &|act| act.duplicate_orders.to_string()),
        number("clicks", &|act| act.requests.to_string()),
        number("same ticket again", &|act| act.repeated.to_string()),
    ];
    let mut reasons: Vec<&String> = naive.refused.keys().chain(protected.refused.keys()).collect();
    reasons.sort();
    reasons.dedup();
    rows.extend(reasons.into_iter().map(|reason| {
        number(&format!("refused: {reason}"), &|act| {
            act.refused.get(reason).copied().unwrap_or_default().to_string()
        })
    }));
    for (name, unheard) in [("left before the answer", LEFT), ("no answer: server dead", NO_ANSWER)] {
        rows.push(number(name, &|act| act.unheard.get(unheard).copied().unwrap_or_default().to_string()));
    }
    rows.push(number("answers per second", &|act| format!("{:.0}", act.answers_per_second)));
    for (name, of) in [
        ("half answered within", (|act| act.latency.p50_ms) as fn(&Act) -> f64),
        ("90 % within", |act| act.latency.p90_ms),
        ("99 % within", |act| act.latency.p99_ms),
        ("all within", |act| act.latency.max_ms),
    ] {
        rows.push(number(name, &|act| format!("{:.1} ms", of(act))));
    }
    table(["", "naive", "protected"], rows)
}

/// Where each protection acted.
fn protections(act: &Act) -> String {
    let refused = |reason| act.refused.get(reason).copied().unwrap_or_default();
    format!(
        "Where each protection acted:\n\
         \x20 limits        {} clicks beyond {},\n\
         \x20               {} beyond a buyer's own: told when to come back\n\
         \x20 one step      {} clicks of buyers who had one: the same ticket again;\n\
         \x20               {} found nothing left\n\
         \x20 outbox        {}:\n\
         \x20               {} tickets, {} orders, {} left to sell{}",
        refused("sale-busy"),
        act.limit.as_deref().unwrap_or("no limit"),
        refused("buyer-busy"),
        act.repeated,
        refused("sold-out"),
        crash(act.workers),
        act.tickets,
        act.sold,
        act.remaining,
        unique_index(act.workers),
    )
}

fn crash(workers: Option<WorkersSaw>) -> String {
    match workers {
        None => "a shop process was killed with its worker, the others went on".to_owned(),
        Some(WorkersSaw { taken_over: 0, .. }) => {
            "a worker crashed between two messages, another went on".to_owned()
        }
        Some(WorkersSaw { taken_over, .. }) => {
            format!("a worker crashed with {taken_over} of them in hand, another went on")
        }
    }
}

fn unique_index(workers: Option<WorkersSaw>) -> String {
    let Some(WorkersSaw { written_before, .. }) = workers else { return String::new() };
    format!("\n  unique index  {written_before} of the orders were in the database already")
}

fn orders(orders: &Orders) -> String {
    let Orders { seen, charges } = orders;
    format!(
        "Orders with an idempotency key: {} customers send each order twice at once,\n\
         once more later, and use its key for another one:\n\
         \x20 {} requests: {} customers served, {} charged\n\
         \x20 {} answers replayed, {} told that the first is running, {} keys refused",
        seen.customers, seen.requests, seen.served, charges, seen.replayed, seen.running, seen.different,
    )
}
