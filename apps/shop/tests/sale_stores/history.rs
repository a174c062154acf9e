//! Generated histories of two shards, run on two arms that must answer the same.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Debug;
use std::time::Duration;

use lockkeeper_core::{Answer, Error, Key, Keys, Prefix, Timestamp};
use lockkeeper_shop::sale::shard::{
    Done, Find, GiveBack, Lend, Look, Message, Open, Receive, Remember, Sell, Settle, Take, Taken, Waiting,
};
use lockkeeper_shop::sale::{Buyer, PREFIX, SaleStore, Ticket, Transfer};
use proptest::prelude::*;

/// With every shape of braces.
const SHARDS: [&str; 3] = ["{sku:0}", "{s{k}u:1}", "{}:0}"];
const LIMIT: Duration = Duration::from_secs(5);
/// 2026-01-01, where the stepped clocks begin; they go on from history to history.
const BEGIN: u64 = 1_767_225_600_000_000;
const HUNDRED_YEARS: u64 = 100 * 366 * 86_400_000_000;

/// A store under a clock that a test steps.
pub(crate) trait Arm {
    fn store(&self) -> &SaleStore;
    fn advance(&self, by: Duration);
    fn step_back(&self, by: Duration);
    fn forget(&self);
}

/// One step. Names are numbers.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Open { shard: u8, left: u64, epoch: u64, opens_in_ms: u64, open_for_ms: u64, kept: bool },
    Remember { shard: u8, first: u8, many: u8 },
    Sell { shard: u8, buyer: u8, ticket: u8 },
    GiveBack { shard: u8, buyer: u8, ticket: u8, withhold: bool, order: Option<u8> },
    Find { shard: u8, buyer: u8 },
    Lend { shard: u8, transfer: u8 },
    Receive { shard: u8, transfer: u8, units: u64, epoch: u64 },
    Settle { shard: u8, transfer: u8, back: bool },
    Take { shard: u8, most: usize, idle_ms: u64 },
    Done { shard: u8, first: u8, many: u8 },
    Advance { us: u64 },
    SetBack { us: u64 },
    Forget,
}

/// Histories of up to `most` steps; each begins with a shard that is open.
pub(crate) fn histories(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let first = Step::Open { shard: 0, left: 4, epoch: 2, opens_in_ms: 0, open_for_ms: 100_000, kept: true };
    prop::collection::vec(steps(), 1..most)
        .prop_map(move |steps| std::iter::once(first.clone()).chain(steps).collect())
}

fn steps() -> impl Strategy<Value = Step> {
    let shard = || prop_oneof![6 => Just(0u8), 2 => 0..SHARDS.len() as u8];
    let (name, epoch) = (|| 0u8..6, || 1u64..4);
    prop_oneof![
        2 => (shard(), 0u64..6, epoch(), 0u64..50, 0u64..5000, any::<bool>()).prop_map(
            |(shard, left, epoch, opens_in_ms, open_for_ms, kept)| Step::Open { shard, left, epoch, opens_in_ms, open_for_ms, kept }),
        1 => (shard(), name(), 1u8..4).prop_map(|(shard, first, many)| Step::Remember { shard, first, many }),
        9 => (shard(), name(), 0u8..12).prop_map(|(shard, buyer, ticket)| Step::Sell { shard, buyer, ticket }),
        4 => (shard(), name(), 0u8..12, any::<bool>(), prop::option::of(0u8..12))
            .prop_map(|(shard, buyer, ticket, withhold, order)| Step::GiveBack { shard, buyer, ticket, withhold, order }),
        1 => (shard(), name()).prop_map(|(shard, buyer)| Step::Find { shard, buyer }),
        3 => (shard(), name()).prop_map(|(shard, transfer)| Step::Lend { shard, transfer }),
        2 => (shard(), name(), 0u64..3, epoch())
            .prop_map(|(shard, transfer, units, epoch)| Step::Receive { shard, transfer, units, epoch }),
        2 => (shard(), name(), any::<bool>()).prop_map(|(shard, transfer, back)| Step::Settle { shard, transfer, back }),
        4 => (shard(), 1usize..4, prop_oneof![Just(0u64), 1u64..200]).prop_map(|(shard, most, idle_ms)| Step::Take { shard, most, idle_ms }),
        3 => (shard(), 0u8..12, 1u8..5).prop_map(|(shard, first, many)| Step::Done { shard, first, many }),
        4 => prop_oneof![0u64..2000, 0u64..300_000].prop_map(|us| Step::Advance { us }),
        1 => (1u64..200_000).prop_map(|us| Step::SetBack { us }),
        1 => Just(Step::Forget),
    ]
}

/// Runs a history on both arms, comparing every answer and, after every step, every shard.
pub(crate) async fn compare(left: &impl Arm, right: &impl Arm, history: &[Step]) -> Result<(), String> {
    let (one, other) = (Run::new(left), Run::new(right));
    for (at, step) in history.iter().enumerate() {
        let answers = (one.run(step).await, other.run(step).await);
        if answers.0 != answers.1 {
            return Err(format!("step {at}, {step:?}:\n model: {}\n server: {}", answers.0, answers.1));
        }
        let looks = (one.look().await, other.look().await);
        if looks.0 != looks.1 {
            return Err(format!("after step {at}, {step:?}:\n model: {}\n server: {}", looks.0, looks.1));
        }
    }
    Ok(())
}

