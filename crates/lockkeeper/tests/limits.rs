//! Limiters on a clock that the test steps: what callers are told, in which order they are let through, and what each
//! call does to the next.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{ErrorKind, Limit, ManualClock, Source, Subject, Verdict};
use lockkeeper_testkit::drops::poll_times;
use lockkeeper_testkit::wait::until;
use support::{SOON, ms, secs, step, stepped};

fn retry(verdict: &Verdict) -> Duration {
    verdict.retry_after().unwrap_or_else(|| panic!("denied, not {verdict:?}"))
}

#[tokio::test]
async fn a_verdict_says_what_is_left_when_to_come_back_and_that_it_never_fits() {
    let (keeper, clock) = stepped().await;
    let logins = keeper.limiter("login", Limit::token_bucket(100).refill(20, secs(1))).unwrap();
    let Verdict::Allowed { granted: 40, remaining: 60, .. } = logins.check_cost("u", 40).await.unwrap()
    else {
        panic!("40 of 100")
    };
    let denied = logins.check_cost("u", 100).await.unwrap();
    assert_eq!((retry(&denied), denied.remaining()), (secs(2), 60));
    clock.advance(secs(2));
    assert_eq!(logins.check_cost("u", 100).await.unwrap().granted(), 100, "exactly then it is granted");
    let Verdict::Never { by: 0, detail } = logins.check_cost("v", 101).await.unwrap() else {
        panic!("never")
    };
    assert_eq!((detail.state(0).unwrap().remaining, detail.state(0).unwrap().retry_after), (100, None));
}

#[tokio::test]
async fn a_verdict_is_short_when_printed_for_debugging() {
    let (keeper, _clock) = stepped().await;
    let verdict = keeper.limiter("login", "10/s").unwrap().check("u").await.unwrap();
    let text = format!("{verdict:?}");
    assert!(text.contains("source: Store") && text.contains("remaining: 9"), "{text}");
    assert!(!text.contains("Plan") && text.len() < 400, "{text}");
}

#[tokio::test]
async fn a_limit_counts_afresh_when_it_gets_company_and_not_when_it_has_some() {
    let (keeper, _clock) = stepped().await;
    let keys = |limits: &str| keeper.limiter("api", limits).unwrap().keys("u").unwrap();
    let (one, two, three) = (keys("10/s"), keys("10/s; 1000/h"), keys("10/s; 1000/h; 5000/d"));
    assert_ne!(one[0], two[0]);
    assert_eq!(two, three[..2]);
}

#[tokio::test]
async fn several_limits_are_one_and_the_answer_names_the_one_that_refused() {
    let (keeper, clock) = stepped().await;
    let api = keeper.limiter("api", "2/s fixed-window; 3/h fixed-window").unwrap();
    for _ in 0..2 {
        assert!(api.check("u").await.unwrap().is_allowed());
    }
    let Verdict::Denied { by, retry_after, detail } = api.check("u").await.unwrap() else { panic!("denied") };
    assert_eq!((by, retry_after), (0, secs(1)));
    let left: Vec<u64> = detail.states().map(|state| state.remaining).collect();
    assert_eq!(left, [0, 1], "what was refused by one is charged by none");
    clock.advance(secs(1));
    assert!(api.check("u").await.unwrap().is_allowed());
    let Verdict::Denied { by: 1, retry_after, detail } = api.check("u").await.unwrap() else {
        panic!("by the hour")
    };
    assert_eq!(retry_after, secs(3599), "that of the limit that refuses");
    assert_eq!(detail.state(1).unwrap().limit.to_string(), "3/1h fixed-window");
    assert!(api.check("another").await.unwrap().is_allowed());
}

