//! Limiters on a real server: what is charged when something goes wrong, and what is remembered.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper::{ErrorKind, Keeper, ManualClock, Source, Verdict, WhenAway};
use lockkeeper_faults::FaultProxy;
use lockkeeper_testkit::wait::until;
use support::{PATIENT, SOON, command, keeper, ms, proxied, remaining, scripts, secs, server};

/// A stopped server that goes on takes nothing for those who left.
#[tokio::test]
async fn a_stopped_server_burns_no_quota_for_those_who_left() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(ms(100)).exact();
    assert!(limiter.check("u").await.is_ok());
    server.pause().unwrap();
    for _ in 0..2 {
        let error = limiter.check("u").await.unwrap_err();
        assert!(error.is_transient(), "a store failure is not a refusal: {error}");
    }
    server.resume().unwrap();
    let patient = keeper.limiter("hot", "100/h").unwrap().decide_within(PATIENT);
    until("the server answers", SOON, async || patient.peek("u", 1).await.is_ok()).await;
    assert_eq!(remaining(&patient, "u").await, 99);
}

/// R125, R127, R128: the policy decides, within its time, and an outage costs no time-out each.
#[tokio::test]
async fn r125_r127_r128_r130_while_the_server_is_stopped_the_policy_decides_at_once_and_it_comes_back_by_itself()
 {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(ms(60)).exact();
    let allowing = limiter.clone().when_away(WhenAway::Allow);
    let sharing = limiter.clone().when_away(WhenAway::Share { instances: 10 });
    for cost in [1, 3] {
        assert!(sharing.check_cost("u", cost).await.unwrap().is_allowed());
    }
    server.pause().unwrap();
    for _ in 0..3 {
        let started = Instant::now();
        let verdict = allowing.check("u").await.unwrap();
        assert_eq!(verdict.detail().source(), Source::Unchecked);
        assert!(verdict.is_degraded() && started.elapsed() < secs(2), "{:?}", started.elapsed());
    }
    let error = limiter.check("u").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "the circuit is open: {error}");
    let started = Instant::now();
    for _ in 0..10_000 {
        assert!(allowing.check("u").await.unwrap().is_degraded());
    }
    assert!(started.elapsed() < secs(2), "10,000 checks took {:?}", started.elapsed());
    // R130: the share is warm: 10 of 100 for this one of ten, of which 4 are used.
    let mut allowed = 0;
    for _ in 0..20 {
        let verdict = sharing.check("u").await.unwrap();
        assert_eq!(verdict.detail().source(), Source::Share);
        allowed += verdict.granted();
    }
    assert_eq!(allowed, 6);
    server.resume().unwrap();
    until("the store decides again", SOON, async || {
        limiter.check("v").await.is_ok_and(|verdict| verdict.detail().source() == Source::Store)
    })
    .await;
}

#[tokio::test]
async fn what_is_not_a_limit_is_left_alone_and_left_to_the_policy() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(PATIENT);
    assert!(limiter.check("u").await.unwrap().is_allowed());
    let keys = command(&server, &["KEYS", "limit:*"]);
    let key = keys.as_array().unwrap()[0].as_str().unwrap().to_owned();
    command(&server, &["DEL", &key]);
    command(&server, &["RPUSH", &key, "x"]);
    let error = limiter.check("u").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongType);
    assert!(error.to_string().contains("it is not a limit's state"), "{error}");
    assert!(limiter.clone().when_away(WhenAway::Allow).check("u").await.unwrap().is_degraded());
    assert_eq!(command(&server, &["LLEN", &key]).as_int(), Some(1));
    assert_eq!(limiter.reset("u").await.unwrap_err().kind(), ErrorKind::WrongType);
}