/// A history on one arm. Stores name messages as they like: here, by their tickets.
struct Run<'a, A> {
    arm: &'a A,
    ids: RefCell<HashMap<(u8, Ticket), String>>,
}

impl<'a, A: Arm> Run<'a, A> {
    fn new(arm: &'a A) -> Self {
        Self { arm, ids: RefCell::default() }
    }

    async fn look(&self) -> String {
        let mut seen = String::new();
        for shard in 0..SHARDS.len() as u8 {
            let look = self.arm.store().apply(&at(shard), Look, LIMIT).await;
            if matches!(&look, Ok(answer) if answer.reply.is_none()) {
                self.ids.borrow_mut().retain(|(of, _), _| *of != shard);
            }
            seen += &shown(look);
            seen += &shown(self.arm.store().apply(&at(shard), Waiting, LIMIT).await);
        }
        seen
    }

    async fn run(&self, step: &Step) -> String {
        let (store, not_after) = (self.arm.store(), Timestamp::MAX);
        match step.clone() {
            Step::Open { shard, left, epoch, opens_in_ms, open_for_ms, kept } => {
                let opens = store.now().after(Duration::from_millis(opens_in_ms));
                let closes = opens.after(Duration::from_millis(open_for_ms));
                // Some go while the history runs; a server removes a key when it pleases, once it has expired.
                let until = if kept { Timestamp::from_micros(BEGIN + HUNDRED_YEARS) } else { closes };
                let until = Timestamp::from_micros(until.as_micros().next_multiple_of(1000));
                let open = Open { opens, closes, until, epoch, left, sold: 0, not_after };
                shown(store.apply(&at(shard), open, LIMIT).await)
            }
            Step::Remember { shard, first, many } => {
                let marks = (first..first + many).map(|n| (buyer(n), ticket(n))).collect();
                let until = Timestamp::from_micros(BEGIN + HUNDRED_YEARS);
                shown(store.apply(&at(shard), Remember { until, marks, not_after }, LIMIT).await)
            }
            Step::Sell { shard, buyer: who, ticket: which } => {
                let sell = Sell { buyer: buyer(who), ticket: ticket(which), not_after };
                shown(store.apply(&at(shard), sell, LIMIT).await)
            }
            Step::GiveBack { shard, buyer: who, ticket: which, withhold, order } => {
                let order = order.map(ticket);
                let give_back = GiveBack { buyer: buyer(who), ticket: ticket(which), withhold, order };
                shown(store.apply(&at(shard), give_back, LIMIT).await)
            }
            Step::Find { shard, buyer: who } => {
                shown(store.apply(&at(shard), Find { buyer: buyer(who) }, LIMIT).await)
            }
            Step::Lend { shard, transfer: which } => {
                let lend = Lend { transfer: transfer(which), to: 1, not_after };
                shown(store.apply(&at(shard), lend, LIMIT).await)
            }
            Step::Receive { shard, transfer: which, units, epoch } => shown(
                store.apply(&at(shard), Receive { transfer: transfer(which), units, epoch }, LIMIT).await,
            ),
            Step::Settle { shard, transfer: which, back } => {
                shown(store.apply(&at(shard), Settle { transfer: transfer(which), back }, LIMIT).await)
            }
            Step::Take { shard, most, idle_ms } => {
                let idle = Duration::from_millis(idle_ms);
                let take = Take { worker: "w".to_owned(), most, idle };
                let taken = store.apply(&at(shard), take, LIMIT).await;
                shown(taken.map(|answer| answer.map(|taken| self.named(shard, taken))))
            }
            Step::Done { shard, first, many } => {
                let ids =
                    (first..first + many).filter_map(|n| self.ids.borrow().get(&(shard, ticket(n))).cloned());
                let ids: Vec<String> = ids.collect();
                if ids.is_empty() {
                    return String::new();
                }
                shown(store.apply(&at(shard), Done { ids }, LIMIT).await)
            }
            Step::Advance { us } => {
                self.arm.advance(Duration::from_micros(us));
                String::new()
            }
            Step::SetBack { us } => {
                // What has expired is looked at first, so that both have removed it.
                self.look().await;
                self.arm.step_back(Duration::from_micros(us));
                String::new()
            }
            Step::Forget => {
                self.arm.forget();
                String::new()
            }
        }
    }

    fn named(&self, shard: u8, taken: Taken) -> Taken {
        let named = |message: Message| {
            let ticket = message.ticket.clone();
            let id = ticket.to_string();
            self.ids.borrow_mut().insert((shard, ticket), message.id);
            Message { id, ..message }
        };
        Taken { messages: taken.messages.into_iter().map(named).collect(), ..taken }
    }
}

fn shown<T: Debug>(answer: Result<Answer<T>, Error>) -> String {
    match answer {
        Ok(answer) => format!("{:?} at {}\n", answer.reply, answer.at.as_micros()),
        Err(error) => format!("{error}\n"),
    }
}

fn at(shard: u8) -> Keys {
    Key::new(&Prefix::new(PREFIX).unwrap(), SHARDS[usize::from(shard)]).unwrap().into()
}

fn buyer(n: u8) -> Buyer {
    format!("buyer-{n}").parse().unwrap()
}

fn ticket(n: u8) -> Ticket {
    format!("ticket-{n}").parse().unwrap()
}

fn transfer(n: u8) -> Transfer {
    format!("transfer-{n}").parse().unwrap()
}
