//! Tokens that were taken in advance: how many, how old they may become, and where the rest goes.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use lockkeeper::{Keeper, ManualClock, MemoryStore, Source, WhenAway};
use lockkeeper_testkit::wait::until;
use support::{PATIENT, SOON, keeper, ms, scripts, secs, server, step, stepped};

/// What has grown old is not spent, and comes back though it was noticed by the next call and not by the alarm.
#[tokio::test]
async fn old_tokens_are_not_spent_and_go_back() {
    let (keeper, clock) = stepped().await;
    let limiter = keeper.limiter("hot", "1000/h fixed-window").unwrap();
    let leased = limiter.leased().unwrap();
    for _ in 0..2 {
        let verdict = leased.check("v").await.unwrap();
        assert_eq!(verdict.detail().source(), Source::Leased, "old ones are not in the way of new ones");
        clock.advance(secs(1));
    }
    until("the rest goes back", SOON, async || leased.outstanding() == 0).await;
    assert_eq!(limiter.peek("v", 1).await.unwrap().remaining(), 998);

    assert!(leased.check("u").await.unwrap().is_allowed());
    let rest = leased.outstanding();
    assert!(rest > 0 && limiter.check_cost("u", 999 - rest).await.unwrap().is_allowed());
    // Nobody else runs between these two.
    clock.advance(secs(1));
    assert!(!leased.check("u").await.unwrap().is_allowed(), "they are too old, and there are no others");
    until("the rest goes back", SOON, async || limiter.peek("u", 1).await.unwrap().remaining() == rest).await;
}

/// New tokens that come to older ones are as old as those.
#[tokio::test]
async fn tokens_never_grow_younger() {
    let (keeper, clock) = stepped().await;
    let limiter = keeper.limiter("hot", "100000/h fixed-window").unwrap();
    let leased = limiter.leased().unwrap();
    assert!(leased.check("u").await.unwrap().is_allowed());
    let first = leased.outstanding();
    step(&clock, ms(900)).await;
    assert!(leased.check_cost("u", first + 1).await.unwrap().is_allowed());
    assert!(leased.outstanding() > 0);
    step(&clock, ms(100)).await;
    until("all go back", SOON, async || leased.outstanding() == 0).await;
    assert_eq!(limiter.peek("u", 1).await.unwrap().remaining(), 100_000 - first - 2);
}

/// A sliding counter gives back to the running window only: what was taken in the one before stays charged.
#[tokio::test]
async fn tokens_of_the_window_before_are_not_given_to_this_one() {
    let (keeper, clock) = stepped().await;
    let limiter = keeper.limiter("hot", "1000/1h sliding-counter").unwrap();
    let leased = limiter.clone().leased().unwrap().max_age(secs(2));
    clock.advance(secs(3599));
    assert!(leased.check("u").await.unwrap().is_allowed());
    assert!(leased.outstanding() > 0);
    clock.advance(secs(1));
    assert_eq!(limiter.check_cost("u", 500).await.unwrap().granted(), 500);
    let before = limiter.peek("u", 1).await.unwrap().remaining();
    step(&clock, secs(1)).await;
    until("nothing lies about", SOON, async || leased.outstanding() == 0).await;
    let after = limiter.peek("u", 1).await.unwrap().remaining();
    assert!(after <= before + 1, "{before} were left, and one more may have slid out: {after}");
}

/// A chunk follows the use, is at most a quarter of what is left, and smaller again when it grew old.
#[tokio::test]
async fn a_chunk_follows_the_use_and_leaves_the_last_to_others() {
    let (keeper, clock) = stepped().await;
    let limiter = keeper.limiter("hot", "1000/h fixed-window").unwrap();
    let leased = limiter.clone().leased().unwrap().max_chunk(500);
    let left = async || limiter.peek("u", 1).await.unwrap().remaining();
    let next_chunk = async || {
        while leased.outstanding() > 0 {
            assert!(leased.check("u").await.unwrap().is_allowed());
        }
        let before = left().await;
        assert!(leased.check("u").await.unwrap().is_allowed());
        before - left().await
    };
    let mut chunks = Vec::new();
    for _ in 0..7 {
        chunks.push(next_chunk().await);
    }
    assert_eq!(
        chunks,
        [16, 32, 64, 128, 190, 142, 107],
        "twice as much, until a quarter of the rest is less"
    );
    step(&clock, secs(2)).await;
    until("the rest goes back", SOON, async || leased.outstanding() == 0).await;
    assert_eq!(next_chunk().await, 53, "half of it after it grew old");
}

