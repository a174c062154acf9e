//! Who is the primary, after what was said.

use super::*;

fn at(port: u16) -> Address {
    Address::Tcp { host: "h".to_owned(), port, tls: false }
}

fn says(port: u16, epoch: u64) -> Say {
    Say::Primary { at: at(port), epoch }
}

fn silent() -> Say {
    Say::Silent(Failure::unreachable("gone"))
}

/// Three Sentinels that agree on server 1 at epoch 1, confirmed.
fn agreed(now: Instant) -> Votes {
    let mut votes = Votes::new(3);
    (0..3).for_each(|from| votes.hear(from, says(1, 1)));
    assert_eq!(votes.decide(now), Some(Primary { at: at(1), term: 1 }));
    votes.confirm(1);
    votes
}

#[test]
fn the_first_answer_waits_for_a_majority_and_not_for_the_dead() {
    let now = Instant::now();
    let mut votes = Votes::new(3);
    votes.hear(0, says(1, 1));
    assert_eq!(votes.decide(now), None, "it may be one that was cut off");
    votes.hear(1, says(2, 2));
    assert_eq!(votes.decide(now), Some(Primary { at: at(2), term: 1 }));

    let mut votes = Votes::new(3);
    votes.hear(0, says(1, 1));
    assert_eq!(votes.decide(now), None);
    assert!(votes.decide(now + FIRST_WAIT).is_some(), "the others are black holes");

    let mut votes = Votes::new(3);
    votes.hear(1, silent());
    votes.hear(2, silent());
    votes.hear(0, says(1, 1));
    assert!(votes.decide(now).is_some(), "nobody else is there");
}

#[test]
fn a_later_epoch_wins_at_once() {
    let now = Instant::now();
    let mut votes = agreed(now);
    votes.hear(2, says(2, 2));
    assert_eq!(votes.decide(now), Some(Primary { at: at(2), term: 2 }));
    assert_eq!(votes.decide(now + AGREED_FOR * 2), None, "the two that lag do not lead back");
}

#[test]
fn there_and_back_between_two_looks_is_another_term() {
    let now = Instant::now();
    let mut votes = agreed(now);
    votes.hear(0, says(1, 3));
    assert_eq!(votes.decide(now), Some(Primary { at: at(1), term: 2 }));
}

#[test]
fn an_earlier_epoch_counts_only_if_all_that_are_heard_agree_for_a_while() {
    let now = Instant::now();
    let mut votes = agreed(now);
    votes.hear(0, says(2, 0));
    votes.hear(1, says(2, 0));
    assert_eq!(votes.decide(now), None);
    assert_eq!(votes.decide(now + AGREED_FOR), None, "one disagrees");
    votes.hear(2, silent());
    let later = now + AGREED_FOR;
    assert_eq!(votes.decide(later), None, "not for long");
    assert_eq!(votes.decide(later + AGREED_FOR), Some(Primary { at: at(2), term: 2 }));

    let mut votes = agreed(now);
    votes.hear(0, says(2, 1));
    votes.hear(1, silent());
    votes.hear(2, silent());
    assert_eq!(votes.decide(now), None);
    assert_eq!(votes.decide(now + AGREED_FOR * 2), None, "one of three is no majority");
}

#[test]
fn a_server_that_was_asked_to_be_the_primary_is_believed_before_the_sentinels_say_so() {
    let now = Instant::now();
    let mut votes = agreed(now);
    assert_eq!(votes.promoted(at(1)), None);
    assert_eq!(votes.promoted(at(2)), Some(Primary { at: at(2), term: 2 }));
    votes.confirm(2);
    assert_eq!(votes.decide(now), None, "what they still say does not lead back");
    votes.hear(0, says(2, 2));
    assert_eq!(votes.decide(now + AGREED_FOR), None, "it is the same term");
    votes.hear(0, says(1, 3));
    assert_eq!(
        votes.decide(now + AGREED_FOR),
        Some(Primary { at: at(1), term: 3 }),
        "that was the one after"
    );
}

#[test]
fn a_failover_that_was_given_up_leads_back_after_a_while() {
    let now = Instant::now();
    let mut votes = agreed(now);
    assert!(votes.promoted(at(2)).is_some());
    votes.confirm(2);
    assert_eq!(votes.decide(now), None);
    assert_eq!(votes.decide(now + AGREED_FOR), Some(Primary { at: at(1), term: 3 }));
}

#[test]
fn an_agreement_that_is_interrupted_begins_anew() {
    let now = Instant::now();
    let mut votes = agreed(now);
    (0..3).for_each(|from| votes.hear(from, says(2, 1)));
    assert_eq!(votes.decide(now), None);
    votes.hear(0, says(1, 1));
    assert_eq!(votes.decide(now + AGREED_FOR / 2), None);
    votes.hear(0, says(2, 1));
    assert_eq!(votes.decide(now + AGREED_FOR), None);
    assert!(votes.decide(now + AGREED_FOR * 2).is_some());
}

#[test]
fn an_invented_epoch_does_not_keep_the_truth_away() {
    let now = Instant::now();
    let mut votes = agreed(now);
    votes.hear(2, says(66, u64::MAX));
    assert_eq!(votes.decide(now), Some(Primary { at: at(66), term: 2 }));
    assert_eq!(votes.decide(now), None);
    assert_eq!(votes.decide(now + AGREED_FOR), Some(Primary { at: at(1), term: 3 }), "nobody is there");
    assert_eq!(votes.decide(now + AGREED_FOR), None, "and not back again");
    votes.hear(0, says(66, 7));
    votes.hear(2, says(66, 7));
    assert_eq!(votes.decide(now + AGREED_FOR), Some(Primary { at: at(66), term: 4 }), "most say so now");
}

#[test]
fn trouble_is_told_when_all_have_been_asked() {
    let mut votes = Votes::new(2);
    votes.hear(0, Say::NoService);
    assert!(votes.trouble("s").is_none());
    votes.hear(1, Say::NoService);
    let trouble = votes.trouble("s").unwrap();
    assert!(trouble.kind == ErrorKind::BadArgument && trouble.detail.contains("`s` (2 of 2)"), "{trouble:?}");
    votes.hear(1, silent());
    assert_eq!(votes.trouble("s").unwrap().kind, ErrorKind::Unreachable, "that one may know it");
}