/// Refusals cost one round trip a second, and what is given back here counts at once.
#[tokio::test]
async fn refusals_are_remembered_until_something_is_given_back() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "2/h").unwrap().decide_within(PATIENT);
    assert!(limiter.check_cost("u", 2).await.unwrap().is_allowed());
    let denied = limiter.check("u").await.unwrap();
    assert_eq!(denied.detail().source(), Source::Store);
    let before = scripts(&server);
    for _ in 0..1000 {
        let again = limiter.check("u").await.unwrap();
        if again.detail().source() == Source::Remembered {
            assert!(again.retry_after().unwrap() <= denied.retry_after().unwrap());
        }
    }
    assert!(scripts(&server) - before <= 10, "{} calls for 1,000 refusals", scripts(&server) - before);
    limiter.refund("u", 1).await.unwrap();
    assert!(limiter.check("u").await.unwrap().is_allowed());
    assert!(!limiter.check("u").await.unwrap().is_allowed());
    limiter.reset("u").await.unwrap();
    assert!(limiter.check("u").await.unwrap().is_allowed());

    let forgetful = limiter.without_memory_of_denials();
    assert!(forgetful.check("u").await.unwrap().is_allowed());
    let before = scripts(&server);
    for _ in 0..10 {
        assert_eq!(forgetful.check("u").await.unwrap().detail().source(), Source::Store);
    }
    assert_eq!(scripts(&server) - before, 10);
}

/// `SCRIPT FLUSH` and a restart without data are survived; what was used is forgotten with the data.
#[tokio::test]
async fn a_server_that_forgets_scripts_or_everything_is_survived() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(PATIENT);
    assert!(limiter.check("u").await.unwrap().is_allowed());
    command(&server, &["SCRIPT", "FLUSH"]);
    assert_eq!(limiter.check("u").await.unwrap().remaining(), 98);
    server.kill().unwrap();
    server.restart().unwrap();
    until("it decides again", PATIENT, async || limiter.check("v").await.is_ok()).await;
    assert_eq!(remaining(&limiter, "u").await, 100);
}

#[tokio::test]
async fn r131_a_full_server_is_a_store_failure_and_no_refusal() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(PATIENT);
    command(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    let error = limiter.check("u").await.unwrap_err();
    assert!(error.is_transient() && matches!(error.kind(), ErrorKind::Refused(_)), "{error}");
    assert!(limiter.clone().when_away(WhenAway::Allow).check("u").await.unwrap().is_degraded());
    command(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    assert!(limiter.check("u").await.unwrap().is_allowed());
}

/// A keeper behind `proxy`, on a clock that the test steps.
async fn stepped_behind(proxy: &FaultProxy) -> (Keeper, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let keeper = Keeper::builder().url(&proxy.url()).unwrap().clock(clock.clone()).connect().await.unwrap();
    (keeper, clock)
}

/// Counted from sending, for a second at most, and for the cost that was refused.
#[tokio::test]
async fn a_refusal_is_remembered_for_a_second_from_when_the_store_was_asked() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let (keeper, clock) = stepped_behind(&proxy).await;
    let limiter = keeper.limiter("hot", "3/h").unwrap().decide_within(secs(60));
    assert!(limiter.check_cost("u", 2).await.unwrap().is_allowed());
    proxy.hold_replies();
    let asked = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.check_cost("u", 2).await.unwrap() }
    });
    until("it is under way", SOON, async || proxy.stats().kept_reply_bytes > 0).await;
    clock.advance(ms(600));
    proxy.release();
    let denied = asked.await.unwrap();
    assert_eq!(denied.detail().source(), Source::Store);
    clock.advance(ms(399));
    let again = limiter.check_cost("u", 2).await.unwrap();
    assert_eq!(again.detail().source(), Source::Remembered);
    assert_eq!(again.retry_after(), Some(denied.retry_after().unwrap() - ms(399)), "counted down");
    clock.advance(ms(1));
    assert_eq!(limiter.check_cost("u", 2).await.unwrap().detail().source(), Source::Store, "a second");
    assert_eq!(limiter.check_cost("u", 2).await.unwrap().detail().source(), Source::Remembered);
    assert!(limiter.check("u").await.unwrap().is_allowed(), "one fits");
}

/// The age of leased tokens counts from sending as well.
#[tokio::test]
async fn leased_tokens_are_as_old_as_the_call_that_took_them() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let (keeper, clock) = stepped_behind(&proxy).await;
    let limiter = keeper.limiter("hot", "10000/h").unwrap().decide_within(secs(60));
    let leased = limiter.leased().unwrap();
    assert!(leased.check("warm").await.unwrap().is_allowed());
    proxy.hold_replies();
    let asked = tokio::spawn({
        let leased = leased.clone();
        async move { leased.check("u").await.unwrap() }
    });
    until("it is under way", SOON, async || proxy.stats().kept_reply_bytes > 0).await;
    clock.advance(ms(999));
    proxy.release();
    assert!(asked.await.unwrap().is_allowed());
    let before = scripts(&server);
    assert!(leased.check("u").await.unwrap().is_allowed());
    assert_eq!(scripts(&server), before, "the last millisecond of the first ones");
    clock.advance(ms(1));
    assert!(leased.check("u").await.unwrap().is_allowed());
    assert!(scripts(&server) > before, "new ones were taken");
}

