//! What the decisions of a sale promise, one rule each.

use std::time::Duration;

use lockkeeper_core::{Decision, State, Timestamp, decide_within};

use super::*;
use crate::sale::names::{Buyer, Ticket, Transfer};

const OPENS: u64 = 1_000_000;
const CLOSES: u64 = 2_000_000;
const UNTIL: u64 = 9_000_000;

fn us(at: u64) -> Timestamp {
    Timestamp::from_micros(at)
}

#[expect(clippy::needless_pass_by_value, reason = "decisions are made where they are used")]
fn at<D: Decision<State = Shard>>(shard: &mut Shard, now: u64, decision: D) -> D::Reply {
    decide_within(&decision, std::slice::from_mut(shard), us(now)).unwrap().unwrap()
}

/// In the middle of the sale.
fn now<D: Decision<State = Shard>>(shard: &mut Shard, decision: D) -> D::Reply {
    at(shard, 1_500_000, decision)
}

fn open(left: u64, epoch: u64) -> Open {
    let (opens, closes, until) = (us(OPENS), us(CLOSES), us(UNTIL));
    Open { opens, closes, until, epoch, left, sold: 0, not_after: Timestamp::MAX }
}

fn shard(left: u64) -> Shard {
    let mut shard = Shard::default();
    assert_eq!(at(&mut shard, 0, open(left, 1)), Opened::Created);
    shard
}

fn buyer(name: &str) -> Buyer {
    name.parse().unwrap()
}

fn ticket(name: &str) -> Ticket {
    name.parse().unwrap()
}

fn sell(who: &str, name: &str) -> Sell {
    Sell { buyer: buyer(who), ticket: ticket(name), not_after: Timestamp::MAX }
}

fn give_back(who: &str, name: &str) -> GiveBack {
    GiveBack { buyer: buyer(who), ticket: ticket(name), withhold: false, order: None }
}

fn lend(name: &str) -> Lend {
    Lend { transfer: name.parse().unwrap(), to: 1, not_after: Timestamp::MAX }
}

fn receive(name: &str, units: u64, epoch: u64) -> Receive {
    Receive { transfer: name.parse().unwrap(), units, epoch }
}

fn settle(name: &str, back: bool) -> Settle {
    Settle { transfer: name.parse().unwrap(), back }
}

fn take(most: usize) -> Take {
    Take { worker: "w".to_owned(), most, idle: Duration::from_millis(100) }
}

fn seen(shard: &mut Shard) -> (u64, u64, u64) {
    let looked = now(shard, Look).unwrap();
    (looked.left, looked.sold, looked.queued)
}

#[test]
fn a_sale_takes_one_unit_marks_the_buyer_and_queues_the_ticket() {
    let mut shard = shard(2);
    assert_eq!(now(&mut shard, sell("a", "1")), Sold::Sold);
    assert_eq!(seen(&mut shard), (1, 1, 1));
    assert_eq!(now(&mut shard, Find { buyer: buyer("a") }), Found::Mark(Mark::Served(ticket("1"))));
    let taken = now(&mut shard, take(9));
    assert_eq!((&taken.messages[0].ticket, &taken.messages[0].buyer), (&ticket("1"), &buyer("a")));
    assert_eq!(taken.messages[0].sold_at, us(1_500_000));
}

#[test]
fn the_same_click_again_answers_the_same_and_another_click_shows_the_ticket() {
    let mut shard = shard(2);
    now(&mut shard, sell("a", "1"));
    assert_eq!(now(&mut shard, sell("a", "1")), Sold::Sold);
    assert_eq!(now(&mut shard, sell("a", "2")), Sold::Served(ticket("1")));
    assert_eq!(seen(&mut shard), (1, 1, 1));
}

#[test]
fn stock_never_goes_below_zero_and_who_has_one_is_told_so_also_when_it_is_empty() {
    let mut shard = shard(1);
    assert_eq!(now(&mut shard, sell("a", "1")), Sold::Sold);
    assert_eq!(now(&mut shard, sell("b", "2")), Sold::Empty);
    assert_eq!(now(&mut shard, sell("a", "3")), Sold::Served(ticket("1")));
    assert_eq!(seen(&mut shard), (0, 1, 1));
}