#[tokio::test]
async fn limits_of_different_subjects_are_one() {
    let (keeper, _clock) = stepped().await;
    let (user, org) = (keeper.limiter("user", "5/h").unwrap(), keeper.limiter("org", "8/h").unwrap());
    let both = keeper.joint("both", [user.clone(), org.clone()]).unwrap();
    let in_turn = keeper.joint_in_sequence([user.clone(), org.clone()]).unwrap();
    for (joint, others) in [(&both, 5), (&in_turn, 5)] {
        org.reset("acme").await.unwrap();
        for name in ["a", "b"] {
            user.reset(name).await.unwrap();
        }
        for _ in 0..others {
            assert!(joint.check(["a", "acme"], 1).await.unwrap().is_allowed());
        }
        assert!(!joint.check(["a", "acme"], 1).await.unwrap().is_allowed(), "the user's is used up");
        let states = joint.check(["b", "acme"], 1).await.unwrap();
        let states: Vec<_> = states.detail().states().map(|state| (state.limiter, state.remaining)).collect();
        assert_eq!(states, [("user", 4), ("org", 2)]);
        user.refund("b", 1).await.unwrap();
        org.refund("acme", 1).await.unwrap();
        assert!(joint.check(["b", "acme"], 3).await.unwrap().is_allowed());
        let Verdict::Denied { by, detail, .. } = joint.check(["b", "acme"], 1).await.unwrap() else {
            panic!("the organisation's is used up")
        };
        assert_eq!(detail.state(by).unwrap().limiter, "org");
        assert_eq!(user.peek("b", 1).await.unwrap().remaining(), 2, "and the user is not charged for that");
    }
    assert_eq!(both.check(["a"], 1).await.unwrap_err().kind(), ErrorKind::BadArgument);
    let (other, _) = stepped().await;
    assert!(other.joint("both", [user]).unwrap_err().to_string().contains("another keeper"));
}

/// What was not taken is not given back: not to the limiter that refused.
#[tokio::test]
async fn who_refuses_in_sequence_is_given_nothing_back() {
    let (keeper, _clock) = stepped().await;
    let [user, org] = ["user", "org"].map(|name| keeper.limiter(name, "5/h").unwrap());
    assert!(org.check_cost("acme", 4).await.unwrap().is_allowed());
    let both = keeper.joint_in_sequence([user.clone(), org.clone()]).unwrap();
    assert!(!both.check(["a", "acme"], 3).await.unwrap().is_allowed());
    assert_eq!(org.peek("acme", 1).await.unwrap().remaining(), 1);
    assert_eq!(user.peek("a", 1).await.unwrap().remaining(), 5);
}

/// A call that never fits says by which limit, wherever that stands, and the limits behind it are not asked.
#[tokio::test]
async fn a_joint_that_never_fits_names_the_limit() {
    let (keeper, _clock) = stepped().await;
    let [user, org, all] = [("user", "5/h"), ("org", "3/h"), ("all", "9/h")]
        .map(|(name, limit)| keeper.limiter(name, limit).unwrap());
    let limiters = || [user.clone(), org.clone(), all.clone()];
    let joints = [keeper.joint("three", limiters()).unwrap(), keeper.joint_in_sequence(limiters()).unwrap()];
    for joint in joints {
        let Verdict::Never { by, detail } = joint.check(["a", "acme", "x"], 4).await.unwrap() else {
            panic!("never")
        };
        assert_eq!(detail.state(by).unwrap().limiter, "org");
        assert_eq!(user.peek("a", 1).await.unwrap().remaining(), 5);
        assert_eq!(all.peek("x", 1).await.unwrap().remaining(), 9);
    }
    let limits = ["1/s", "2/s", "3/s", "4/s", "5/s", "6/s", "7/s", "8/s", "9/s"];
    let nine = || limits.into_iter().map(|limit| keeper.limiter("many", limit).unwrap());
    for error in [keeper.joint("nine", nine()).unwrap_err(), keeper.joint_in_sequence(nine()).unwrap_err()] {
        assert!(error.to_string().contains("9 limits at once; at most 8"), "{error}");
    }
}