/// Who wants more than a chunk asks the store for just that.
#[tokio::test]
async fn a_cost_above_a_chunk_takes_nothing_but_itself() {
    let (keeper, _clock) = stepped().await;
    let limiter = keeper.limiter("hot", "10/h").unwrap();
    let leased = limiter.clone().leased().unwrap().max_chunk(3).max_age(Duration::ZERO);
    assert!(leased.check_cost("u", 4).await.unwrap().is_allowed());
    assert!(!leased.check_cost("u", 7).await.unwrap().is_allowed());
    assert_eq!((limiter.peek("u", 1).await.unwrap().remaining(), leased.outstanding()), (6, 0));
    let mut sources = Vec::new();
    for _ in 0..2 {
        sources.push(leased.check("v").await.unwrap().detail().source());
    }
    assert_eq!(sources, [Source::Leased; 2], "an age of nothing is raised to the least there is");
    assert_eq!(leased.outstanding(), 1, "a chunk is three");
}

/// Where there is less than was wanted, it lies in the purse for those who want no more than that.
#[tokio::test]
async fn who_wants_more_than_is_left_is_refused_by_the_store() {
    let (keeper, _clock) = stepped().await;
    let limiter = keeper.limiter("hot", "100/h fixed-window").unwrap();
    let leased = limiter.clone().leased().unwrap().max_chunk(10);
    assert!(limiter.check_cost("u", 97).await.unwrap().is_allowed());
    let denied = leased.check_cost("u", 5).await.unwrap();
    assert_eq!((denied.retry_after(), denied.detail().source()), (Some(secs(3600)), Source::Store));
    assert_eq!(leased.check_cost("u", 3).await.unwrap().detail().source(), Source::Leased);
    assert_eq!((limiter.peek("u", 1).await.unwrap().remaining(), leased.outstanding()), (0, 0));
}

/// So many subjects have a purse; those beyond ask the store, until there is room again.
#[test]
fn a_leased_limiter_has_so_many_purses_at_most() {
    const PURSES: usize = 10_000;
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let builder = Keeper::builder().memory_store(store).clock(clock);
    let keeper = runtime.block_on(builder.connect()).unwrap();
    let leased = keeper.limiter("hot", "1000/h").unwrap().leased().unwrap();
    // Without a runtime, so nobody returns what grows old.
    let check = |subject: &str, cost| leased.check_cost(subject, cost).now_or_never().unwrap().unwrap();
    for number in 0..PURSES {
        assert_eq!(check(&number.to_string(), 1).detail().source(), Source::Leased, "{number}");
    }
    let each = leased.outstanding() / PURSES as u64;
    assert!(each > 0);
    assert_eq!(check("late", 1).detail().source(), Source::Store);
    assert_eq!(check("7", each).detail().source(), Source::Leased, "who has one keeps it");
    // Only every so many look for an empty one.
    let mut others = (0..1_000).map(|number| check(&format!("late{number}"), 1).detail().source());
    assert!(others.any(|source| source == Source::Leased), "that one was empty");
    assert_eq!(check("8", 1).detail().source(), Source::Leased);
}

/// However many come at once to an empty purse, one chunk is taken for all of them.
#[tokio::test]
async fn one_takes_the_next_chunk_and_the_others_wait_for_it() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "10000/h").unwrap().decide_within(PATIENT);
    let leased = limiter.leased().unwrap().max_age(secs(60));
    assert!(leased.check("warm").await.unwrap().is_allowed());
    let before = scripts(&server);
    let verdicts = join_all((0..8).map(|_| leased.check("u"))).await;
    assert!(verdicts.into_iter().all(|verdict| verdict.unwrap().is_allowed()));
    assert_eq!(scripts(&server) - before, 1);
}

/// Where nobody can be asked, leased limiters decide as the policy says.
#[tokio::test]
async fn a_leased_limiter_whose_store_is_away_does_what_was_chosen() {
    let keeper = Keeper::builder().url("redis://127.0.0.1:1").unwrap().lazy().connect().await.unwrap();
    let limiter = keeper.limiter("hot", "100/h").unwrap();
    let leased = |policy| limiter.clone().when_away(policy).leased().unwrap();
    let verdict = leased(WhenAway::Allow).check("u").await.unwrap();
    assert_eq!((verdict.granted(), verdict.detail().source()), (1, Source::Unchecked));
    let sharing = leased(WhenAway::Share { instances: 50 });
    let mut granted = 0;
    for _ in 0..4 {
        granted += sharing.check("u").await.unwrap().granted();
    }
    assert_eq!(granted, 2);
    assert!(leased(WhenAway::Refuse).check("u").await.unwrap_err().is_transient());
}