#[test]
fn the_window_is_half_open_and_says_how_long_until_it_opens() {
    let mut shard = shard(9);
    assert_eq!(at(&mut shard, OPENS - 1, sell("a", "1")), Sold::NotOpen(Duration::from_micros(1)));
    assert_eq!(at(&mut shard, OPENS, sell("a", "1")), Sold::Sold);
    assert_eq!(at(&mut shard, CLOSES - 1, sell("b", "2")), Sold::Sold);
    assert_eq!(at(&mut shard, CLOSES, sell("c", "3")), Sold::Closed);
    assert_eq!(at(&mut shard, CLOSES, sell("a", "4")), Sold::Served(ticket("1")));
}

#[test]
fn where_there_is_no_shard_nothing_is_sold_and_nothing_is_sold_out() {
    let mut none = Shard::default();
    assert_eq!(now(&mut none, sell("a", "1")), Sold::Unknown);
    assert_eq!(now(&mut none, give_back("a", "1")), GaveBack::Unknown);
    assert_eq!(now(&mut none, Look), None);
    assert_eq!(now(&mut none, Find { buyer: buyer("a") }), Found::Unknown);
    assert_eq!(now(&mut none, lend("t")), Lending::Unknown);
    assert_eq!(now(&mut none, receive("t", 1, 1)), Received::Unknown);
    assert_eq!(now(&mut none, settle("t", true)), Settled::Unknown);
    assert_eq!(now(&mut none, take(1)), Taken::default());
    assert_eq!(now(&mut none, Waiting), 0);
    assert!(none.is_empty());
}

#[test]
fn all_of_it_goes_after_its_last_millisecond() {
    let mut shard = shard(9);
    assert_eq!(at(&mut shard, UNTIL + 999, sell("a", "1")), Sold::Closed);
    assert_eq!(at(&mut shard, UNTIL + 1000, sell("a", "1")), Sold::Unknown);
    assert!(shard.is_empty());
}

#[test]
fn what_comes_too_late_sells_nothing() {
    let mut shard = shard(9);
    let late = Sell { not_after: us(1_499_999), ..sell("a", "1") };
    assert!(decide_within(&late, std::slice::from_mut(&mut shard), us(1_500_000)).unwrap().is_err());
    assert_eq!(seen(&mut shard), (9, 0, 0));
}

#[test]
fn c58_a_refused_ticket_gives_its_unit_back_once_however_often_that_is_delivered() {
    let mut shard = shard(1);
    now(&mut shard, sell("a", "1"));
    assert_eq!(now(&mut shard, give_back("a", "1")), GaveBack::Returned);
    assert_eq!(now(&mut shard, give_back("a", "1")), GaveBack::Nothing);
    assert_eq!(now(&mut shard, Find { buyer: buyer("a") }), Found::Mark(Mark::Refused(ticket("1"))));
    assert_eq!(seen(&mut shard).0, 1);
    // The refused ticket is not sold again; another is, and then the old message still returns nothing.
    assert_eq!(now(&mut shard, sell("a", "1")), Sold::Refused);
    assert_eq!(now(&mut shard, sell("a", "2")), Sold::Sold);
    assert_eq!(now(&mut shard, give_back("a", "1")), GaveBack::Nothing);
    assert_eq!(now(&mut shard, give_back("b", "2")), GaveBack::Nothing);
    assert_eq!((seen(&mut shard).0, seen(&mut shard).1), (0, 1));
}

#[test]
fn a_withheld_unit_stays_out_of_the_sale_and_counts_as_sold() {
    let mut shard = shard(1);
    now(&mut shard, sell("a", "1"));
    let withhold = GiveBack { withhold: true, ..give_back("a", "1") };
    assert_eq!(now(&mut shard, withhold.clone()), GaveBack::Returned);
    assert_eq!(now(&mut shard, withhold), GaveBack::Nothing);
    let looked = now(&mut shard, Look).unwrap();
    assert_eq!((looked.left, looked.sold, looked.withheld), (0, 1, 1));
}

