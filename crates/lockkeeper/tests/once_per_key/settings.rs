//! What is refused before anything is sent, and which key is which.

use std::time::Duration;

use lockkeeper::core::Clock;
use lockkeeper::{Error, ErrorKind, Keeper, OnCrash, Once, fingerprint};

use crate::common::{claim, request, running, whole};
use crate::support::{ms, secs, stepped};

async fn refused(once: &Once, key: &[u8], says: &str) {
    refused_by(once.begin(key, request()).await.unwrap_err(), says);
}

/// Its settings are refused, by a call that asks nobody as well.
async fn unfit(once: &Once, says: &str) {
    refused_by(once.check().unwrap_err(), says);
    refused(once, b"k", says).await;
}

fn refused_by(error: Error, says: &str) {
    assert_eq!(error.kind(), ErrorKind::BadArgument, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

#[tokio::test]
async fn names_are_short_words() {
    let (keeper, _clock) = stepped().await;
    for bad in ["", "Payment", "pay:ment", "ä", &"x".repeat(65)] {
        let error = keeper.once(bad).unwrap_err();
        assert!(error.to_string().contains("1 to 64"), "{error}");
    }
    assert_eq!(keeper.once("payment").unwrap().name(), "payment");
}

/// C14: nothing is nothing, and never "without a limit".
#[tokio::test]
async fn c14_settings_out_of_their_bounds_are_refused_and_zero_is_not_unlimited() {
    let (keeper, clock) = stepped().await;
    let once = keeper.once("settings").unwrap();
    for lease in [Duration::ZERO, ms(99), Duration::MAX] {
        unfit(&once.clone().lease(lease), "lease").await;
    }
    for retention in [Duration::ZERO, ms(999), secs(366 * 24 * 3600)] {
        unfit(&once.clone().retain(retention), "365 days").await;
    }
    unfit(&once.clone().on_crash(OnCrash::Hold(Duration::ZERO)), "more than zero").await;
    unfit(&once.clone().max_result(16 * 1024 * 1024 + 1), "16777216").await;
    let once = once.on_crash(OnCrash::Hold(secs(7)));
    assert!(once.check().is_ok() && once.crash_policy() == OnCrash::Hold(secs(7)));
    let attempt = claim(&once.clone().max_hold(Duration::ZERO), "k").await;
    let reason = tokio::time::timeout(secs(5), attempt.lost()).await.unwrap();
    assert_eq!(reason, lockkeeper::LossReason::MaxHold);
    let before = clock.uptime();
    running(&once.clone().wait(Duration::ZERO), "k").await;
    assert_eq!(clock.uptime(), before, "it did not wait");
}

#[tokio::test]
async fn hostile_keys_are_refused_or_apart_from_each_other() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("hostile").unwrap();
    refused(&once, b"", "the key is empty").await;
    refused(&once, &[b'x'; 5000], "4096").await;
    let keys: [&[u8]; 12] =
        [b"a", b"~a", b"~fence:a", b"a:b", b"a\\:b", b":", b"{", b"{}", b"{a}b", b"\0", b"a\nb", b"\xff"];
    for (number, key) in keys.iter().enumerate() {
        let lockkeeper::Begun::Claimed(attempt) = once.begin(key, request()).await.unwrap() else {
            panic!("{key:?} is another's");
        };
        attempt.complete(whole(&number.to_string())).await.unwrap();
    }
    for (number, key) in keys.iter().enumerate() {
        let lockkeeper::Begun::Completed(replay) = once.begin(key, request()).await.unwrap() else {
            panic!()
        };
        assert_eq!(replay.stored, whole(&number.to_string()));
    }
}

/// C26 and C22: the same key of another kind, or under another caller's name, is another key.
#[tokio::test]
async fn c22_c26_names_and_callers_have_nothing_to_do_with_each_other() {
    let (keeper, _clock) = stepped().await;
    let (projects, applications) = (keeper.once("projects").unwrap(), keeper.once("applications").unwrap());
    let user = |name: &str| lockkeeper::join_parts([name, "1"]);
    let mut attempts = Vec::new();
    for once in [&projects, &applications] {
        for key in [user("a"), user("b"), user("a:1")] {
            let lockkeeper::Begun::Claimed(attempt) = once.begin(key, request()).await.unwrap() else {
                panic!()
            };
            attempts.push(attempt);
        }
    }
    let keys: std::collections::HashSet<String> = attempts.iter().map(lockkeeper::Attempt::key).collect();
    assert_eq!(keys.len(), 6, "{keys:?}");
    assert!(keys.contains("once:projects:a:1"), "{keys:?}");
}

#[tokio::test]
async fn the_prefix_is_the_operators() {
    let keeper = Keeper::builder().once_prefix("{app}:idem:").unwrap().connect().await.unwrap();
    let attempt = claim(&keeper.once("prefixed").unwrap(), "k").await;
    assert_eq!(attempt.key(), "{app}:idem:prefixed:k");
    assert!(Keeper::builder().once_prefix("{}").is_err());
}

#[tokio::test]
async fn a_different_request_is_refused_whatever_became_of_the_first() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("different").unwrap();
    let other = async || once.begin("k", fingerprint::of_bytes("another")).await.unwrap();
    let attempt = claim(&once, "k").await;
    assert!(matches!(other().await, lockkeeper::Begun::DifferentRequest), "while it runs");
    attempt.complete(whole("done")).await.unwrap();
    assert!(matches!(other().await, lockkeeper::Begun::DifferentRequest), "afterwards");
    let attempt = claim(&once, "undone").await;
    attempt.abandon().await.unwrap();
    let begun = once.begin("undone", fingerprint::of_bytes("another")).await.unwrap();
    assert!(matches!(begun, lockkeeper::Begun::Claimed(_)), "the key is open: {begun:?}");
}
