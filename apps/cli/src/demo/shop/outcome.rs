//! What came of it, as it was seen.

use std::collections::BTreeMap;
use std::ops::Add;

use lockkeeper_shop::buyers::{Latency, Ordered, Report};
use lockkeeper_shop::sale::Stock;
use serde::Serialize;

/// Answers that are no refusals.
const GRANTED: [&str; 2] = ["accepted", "already-bought"];
/// What became of a click that nobody answered.
const UNHEARD: [&str; 2] = [NO_ANSWER, LEFT];
/// Its server was killed, or did not answer in time.
pub(super) const NO_ANSWER: &str = "no-answer";
/// The buyer closed the connection.
pub(super) const LEFT: &str = "left-before-the-answer";

/// The whole demonstration.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// The store's address, without credentials.
    pub(super) store: String,
    pub(super) database: String,
    pub(super) naive: Act,
    pub(super) protected: Act,
    pub(super) orders: Orders,
}

/// One sale.
#[derive(Debug, Serialize)]
pub(super) struct Act {
    pub(super) stock: u64,
    /// Orders in the database.
    pub(super) sold: u64,
    pub(super) oversold: u64,
    /// Buyers' tickets on the store's books, and what is left.
    pub(super) tickets: u64,
    pub(super) remaining: i64,
    /// Orders of buyers who have one already.
    pub(super) duplicate_orders: u64,
    /// What crashed midway, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) crashed: Option<&'static str>,
    /// On the sale, over all buyers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<String>,
    pub(super) buyers: u32,
    pub(super) requests: u64,
    pub(super) answers_per_second: f64,
    /// Where they are in the demo's process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) workers: Option<WorkersSaw>,
    /// Clicks of those who had one, answered with the ticket that they have.
    pub(super) repeated: u64,
    /// By reason.
    pub(super) refused: BTreeMap<String, u64>,
    /// Clicks whose answer nobody heard, by what happened.
    pub(super) unheard: BTreeMap<String, u64>,
    /// Buyers who were told two tickets, and tickets that were told to two.
    pub(super) contradictions: u64,
    pub(super) latency: Latency,
    pub(super) seconds: f64,
}

/// Orders that are sent more than once.
#[derive(Debug, Serialize)]
pub(super) struct Orders {
    #[serde(flatten)]
    pub(super) seen: Ordered,
    /// What the payment provider took.
    pub(super) charges: u64,
}

/// What the shop knows when a sale is over.
pub(super) struct Books {
    pub(super) stock: Stock,
    pub(super) duplicate_orders: u64,
    pub(super) workers: Option<WorkersSaw>,
    pub(super) crashed: Option<&'static str>,
    pub(super) limit: Option<String>,
}

/// What workers saw.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct WorkersSaw {
    /// Messages that one had taken, and left when it crashed.
    pub(super) taken_over: u64,
    /// Messages whose order the database had already.
    pub(super) written_before: u64,
}

impl Add for WorkersSaw {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (taken_over, written_before) =
            (self.taken_over + other.taken_over, self.written_before + other.written_before);
        Self { taken_over, written_before }
    }
}

impl Act {
    pub(super) fn new(initial: u32, books: &Books, report: &Report) -> Self {
        let Books { stock, duplicate_orders, workers, .. } = *books;
        let (initial, sold) = (u64::from(initial), stock.written);
        let of = |wanted: &dyn Fn(&str) -> bool| {
            let wanted = report.answers.iter().filter(|(name, _)| wanted(name));
            wanted.map(|(name, count)| (name.clone(), *count)).collect::<BTreeMap<_, _>>()
        };
        Self {
            stock: initial,
            sold,
            oversold: sold.saturating_sub(initial),
            tickets: stock.sold,
            remaining: stock.remaining,
            duplicate_orders,
            crashed: books.crashed,
            limit: books.limit.clone(),
            buyers: report.buyers,
            requests: report.requests,
            answers_per_second: report.answers_per_second,
            workers,
            repeated: report.answers.get(GRANTED[1]).copied().unwrap_or_default(),
            refused: of(&|name| !GRANTED.contains(&name) && !UNHEARD.contains(&name)),
            unheard: of(&|name| UNHEARD.contains(&name)),
            contradictions: report.contradictions + (report.tickets - report.distinct_tickets),
            latency: report.latency,
            seconds: report.seconds,
        }
    }
}

impl Outcome {
    /// What the protected shop failed to do.
    pub(super) fn broken(&self) -> Option<String> {
        let Act { stock, sold, duplicate_orders, contradictions, buyers, .. } = self.protected;
        let wanted = stock.min(u64::from(buyers));
        if sold > stock {
            return Some(format!("protected, it sold {sold} of {stock}"));
        }
        if contradictions > 0 {
            return Some(format!("protected, {contradictions} answers contradict others"));
        }
        if duplicate_orders > 0 {
            return Some(format!("protected, {duplicate_orders} orders are duplicates"));
        }
        if sold < wanted {
            return Some(format!("protected, it sold {sold} of {wanted} that it could have sold"));
        }
        let Orders { seen, charges } = &self.orders;
        let customers = u64::from(seen.customers);
        (u64::from(seen.served) != customers || *charges != customers)
            .then(|| format!("of {customers} customers, {} were served and {charges} charged", seen.served))
    }
}