#[test]
fn a_loan_takes_half_rounded_up_and_notes_it_and_no_repetition_takes_more() {
    let mut shard = shard(5);
    let lent = Lent { to: 1, units: 3, epoch: 1 };
    assert_eq!(now(&mut shard, lend("t")), Lending::Lent(lent));
    assert_eq!(now(&mut shard, lend("t")), Lending::Lent(lent));
    assert_eq!(now(&mut shard, Look).unwrap().lent, [("t".parse::<Transfer>().unwrap(), lent)]);
    assert_eq!(now(&mut shard, settle("t", false)), Settled::Settled);
    assert_eq!(now(&mut shard, settle("t", false)), Settled::Nothing);
    // A copy that comes after all.
    assert_eq!(now(&mut shard, lend("t")), Lending::Settled);
    assert_eq!(now(&mut shard, Look).unwrap().left, 2);
    for (name, left) in [("u", 1), ("v", 0)] {
        assert!(matches!(now(&mut shard, lend(name)), Lending::Lent(_)));
        assert_eq!(now(&mut shard, Look).unwrap().left, left);
    }
    assert_eq!(now(&mut shard, lend("w")), Lending::Nothing);
}

#[test]
fn a_transfer_is_received_once_and_never_after_a_rebuilding() {
    let mut shard = shard(0);
    assert_eq!(now(&mut shard, receive("t", 3, 1)), Received::Received);
    assert_eq!(now(&mut shard, receive("t", 3, 1)), Received::Received);
    assert_eq!(now(&mut shard, Look).unwrap().left, 3);
    assert_eq!(now(&mut shard, receive("u", 1, 2)), Received::Early);
    assert_eq!(now(&mut shard, open(99, 2)), Opened::Kept);
    assert_eq!(now(&mut shard, receive("u", 1, 1)), Received::Stale);
    // What had been received stays so.
    assert_eq!(now(&mut shard, receive("t", 3, 1)), Received::Received);
    assert_eq!(now(&mut shard, receive("u", 1, 2)), Received::Received);
    assert_eq!(now(&mut shard, Look).unwrap().left, 4);
}

#[test]
fn units_that_are_never_received_come_back_once() {
    let mut shard = shard(4);
    now(&mut shard, lend("t"));
    assert_eq!(now(&mut shard, settle("t", true)), Settled::Settled);
    assert_eq!(now(&mut shard, settle("t", true)), Settled::Nothing);
    let looked = now(&mut shard, Look).unwrap();
    assert_eq!((looked.left, looked.lent.len()), (4, 0));
}

#[test]
fn every_coming_and_going_but_a_sale_changes_the_moves() {
    let mut shard = shard(4);
    let mut last = now(&mut shard, Look).unwrap().moves;
    let mut has_moved = |shard: &mut Shard| {
        let moves = now(shard, Look).unwrap().moves;
        std::mem::replace(&mut last, moves) != moves
    };
    now(&mut shard, sell("a", "1"));
    assert!(!has_moved(&mut shard));
    now(&mut shard, give_back("a", "1"));
    assert!(has_moved(&mut shard));
    now(&mut shard, lend("t"));
    assert!(has_moved(&mut shard));
    now(&mut shard, settle("t", false));
    assert!(has_moved(&mut shard));
    now(&mut shard, receive("u", 1, 1));
    assert!(has_moved(&mut shard));
}

#[test]
fn opening_again_keeps_the_numbers_and_an_epoch_never_falls() {
    let mut shard = shard(4);
    now(&mut shard, sell("a", "1"));
    for epoch in [7, 3] {
        assert_eq!(now(&mut shard, open(99, epoch)), Opened::Kept);
        let looked = now(&mut shard, Look).unwrap();
        assert_eq!((looked.left, looked.sold, looked.epoch), (3, 1, 7));
    }
    let mut over = Shard::default();
    assert_eq!(at(&mut over, UNTIL, open(1, 1)), Opened::Over);
    assert!(over.is_empty());
}