#[tokio::test]
async fn unlimited_and_nothing_are_values_and_ask_nobody() {
    let (keeper, _clock) = stepped().await;
    let open = keeper.limiter("open", Limit::Unlimited).unwrap();
    let verdict = open.check_cost("u", u64::MAX).await.unwrap();
    assert_eq!((verdict.granted(), verdict.detail().source()), (u64::MAX, Source::Constant));
    let shut = keeper.limiter("shut", [Limit::Nothing, Limit::Unlimited]).unwrap();
    let never = shut.check("u").await.unwrap();
    assert!(matches!(never, Verdict::Never { .. }) && never.remaining() == 0, "{never:?}");
    let joint = keeper.joint_in_sequence([keeper.limiter("first", "5/h").unwrap(), open.clone()]).unwrap();
    assert_eq!(joint.check(["u", "u"], 1).await.unwrap().detail().source(), Source::Store, "one was asked");
    let mixed = keeper.limiter("mixed", "unlimited; 1/h").unwrap();
    assert!(mixed.check("u").await.unwrap().is_allowed() && !mixed.check("u").await.unwrap().is_allowed());
}

#[tokio::test]
async fn bad_arguments_are_named() {
    let (keeper, _clock) = stepped().await;
    let words = |error: lockkeeper::Error| error.to_string();
    assert!(words(keeper.limiter("Log In", "1/s").unwrap_err()).contains("`Log In`"));
    assert!(words(keeper.limiter("a", "1/s; 1/s").unwrap_err()).contains("given twice"));
    assert!(words(keeper.limiter("a", "0/s").unwrap_err()).contains("is 0"));
    assert!(words(keeper.limiter("a", Vec::new()).unwrap_err()).contains("no limit"));
    let limiter = keeper.limiter("a", "1/s").unwrap();
    assert!(words(limiter.check_cost("u", 0).await.unwrap_err()).contains("cost is 0"));
    assert!(words(limiter.check("").await.unwrap_err()).contains("empty"));
    keeper.close(SOON).await;
    assert_eq!(limiter.check("u").await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn at_most_charges_what_it_grants_and_what_is_given_back_is_there_again() {
    let (keeper, _clock) = stepped().await;
    for limit in ["10/h", "10/h fixed-window", "10/h sliding-log", "10/h sliding-counter"] {
        let limiter = keeper.limiter("work", limit).unwrap();
        let granted = limiter.check_up_to("u", 7).await.unwrap().granted();
        let rest = limiter.check_up_to("u", 7).await.unwrap();
        assert_eq!((granted, rest.granted(), rest.remaining()), (7, 3, 0), "{limit}");
        assert!(!limiter.check_up_to("u", 7).await.unwrap().is_allowed(), "{limit}");
        limiter.refund("u", 4).await.unwrap();
        assert_eq!(limiter.peek("u", 1).await.unwrap().remaining(), 4, "{limit}");
        limiter.refund("u", 400).await.unwrap();
        assert_eq!(limiter.peek("u", 1).await.unwrap().remaining(), 10, "{limit}: never more than was used");
        assert!(limiter.check("u").await.unwrap().is_allowed());
        assert!(limiter.reset("u").await.unwrap() && !limiter.reset("u").await.unwrap(), "{limit}");
    }
}

/// R109, R112: a changed limit begins afresh with its next call.
#[tokio::test]
async fn a_changed_limit_takes_effect_at_once_and_denies_nothing_that_a_fresh_key_would_allow() {
    let (keeper, _clock) = stepped().await;
    let old = keeper.limiter("api", "10/20s burst=15").unwrap();
    assert_eq!(old.check_cost("u", 15).await.unwrap().granted(), 15);
    let new = keeper.limiter("api", "1000/20s").unwrap();
    assert_eq!(new.check_cost("u", 1000).await.unwrap().granted(), 1000);
    let lower = keeper.limiter("api", "2/20s").unwrap();
    assert_eq!(lower.check_cost("u", 2).await.unwrap().granted(), 2);
    assert!(!lower.check("u").await.unwrap().is_allowed());
}

/// R136, R137, R140, R142, R146: who is limited, and by what, is never mixed up.
#[tokio::test]
async fn subjects_and_limiters_do_not_share_a_count() {
    let (keeper, _clock) = stepped().await;
    let (one, other) = (keeper.limiter("a", "1/h").unwrap(), keeper.limiter("b", "1/h").unwrap());
    let address: std::net::IpAddr = "127.0.0.1".parse().unwrap();
    let mapped: std::net::IpAddr = "::ffff:127.0.0.1".parse().unwrap();
    let both = || Subject::of("a", "b_c").unwrap().and("k", "c");
    let subjects = [
        Subject::new("127.0.0.1"),
        Subject::user("127.0.0.1"),
        Ok(Subject::ip(address)),
        both(),
        Subject::of("a", "b").unwrap().and("k", "c_c"),
        Subject::new("a}{b"),
        Subject::new("a"),
    ];
    for subject in subjects {
        let subject = subject.unwrap();
        assert!(one.check(&subject).await.unwrap().is_allowed(), "{subject}");
        assert!(other.check(&subject).await.unwrap().is_allowed(), "{subject}");
        assert!(!one.check(&subject).await.unwrap().is_allowed(), "{subject}");
    }
    assert!(!one.check(mapped).await.unwrap().is_allowed());
}

/// Who waits is let through in the order of coming, each as soon as there is something.
#[tokio::test]
async fn until_ready_lets_through_in_order_and_gives_up_when_it_cannot_be_in_time() {
    let (keeper, clock) = stepped().await;
    let limiter = keeper.limiter("work", "1/10s").unwrap();
    assert!(limiter.check("u").await.unwrap().is_allowed());
    let denied = limiter.until_ready("u", 1, secs(9)).await.unwrap();
    assert_eq!(retry(&denied), secs(10), "not in time, so at once");
    assert!(matches!(limiter.until_ready("u", 2, secs(99)).await.unwrap(), Verdict::Never { .. }));

    let (order, mut rx) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..3 {
        let (limiter, order) = (limiter.clone(), order.clone());
        let mut waits = Box::pin(async move {
            let verdict = limiter.until_ready("u", 1, secs(60)).await.unwrap();
            order.send((number, verdict.is_allowed())).unwrap();
        });
        // It stands in the line before the next one comes.
        assert!(poll_times(waits.as_mut(), 1).await.is_none());
        tokio::spawn(waits);
    }
    for number in 0..3 {
        assert!(rx.try_recv().is_err(), "nobody before it is time");
        step(&clock, secs(10)).await;
        let next = tokio::time::timeout(SOON, rx.recv()).await.unwrap();
        assert_eq!(next, Some((number, true)));
    }
}

/// Who came first goes first, though less would be there earlier for those behind.
#[tokio::test]
async fn who_wants_little_does_not_overtake_who_wants_more() {
    let (keeper, clock) = stepped().await;
    let limiter = keeper.limiter("work", "3/30s").unwrap();
    assert!(limiter.check_cost("u", 3).await.unwrap().is_allowed());
    let waits = |cost| {
        let limiter = limiter.clone();
        Box::pin(async move { limiter.until_ready("u", cost, secs(60)).await.unwrap().granted() })
    };
    let (mut large, mut small) = (waits(2), waits(1));
    assert!(poll_times(large.as_mut(), 1).await.is_none());
    assert!(poll_times(small.as_mut(), 1).await.is_none());
    let (large, small) = (tokio::spawn(large), tokio::spawn(small));
    step(&clock, secs(10)).await;
    step(&clock, secs(10)).await;
    assert_eq!(tokio::time::timeout(SOON, large).await.unwrap().unwrap(), 2);
    assert!(!small.is_finished());
    step(&clock, secs(10)).await;
    assert_eq!(tokio::time::timeout(SOON, small).await.unwrap().unwrap(), 1);
}

/// Who stands in the line waits no longer than was said, though those before it do.
#[tokio::test]
async fn who_cannot_come_to_the_front_in_time_is_refused_when_the_time_is_over() {
    let (keeper, clock) = stepped().await;
    let limiter = keeper.limiter("work", "1/10s").unwrap();
    assert!(limiter.check("u").await.unwrap().is_allowed());
    let waits = |limit| {
        let limiter = limiter.clone();
        Box::pin(async move { limiter.until_ready("u", 1, limit).await.unwrap() })
    };
    let (mut front, mut behind) = (waits(secs(60)), waits(secs(5)));
    assert!(poll_times(front.as_mut(), 1).await.is_none());
    assert!(poll_times(behind.as_mut(), 1).await.is_none());
    step(&clock, secs(5)).await;
    let denied = tokio::time::timeout(SOON, behind).await.unwrap();
    assert_eq!(retry(&denied), secs(5));
    let front = tokio::spawn(front);
    step(&clock, secs(5)).await;
    assert!(tokio::time::timeout(SOON, front).await.unwrap().unwrap().is_allowed());
}

#[tokio::test]
async fn who_leaves_the_line_lets_the_next_one_come_forward() {
    let (keeper, clock) = stepped().await;
    let limiter = keeper.limiter("work", "1/10s").unwrap();
    assert!(limiter.check("u").await.unwrap().is_allowed());
    let waits = || {
        let limiter = limiter.clone();
        Box::pin(async move { limiter.until_ready("u", 1, secs(60)).await.unwrap() })
    };
    let (mut front, mut next) = (waits(), waits());
    assert!(poll_times(front.as_mut(), 1).await.is_none());
    assert!(poll_times(next.as_mut(), 1).await.is_none());
    drop(front);
    let next = tokio::spawn(next);
    step(&clock, secs(10)).await;
    assert!(tokio::time::timeout(SOON, next).await.unwrap().unwrap().is_allowed());
}

#[tokio::test]
async fn a_leased_limiter_takes_chunks_and_returns_what_grows_old() {
    let (keeper, clock) = stepped().await;
    let limiter = keeper.limiter("hot", "10000/h fixed-window").unwrap();
    let leased = limiter.leased().unwrap();
    let mut sources = Vec::new();
    for _ in 0..500 {
        let verdict = leased.check("u").await.unwrap();
        assert!(verdict.is_allowed());
        sources.push(verdict.detail().source());
    }
    let used = 10_000 - limiter.peek("u", 1).await.unwrap().remaining();
    assert_eq!(used, 500 + leased.outstanding(), "what is not spent is charged all the same");
    assert!(leased.outstanding() <= 100, "a chunk is a hundredth of the capacity at most");
    step(&clock, secs(2)).await;
    until("the rest goes back", SOON, async || {
        leased.outstanding() == 0 && limiter.peek("u", 1).await.unwrap().remaining() == 9_500
    })
    .await;
}

#[tokio::test]
async fn r40_closing_returns_what_lies_in_purses_and_a_new_window_is_not_given_a_gift() {
    let (keeper, clock) = stepped().await;
    let store = lockkeeper::MemoryStore::new(clock.clone());
    let builder = || lockkeeper::Keeper::builder().memory_store(store.clone()).clock(clock.clone());
    let (one, other) = (builder().connect().await.unwrap(), builder().connect().await.unwrap());
    drop(keeper);
    let limit = "1000/h fixed-window";
    let look = || {
        let other = other.limiter("hot", limit).unwrap();
        async move { other.peek("u", 1).await.unwrap().remaining() }
    };
    let leased = one.limiter("hot", limit).unwrap().leased().unwrap();
    assert!(leased.check("u").await.unwrap().is_allowed());
    assert!(look().await < 999);
    one.close(SOON).await;
    assert_eq!(look().await, 999, "closed");

    let one = builder().connect().await.unwrap();
    let leased = one.limiter("hot", limit).unwrap().leased().unwrap();
    assert!(leased.check("u").await.unwrap().is_allowed());
    clock.advance(secs(3600));
    let filler = other.limiter("hot", limit).unwrap();
    assert_eq!(filler.check_cost("u", 1000).await.unwrap().granted(), 1000);
    one.close(SOON).await;
    assert_eq!(look().await, 0, "tokens of the last window are not given to this one");
}

#[tokio::test]
async fn leasing_is_refused_where_it_cannot_keep_the_promise() {
    let (keeper, _clock) = stepped().await;
    let log = keeper.limiter("a", "10/s sliding-log").unwrap();
    assert_eq!(log.leased().unwrap_err().kind(), ErrorKind::Unsupported);
    let exact = keeper.limiter("a", "10/s").unwrap().exact();
    assert!(exact.leased().unwrap_err().to_string().contains("exact"));
    let leased = keeper.limiter("a", "5/h").unwrap().leased().unwrap();
    let mut granted = 0;
    for _ in 0..9 {
        granted += leased.check("u").await.unwrap().granted();
    }
    assert_eq!(granted, 5, "never more than the limit");
    assert!(matches!(leased.check_cost("u", 6).await.unwrap(), Verdict::Never { .. }));
    assert!(retry(&leased.check("u").await.unwrap()) > ms(1));
}

/// A repeatable stream of small numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What is admitted in any interval stays within the algorithm's bound and what lay in purses when it began; the total
/// within what the store gave out.
#[tokio::test]
async fn r134_leases_exceed_the_bound_of_an_interval_by_no_more_than_what_lies_in_purses() {
    const CAPACITY: u64 = 200;
    const PER_SECOND: u64 = 1000;
    const CHUNK: u64 = 40;
    for seed in 1..=10 {
        let mut numbers = Numbers(seed);
        let clock = Arc::new(ManualClock::default());
        let store = lockkeeper::MemoryStore::new(clock.clone());
        let mut leased = Vec::new();
        for _ in 0..2 {
            let keeper = lockkeeper::Keeper::builder().memory_store(store.clone()).clock(clock.clone());
            let keeper = keeper.on_current_runtime().connect().await.unwrap();
            let limit = Limit::token_bucket(CAPACITY).refill(PER_SECOND, secs(1));
            let limiter = keeper.limiter("hot", limit).unwrap();
            leased.push(limiter.leased().unwrap().max_chunk(CHUNK).max_age(ms(100)));
        }
        let (mut now_us, mut admitted) = (0, Vec::new());
        for _ in 0..300 {
            for one in &leased {
                let wanted = numbers.below(60);
                let mut count = 0;
                for _ in 0..wanted {
                    count += one.check("u").await.unwrap().granted();
                }
                admitted.push((now_us, count));
            }
            let pause = [0, 1_000, 20_000, 300_000][usize::try_from(numbers.below(4)).unwrap()];
            now_us += pause;
            step(&clock, Duration::from_micros(pause)).await;
        }
        for from in 0..admitted.len() {
            let mut sum = 0;
            for (at, count) in &admitted[from..] {
                sum += count;
                let elapsed = at - admitted[from].0;
                let bound = CAPACITY + PER_SECOND * elapsed / 1_000_000 + 2 * CHUNK;
                assert!(sum <= bound, "seed {seed}: {sum} in {elapsed} µs, at most {bound}");
            }
        }
        let total: u64 = admitted.iter().map(|(_, count)| count).sum();
        assert!(total > 400, "seed {seed}: {total} is no load");
    }
}

/// Tokens are returned also when the runtime that was to do it has ended.
#[test]
fn a_purse_outlives_the_runtime_of_its_first_chunk() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let (clock, limiter, leased) = first.block_on(async {
        let (keeper, clock) = stepped().await;
        let limiter = keeper.limiter("hot", "10000/h fixed-window").unwrap();
        let leased = limiter.leased().unwrap();
        assert!(leased.check("u").await.unwrap().is_allowed());
        (clock, limiter, leased)
    });
    drop(first);
    second.block_on(async {
        clock.advance(secs(2));
        assert!(leased.check("u").await.unwrap().is_allowed());
        assert!(leased.outstanding() > 0);
        clock.advance(secs(2));
        until("all is returned", SOON, async || limiter.peek("u", 1).await.unwrap().remaining() == 9_998)
            .await;
        assert_eq!(leased.outstanding(), 0);
    });
}