/// What an earlier limiter let pass unchecked was charged nowhere: to give it back would be a gift.
#[tokio::test]
async fn a_joint_in_sequence_gives_back_what_the_store_charged_and_nothing_else() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    let one = keeper.limiter("one", "100/h").unwrap().decide_within(PATIENT);
    let two = keeper.limiter("two", "1/h").unwrap().decide_within(PATIENT);
    assert!(one.check_cost("u", 5).await.unwrap().is_allowed() && two.check("o").await.unwrap().is_allowed());
    let both = keeper.joint_in_sequence([one.clone(), two.clone()]).unwrap();
    assert!(!both.check(["u", "o"], 1).await.unwrap().is_allowed());
    assert_eq!(remaining(&one, "u").await, 95, "charged, and given back");
    let hasty = one.clone().decide_within(ms(2)).when_away(WhenAway::Allow);
    let hasty = keeper.joint_in_sequence([hasty, two]).unwrap();
    proxy.slow(ms(20));
    let denied = hasty.check(["u", "o"], 1).await.unwrap();
    assert!(!denied.is_allowed() && denied.is_degraded(), "{denied:?}");
    proxy.slow(Duration::ZERO);
    assert_eq!(remaining(&one, "u").await, 95);
}

/// A share is smaller than its limit, so what does not fit into it is refused for now, not for ever.
#[tokio::test]
async fn a_share_says_never_of_what_the_limit_cannot_hold_and_is_charged_limit_by_limit() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let sharing = |name: &str, limits: &str| {
        let limiter = keeper.limiter(name, limits).unwrap().decide_within(ms(200));
        limiter.when_away(WhenAway::Share { instances: 2 })
    };
    let (one, tiny) = (sharing("one", "10/h"), sharing("tiny", "1/h"));
    let two = sharing("two", "2/d fixed-window-from-first; 10/y fixed-window-from-first");
    for _ in 0..2 {
        let verdict = two.check("u").await.unwrap();
        assert!(verdict.is_allowed() && !verdict.is_degraded());
    }
    server.pause().unwrap();
    for limiter in [&one, &tiny] {
        assert!(matches!(limiter.check_cost("u", 11).await.unwrap(), Verdict::Never { by: 0, .. }));
    }
    let denied = one.check_cost("u", 6).await.unwrap();
    assert!(denied.is_degraded() && denied.retry_after() >= Some(ms(100)), "{denied:?}");
    assert!(tiny.check("u").await.unwrap().retry_after() >= Some(ms(100)));
    let Verdict::Denied { by: 0, detail, .. } = two.check("u").await.unwrap() else { panic!("denied") };
    let left: Vec<u64> = detail.states().map(|state| state.remaining).collect();
    assert_eq!(left, [0, 3], "half of 2 and of 10, of which 2 are used");
    server.resume().unwrap();
}

/// What one handle gives back, every other handle of the same keeper sees at once.
#[tokio::test]
async fn a_joint_does_not_remember_what_its_limiters_gave_back() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = |name: &str, limit: &str| keeper.limiter(name, limit).unwrap().decide_within(PATIENT);
    let (user, org) = (limiter("user", "1/h"), limiter("org", "100/h"));
    let both = keeper.joint("both", [user.clone(), org]).unwrap();
    let again = limiter("user", "1/h");
    let twice = || async { (both.check(["u", "o"], 1).await.unwrap(), again.check("u").await.unwrap()) };
    assert!(both.check(["u", "o"], 1).await.unwrap().is_allowed());
    for give_back in [true, false] {
        let (joint, other) = twice().await;
        assert!(!joint.is_allowed() && !other.is_allowed());
        match give_back {
            true => user.refund("u", 1).await.unwrap(),
            false => assert!(user.reset("u").await.unwrap()),
        }
        let (joint, other) = twice().await;
        assert!(joint.is_allowed() && !other.is_allowed(), "{joint:?} {other:?}");
    }
}