#[test]
fn who_is_remembered_buys_nothing_more_and_a_mark_that_is_there_stays() {
    let mut shard = Shard::default();
    let marks = |ticket_of_a: &str| Remember {
        until: us(UNTIL),
        marks: vec![(buyer("a"), ticket(ticket_of_a)), (buyer("b"), ticket("2"))],
        not_after: Timestamp::MAX,
    };
    assert_eq!(now(&mut shard, marks("1")), 2);
    assert_eq!(now(&mut shard, marks("9")), 0);
    assert_eq!(now(&mut shard, open(1, 1)), Opened::Created);
    assert_eq!(now(&mut shard, sell("a", "3")), Sold::Served(ticket("1")));
    assert_eq!(now(&mut shard, sell("c", "4")), Sold::Sold);
}

#[test]
fn messages_are_handed_out_once_until_they_are_old_and_stay_until_they_are_done() {
    let mut shard = shard(9);
    ["a", "b", "c"].iter().for_each(|who| assert_eq!(now(&mut shard, sell(who, who)), Sold::Sold));
    let first = at(&mut shard, 1_500_000, take(2));
    assert_eq!((first.messages.len(), first.taken_over), (2, 0));
    let second = at(&mut shard, 1_599_999, take(9));
    assert_eq!((second.messages.len(), second.taken_over), (1, 0));
    // A hundred milliseconds after the first; the second is younger.
    let third = at(&mut shard, 1_600_000, take(9));
    assert_eq!((third.messages, third.taken_over), (first.messages.clone(), 2));
    let ids = first.messages.iter().map(|message| message.id.clone()).collect();
    let done = Done { ids };
    assert_eq!((now(&mut shard, done.clone()), now(&mut shard, done)), (2, 0));
    assert_eq!(seen(&mut shard), (6, 3, 1));
}

/// The numbers are gone, the marks are not: what is no order is left when they are rebuilt, and is not given back again.
#[test]
fn a_refusal_is_remembered_where_the_numbers_are_lost() {
    let mut shard = shard(2);
    assert_eq!(now(&mut shard, sell("a", "1")), Sold::Sold);
    shard.book = None;
    assert_eq!(now(&mut shard, give_back("a", "1")), GaveBack::Unknown);
    assert_eq!(shard.buyers[&buyer("a")], Mark::Refused(ticket("1")));
    assert_eq!(now(&mut shard, open(2, 2)), Opened::Created);
    assert_eq!(now(&mut shard, give_back("a", "1")), GaveBack::Nothing);
    assert_eq!(shard.book.as_ref().unwrap().left, 2);
}

/// What only raises an epoch makes no shard.
#[test]
fn an_open_that_is_over_raises_an_epoch_and_creates_nothing() {
    let over = |epoch| Open { until: us(0), ..open(0, epoch) };
    let mut none = Shard::default();
    assert_eq!((now(&mut none, over(2)), none.book.is_none()), (Opened::Over, true));
    let mut shard = shard(3);
    assert_eq!(now(&mut shard, over(2)), Opened::Kept);
    assert_eq!(shard.book.as_ref().map(|book| (book.epoch, book.left)), Some((2, 3)));
}

/// They are a key of their own, with an expiry of its own.
#[test]
fn what_is_remembered_may_outlive_the_numbers_and_does_not_keep_them() {
    let mut shard = shard(3);
    let marks = vec![(buyer("a"), ticket("1"))];
    let longer = Remember { until: us(3 * UNTIL), marks, not_after: Timestamp::MAX };
    assert_eq!(now(&mut shard, longer), 1);
    assert_eq!(at(&mut shard, 2 * UNTIL, sell("a", "1")), Sold::Unknown);
    shard.expire(us(2 * UNTIL));
    assert!(shard.book.is_none() && shard.buyers.len() == 1);
    shard.expire(us(4 * UNTIL));
    assert!(shard.is_empty());
}
