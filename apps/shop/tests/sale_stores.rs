//! Every store answers what the model answers, and the scripts' headers say what scripts and ports do.

#![allow(clippy::unwrap_used, reason = "tests panic")]

#[path = "sale_stores/history.rs"]
mod history;

use std::sync::Arc;
use std::time::Duration;

use history::{Arm, Step};
use lockkeeper_core::{Clock, Decision, ManualClock, Timestamp};
use lockkeeper_faults::ServerKind;
use lockkeeper_redis::port::{Cmd, Part, Port};
use lockkeeper_shop::sale::shard::{
    Done, Find, GiveBack, Lend, Look, Open, Receive, Remember, Sell, Settle, Take, Waiting,
};
use lockkeeper_shop::sale::{SaleStore, Ticket};
use lockkeeper_testkit::arm::{Arm as _, SteppedRedis};
use lockkeeper_testkit::runs;
use proptest::strategy::{Strategy, ValueTree};

const HISTORIES: u32 = 100;
const LONGEST: usize = 60;

struct Memory {
    clock: Arc<ManualClock>,
    store: SaleStore,
}

impl Arm for Memory {
    fn store(&self) -> &SaleStore {
        &self.store
    }
    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
    fn step_back(&self, by: Duration) {
        self.clock.set_wall(self.clock.wall().before(by));
    }
    fn forget(&self) {
        self.store.forget();
    }
}

struct Server {
    redis: SteppedRedis,
    store: SaleStore,
}

impl Arm for Server {
    fn store(&self) -> &SaleStore {
        &self.store
    }
    fn advance(&self, by: Duration) {
        self.redis.advance(by);
    }
    fn step_back(&self, by: Duration) {
        let now = Timestamp::from_micros(self.redis.server_clock());
        self.redis.set_server_clock(now.before(by).as_micros());
    }
    fn forget(&self) {
        self.redis.server().command(&["FLUSHALL"]).unwrap();
    }
}

/// Set `LOCKKEEPER_SEED` to repeat a failure, `LOCKKEEPER_HISTORIES` for more.
#[tokio::test]
async fn scripts_answer_what_the_model_answers() {
    let (seed, histories) = (runs::seed(), runs::histories(HISTORIES));
    for kind in ServerKind::ALL {
        let Some(redis) = SteppedRedis::start(kind).await else { continue };
        let server = Server { store: SaleStore::redis(redis.redis().clone()), redis };
        let clock = Arc::new(ManualClock::default());
        let memory = Memory { store: SaleStore::memory(clock.clone()), clock };
        let mut runner = runs::runner(seed);
        for _ in 0..histories {
            let steps: Vec<Step> = history::histories(LONGEST).new_tree(&mut runner).unwrap().current();
            memory.forget();
            server.forget();
            if let Err(difference) = history::compare(&memory, &server, &steps).await {
                panic!("LOCKKEEPER_SEED={seed}, {kind}: {difference}\nhistory: {steps:#?}");
            }
            every_key_expires(&server);
        }
    }
}

/// Invariant 7.
fn every_key_expires(server: &Server) {
    let command = |words: &[&str]| server.redis.server().command(words).unwrap();
    for key in command(&["KEYS", "*"]).as_array().unwrap() {
        let key = key.as_str().unwrap();
        assert!(command(&["PTTL", key]).as_int().unwrap() >= 0, "{key} has no expiry");
        assert!(key.starts_with("shop:"), "{key}");
    }
}

fn check<D: Port>(decision: &D, repeated: usize) {
    let (script, mut command) = (D::SCRIPT, Cmd::new());
    assert_eq!(script.name, D::NAME);
    assert!(script.source.starts_with(&format!("-- {}: ", D::NAME)), "{}: purpose", D::NAME);
    let header = |label: &str| {
        let line = script.source.lines().find_map(|line| line.strip_prefix(&format!("-- {label}: ")));
        line.unwrap_or_else(|| panic!("{}: no `{label}`", D::NAME))
    };
    let names = |list: &str| list.split(", ").filter(|name| *name != "none" && *name != "and so on").count();
    decision.arguments(&mut command);
    let (once, then) = header("ARGV").split_once("; then: ").unwrap_or((header("ARGV"), ""));
    let declared = match then {
        "" => names(once),
        then => names(once) + repeated * names(then),
    };
    assert_eq!(command.args_iter().count(), declared, "{}: arguments", D::NAME);
    let keys: Vec<&str> = D::KEYS
        .iter()
        .map(|part| match part {
            Part::Main => "main",
            Part::Side(word) => word.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(header("KEYS"), keys.join(", "), "{}: keys", D::NAME);
    for label in ["Reply", "Invariants"] {
        assert!(!header(label).is_empty(), "{}: {label}", D::NAME);
    }
    for call in script.source.split("call('").skip(1) {
        let call = &call[..call.find(')').unwrap()];
        let keyed =
            ["TIME'", "XGROUP', 'CREATE', KEYS[", "XREADGROUP'"].iter().any(|way| call.starts_with(way));
        assert!(keyed || call.contains("', KEYS["), "{}: `{call}` does not name KEYS[n]", D::NAME);
    }
}

#[test]
fn headers_say_what_the_scripts_and_ports_do() {
    let (late, buyer, ticket) = (Timestamp::MAX, "a".parse().unwrap(), Ticket::random());
    let transfer = "t".parse().unwrap();
    let (opens, closes, until) = (late, late, late);
    check(&Open { opens, closes, until, epoch: 1, left: 1, sold: 0, not_after: late }, 0);
    let marks = vec![("a".parse().unwrap(), ticket.clone()), ("b".parse().unwrap(), ticket.clone())];
    check(&Remember { until, marks, not_after: late }, 2);
    check(&Sell { buyer, ticket: ticket.clone(), not_after: late }, 0);
    check(&GiveBack { buyer: "a".parse().unwrap(), ticket, withhold: false, order: None }, 0);
    check(&Look, 0);
    check(&Waiting, 0);
    check(&Find { buyer: "a".parse().unwrap() }, 0);
    check(&Lend { transfer, to: 1, not_after: late }, 0);
    check(&Receive { transfer: "t".parse().unwrap(), units: 1, epoch: 1 }, 0);
    check(&Settle { transfer: "t".parse().unwrap(), back: false }, 0);
    check(&Take { worker: "w".to_owned(), most: 1, idle: Duration::ZERO }, 0);
    check(&Done { ids: vec!["1-0".to_owned()] }, 0);
}

/// What takes something says until when it may; looking does not.
#[test]
fn whatever_sells_lends_or_opens_carries_its_not_after() {
    let late = Timestamp::MAX;
    assert!(Lend { transfer: "t".parse().unwrap(), to: 1, not_after: late }.not_after().is_some());
    let sell = Sell { buyer: "a".parse().unwrap(), ticket: Ticket::random(), not_after: late };
    assert!(sell.not_after().is_some());
    assert!(Look.not_after().is_none());
}
