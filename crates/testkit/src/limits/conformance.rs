//! The contract of a store of limits, as functions that any arm can run. Each uses subjects of its own.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::core::limit::{
    Algorithm, Ask, Asks, Check, CheckReply, Checked, Limit, LimitCell, MAX_COUNT, Outcome, Peek, Quota,
    Refund, Refunded, Reset, Stored,
};
use lockkeeper::core::{Apply, Error, ErrorKind, Keys, Timestamp};

use super::arm::{LimitArm, keys, quota};
use super::plant::Plant;

const WITHIN: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);
const MICRO: Duration = Duration::from_micros(1);
/// A whole multiple of all windows here, so that aligned ones begin with a test.
const BEGIN: u64 = 1_767_225_600_000_000;

/// Runs all of it.
pub async fn all(arm: &impl LimitArm) {
    r1_r2_a_key_without_expiry_is_repaired_and_counted(arm).await;
    r4_hits_one_window_apart_always_leave_an_expiry(arm).await;
    r5_a_key_in_its_last_millisecond_is_not_repaired(arm).await;
    r7_a_call_never_extends_a_window(arm).await;
    r8_a_refund_never_moves_a_window(arm).await;
    r11_every_key_has_its_expiry_after_every_operation(arm).await;
    r17_r22_r70_r71_a_key_goes_when_everything_is_there_again(arm).await;
    r20_the_previous_window_is_kept_as_long_as_it_counts(arm).await;
    r25_a_log_lets_exactly_its_count_through(arm).await;
    r26_calls_of_one_microsecond_are_told_apart(arm).await;
    r28_a_refusal_leaves_every_byte(arm).await;
    r34_a_log_whose_calls_have_all_left_lets_in(arm).await;
    r35_exactly_the_count_passes(arm).await;
    r67_r68_large_round_numbers_are_kept_as_integers(arm).await;
    r95_nothing_is_negative_around_the_end_of_a_window(arm).await;
    r116_what_is_not_ours_is_left_alone(arm).await;
    r139_a_reset_takes_its_subject_literally(arm).await;
    several_limits_take_together_or_not_at_all(arm).await;
    a_batch_is_one_by_one(arm).await;
    a_part_is_charged_exactly(arm).await;
    a_log_says_when_the_next_call_leaves(arm).await;
    a_log_never_goes_back_with_the_clock(arm).await;
    a_log_of_ten_thousand_is_filled_and_given_back(arm).await;
}

/// One of each algorithm: `count` in `window`.
fn of_all(count: u64, window: Duration) -> [Quota; 5] {
    [
        quota(Limit::token_bucket(count).refill(count, window)),
        quota(Limit::fixed_window(count, window)),
        quota(Limit::fixed_window_from_first(count, window)),
        quota(Limit::sliding_log(count, window)),
        quota(Limit::sliding_counter(count, window)),
    ]
}

/// The key of this quota for a subject, which tells tests apart.
fn at(quota: Quota, subject: &str) -> Keys {
    let tag = String::from_utf8_lossy(&quota.tag()).into_owned();
    keys(&[&format!("login:{tag}:{subject}")])
}

fn begin(arm: &impl LimitArm) {
    arm.set_clock(Timestamp::from_micros(BEGIN));
}

async fn try_check<A: LimitArm>(
    arm: &A,
    at: &Keys,
    quotas: &[Quota],
    asks: &[Ask],
) -> Result<CheckReply, Error> {
    let check = Check { quotas: quotas.into(), asks: Asks::from_slice(asks), not_after: Timestamp::MAX };
    arm.limits().apply(at, check, WITHIN).await.map(|answer| answer.reply)
}

async fn check(arm: &impl LimitArm, at: &Keys, quota: Quota, asks: &[Ask]) -> CheckReply {
    try_check(arm, at, &[quota], asks).await.expect("an answer")
}

/// What one call of one was granted.
async fn take(arm: &impl LimitArm, at: &Keys, quota: Quota) -> u64 {
    check(arm, at, quota, &[Ask::whole(1)]).await.granted()
}

async fn peek<A: LimitArm>(arm: &A, at: &Keys, quotas: &[Quota], ask: Ask) -> Result<Checked, Error> {
    arm.limits().apply(at, Peek { quotas: quotas.into(), ask }, WITHIN).await.map(|answer| answer.reply)
}

async fn refund<A: LimitArm>(arm: &A, at: &Keys, quotas: &[Quota], cost: u64) -> Result<Refunded, Error> {
    let refund = Refund { quotas: quotas.into(), cost, not_after: Timestamp::MAX };
    arm.limits().apply(at, refund, WITHIN).await.map(|answer| answer.reply)
}

async fn reset<A: LimitArm>(arm: &A, at: &Keys, quotas: &[Quota]) -> Result<usize, Error> {
    arm.limits().apply(at, Reset { quotas: quotas.into() }, WITHIN).await.map(|answer| answer.reply)
}

async fn kept(arm: &impl LimitArm, at: &Keys, quota: Quota) -> LimitCell {
    arm.kept(at, &[quota.algorithm()]).await.remove(0)
}

async fn r1_r2_a_key_without_expiry_is_repaired_and_counted(arm: &impl LimitArm) {
    begin(arm);
    for quota in of_all(2, 10 * SECOND) {
        let at = at(quota, "r1");
        assert_eq!(check(arm, &at, quota, &[Ask::whole(2)]).await.granted(), 2);
        let whole = kept(arm, &at, quota).await;
        arm.plant_limit(at.at(0), quota.algorithm(), &Plant::Persist);
        assert_eq!(kept(arm, &at, quota).await.expires_ms, None, "{quota}");
        let refused = check(arm, &at, quota, &[Ask::whole(1)]).await;
        assert_eq!((refused.granted(), refused.repaired), (0, 1), "{}: {quota}", arm.name());
        assert_eq!(kept(arm, &at, quota).await, whole, "{}: {quota}", arm.name());
        assert_eq!(check(arm, &at, quota, &[Ask::whole(1)]).await.repaired, 0, "{quota}");
    }
}

async fn r4_hits_one_window_apart_always_leave_an_expiry(arm: &impl LimitArm) {
    begin(arm);
    let window = Duration::from_micros(1_500);
    let quota = quota(Limit::fixed_window_from_first(1, window));
    let at = at(quota, "r4");
    for hit in 0..10_000 {
        assert_eq!(take(arm, &at, quota).await, 1, "{}: hit {hit}", arm.name());
        let expires_ms = kept(arm, &at, quota).await.expires_ms;
        assert!(expires_ms.is_some_and(|at_ms| at_ms > arm.now().as_millis()), "{}: hit {hit}", arm.name());
        arm.advance(window);
    }
}

async fn r5_a_key_in_its_last_millisecond_is_not_repaired(arm: &impl LimitArm) {
    begin(arm);
    arm.advance(Duration::from_micros(300));
    let quota = quota(Limit::fixed_window_from_first(1, SECOND));
    let at = at(quota, "r5");
    assert_eq!(take(arm, &at, quota).await, 1);
    let expires_ms = kept(arm, &at, quota).await.expires_ms.expect("an expiry");
    // The millisecond of its expiry: the window is over, the key is still there, with 0 left to live.
    arm.set_clock(Timestamp::from_micros(expires_ms * 1000));
    assert_eq!(kept(arm, &at, quota).await.expires_ms, Some(expires_ms), "{}", arm.name());
    let again = check(arm, &at, quota, &[Ask::whole(1)]).await;
    assert_eq!((again.granted(), again.repaired), (1, 0), "{}", arm.name());
    let next =
        LimitCell { stored: Stored::Window(expires_ms * 1000, 1), expires_ms: Some(expires_ms + 1000) };
    assert_eq!(kept(arm, &at, quota).await, next, "{}", arm.name());
}

async fn r7_a_call_never_extends_a_window(arm: &impl LimitArm) {
    begin(arm);
    for quota in &of_all(5, 10 * SECOND)[1..3] {
        let at = at(*quota, "r7");
        take(arm, &at, *quota).await;
        let first = kept(arm, &at, *quota).await.expires_ms;
        arm.advance(3 * SECOND);
        take(arm, &at, *quota).await;
        assert_eq!(kept(arm, &at, *quota).await.expires_ms, first, "{}: {quota}", arm.name());
        begin(arm);
    }
}

async fn r8_a_refund_never_moves_a_window(arm: &impl LimitArm) {
    for wait in [Duration::ZERO, 3 * SECOND] {
        begin(arm);
        let quota = quota(Limit::fixed_window_from_first(1, 40 * SECOND));
        let at = at(quota, &format!("r8:{}", wait.as_secs()));
        take(arm, &at, quota).await;
        let first = kept(arm, &at, quota).await;
        arm.advance(wait);
        refund(arm, &at, &[quota], 1).await.expect("an answer");
        assert_eq!(kept(arm, &at, quota).await.stored, Stored::Window(BEGIN, 0), "{}", arm.name());
        arm.advance(wait);
        take(arm, &at, quota).await;
        assert_eq!(kept(arm, &at, quota).await, first, "{}", arm.name());
    }
}

async fn r11_every_key_has_its_expiry_after_every_operation(arm: &impl LimitArm) {
    begin(arm);
    let quotas = of_all(10, 10 * SECOND);
    let subjects: Vec<String> = quotas.iter().map(|quota| format!("r11:{quota}")).collect();
    let at = keys(&subjects.iter().map(String::as_str).collect::<Vec<_>>());
    let algorithms = quotas.map(Quota::algorithm);
    let are_bounded = async |after: &str| {
        let cells = arm.kept(&at, &algorithms).await;
        let now_ms = arm.now().as_millis();
        let is_bounded = |cell: &LimitCell| cell.expires_ms.is_some_and(|at_ms| at_ms > now_ms);
        assert!(cells.iter().all(is_bounded), "{} after {after}: {cells:?}", arm.name());
    };
    try_check(arm, &at, &quotas, &[Ask::whole(4)]).await.expect("an answer");
    are_bounded("a check").await;
    refund(arm, &at, &quotas, 2).await.expect("an answer");
    are_bounded("a refund").await;
    try_check(arm, &at, &quotas, &[Ask::whole(11)]).await.expect("an answer");
    peek(arm, &at, &quotas, Ask::whole(1)).await.expect("an answer");
    are_bounded("a refusal and a peek").await;
    assert_eq!(reset(arm, &at, &quotas).await.expect("an answer"), 5);
    assert_eq!(arm.kept(&at, &algorithms).await, vec![LimitCell::default(); 5]);
}

async fn r17_r22_r70_r71_a_key_goes_when_everything_is_there_again(arm: &impl LimitArm) {
    let windows = [10 * SECOND, SECOND / 2, Duration::from_micros(600_001_000), MICRO, 1_234_567 * MICRO];
    for window in windows {
        for quota in of_all(3, window) {
            begin(arm);
            arm.advance(123 * MICRO);
            let at = at(quota, "r17");
            let reply = check(arm, &at, quota, &[Ask::whole(1)]).await;
            let reset = arm.now().after(reply.checked[0].standings[0].reset);
            let expires_ms = kept(arm, &at, quota).await.expires_ms.expect("an expiry");
            let expected = reset.as_micros().div_ceil(1000).max(arm.now().as_millis() + 1);
            assert_eq!(expires_ms, expected, "{}: {quota}", arm.name());
        }
    }
}

async fn r20_the_previous_window_is_kept_as_long_as_it_counts(arm: &impl LimitArm) {
    let quota = quota(Limit::sliding_counter(10, 60 * SECOND));
    for late in [0, 1, 59_999_999] {
        begin(arm);
        let at = at(quota, &format!("r20:{late}"));
        arm.advance(late * MICRO);
        assert_eq!(check(arm, &at, quota, &[Ask::whole(10)]).await.granted(), 10);
        arm.set_clock(Timestamp::from_micros(BEGIN + 119_999_999));
        let last = peek(arm, &at, &[quota], Ask::whole(10)).await.expect("an answer");
        assert_eq!(last.standings[0].remaining, 9, "{}: still weighted in its last microsecond", arm.name());
    }
}

async fn r25_a_log_lets_exactly_its_count_through(arm: &impl LimitArm) {
    begin(arm);
    let quota = quota(Limit::sliding_log(20, 60 * SECOND));
    let at = at(quota, "r25");
    let mut granted = 0;
    for _ in 0..100 {
        granted += check(arm, &at, quota, &[Ask::whole(1); 100]).await.granted();
        arm.advance(190_000 * MICRO);
    }
    assert_eq!(granted, 20, "{}", arm.name());
}

async fn r26_calls_of_one_microsecond_are_told_apart(arm: &impl LimitArm) {
    begin(arm);
    let quota = quota(Limit::sliding_log(20, 60 * SECOND));
    let at = at(quota, "r26");
    for _ in 0..3 {
        check(arm, &at, quota, &[Ask::whole(1), Ask::whole(3)]).await;
    }
    assert_eq!(kept(arm, &at, quota).await.stored, Stored::Log(vec![BEGIN; 12].into()), "{}", arm.name());
    // Given back and taken again: no number is used by two.
    refund(arm, &at, &[quota], 5).await.expect("an answer");
    check(arm, &at, quota, &[Ask::whole(4)]).await;
    assert_eq!(kept(arm, &at, quota).await.stored, Stored::Log(vec![BEGIN; 11].into()), "{}", arm.name());
}

async fn r28_a_refusal_leaves_every_byte(arm: &impl LimitArm) {
    for quota in of_all(3, 10 * SECOND) {
        begin(arm);
        let at = at(quota, "r28");
        check(arm, &at, quota, &[Ask::whole(1)]).await;
        arm.advance(9 * SECOND);
        check(arm, &at, quota, &[Ask::up_to(3)]).await;
        arm.advance(990 * MICRO);
        let before = kept(arm, &at, quota).await;
        for _ in 0..10 {
            arm.advance(MICRO);
            let refused = check(arm, &at, quota, &[Ask::whole(3); 100]).await;
            assert_eq!(refused.granted(), 0, "{}: {quota}", arm.name());
        }
        assert_eq!(kept(arm, &at, quota).await, before, "{}: {quota}", arm.name());
    }
}

async fn r34_a_log_whose_calls_have_all_left_lets_in(arm: &impl LimitArm) {
    begin(arm);
    let quota = quota(Limit::sliding_log(3, 10 * SECOND));
    let at = at(quota, "r34");
    assert_eq!(check(arm, &at, quota, &[Ask::whole(3)]).await.granted(), 3);
    arm.advance(10 * SECOND - MICRO);
    assert_eq!(take(arm, &at, quota).await, 0, "{}", arm.name());
    arm.advance(MICRO);
    assert_eq!(take(arm, &at, quota).await, 1, "{}", arm.name());
    assert_eq!(
        kept(arm, &at, quota).await.stored,
        Stored::Log([BEGIN + 10_000_000].into()),
        "{}",
        arm.name()
    );
}

async fn r35_exactly_the_count_passes(arm: &impl LimitArm) {
    begin(arm);
    for quota in of_all(3, 10 * SECOND) {
        let at = at(quota, "r35");
        let mut granted = Vec::new();
        for _ in 0..4 {
            granted.push(take(arm, &at, quota).await);
        }
        assert_eq!(granted, [1, 1, 1, 0], "{}: {quota}", arm.name());
    }
}

async fn r67_r68_large_round_numbers_are_kept_as_integers(arm: &impl LimitArm) {
    for cost in [1_000_000_000, 100_000_000_000, MAX_COUNT] {
        begin(arm);
        let [bucket, window, first, _, counter] = {
            let count = MAX_COUNT;
            let log = quota(Limit::sliding_log(1, SECOND));
            [
                quota(Limit::token_bucket(count).refill(1_000_000, SECOND)),
                quota(Limit::fixed_window(count, 10 * SECOND)),
                quota(Limit::fixed_window_from_first(count, 10 * SECOND)),
                log,
                quota(Limit::sliding_counter(count, 10 * SECOND)),
            ]
        };
        for (quota, text) in [
            (bucket, (BEGIN + cost).to_string()),
            (window, format!("{BEGIN}:{cost}")),
            (first, format!("{BEGIN}:{cost}")),
            (counter, format!("{BEGIN}:0:{cost}")),
        ] {
            let at = at(quota, &format!("r67:{cost}"));
            assert_eq!(check(arm, &at, quota, &[Ask::whole(cost)]).await.granted(), cost);
            let kept = kept(arm, &at, quota).await.stored.text();
            assert_eq!(kept, Some(text), "{}: {quota}", arm.name());
        }
    }
}

async fn r95_nothing_is_negative_around_the_end_of_a_window(arm: &impl LimitArm) {
    for quota in of_all(1, SECOND) {
        begin(arm);
        let at = at(quota, "r95");
        take(arm, &at, quota).await;
        let retry =
            peek(arm, &at, &[quota], Ask::whole(1)).await.expect("an answer").standings[0].retry_after;
        let retry = retry.expect("a wait");
        arm.advance(retry - MICRO);
        let last = peek(arm, &at, &[quota], Ask::whole(1)).await.expect("an answer");
        assert_eq!((last.outcome, last.standings[0].retry_after), (Outcome::Denied { by: 0 }, Some(MICRO)));
        arm.advance(MICRO);
        for _ in 0..3 {
            let then = peek(arm, &at, &[quota], Ask::whole(1)).await.expect("an answer");
            assert_eq!(then.standings[0].retry_after, Some(Duration::ZERO), "{}: {quota}", arm.name());
            arm.advance(999 * MICRO);
        }
    }
}

async fn r116_what_is_not_ours_is_left_alone(arm: &impl LimitArm) {
    begin(arm);
    let quotas = of_all(3, 10 * SECOND);
    let text = |text: &str| Plant::Text(text.as_bytes().to_vec(), Some(60_000));
    let plants =
        [Plant::List, Plant::Hash, Plant::Ranking, text(""), text("hello"), text("1:2:3:4"), text("1e15")];
    for (index, quota) in quotas.iter().enumerate() {
        // Another one first, so that a half-done decision would show.
        let other = quotas[(index + 1) % quotas.len()];
        let at = keys(&[&format!("r116:{index}:{other}"), &format!("r116:{index}:{quota}")]);
        let (pair, algorithms) = ([other, *quota], [other.algorithm(), quota.algorithm()]);
        for plant in &plants {
            arm.plant_limit(at.at(1), quota.algorithm(), plant);
            let before = arm.kept(&at, &algorithms).await;
            let errors = [
                try_check(arm, &at, &pair, &[Ask::whole(1)]).await.map(drop),
                peek(arm, &at, &pair, Ask::whole(1)).await.map(drop),
                refund(arm, &at, &pair, 1).await.map(drop),
                reset(arm, &at, &pair).await.map(drop),
            ];
            for error in errors.map(|answer| answer.expect_err("a wrong type")) {
                let named = error.key().map(ToString::to_string);
                let seen = (error.kind(), named);
                let expected = (ErrorKind::WrongType, Some(at.at(1).to_string()));
                assert_eq!(seen, expected, "{}: {plant:?} for {quota}", arm.name());
            }
            assert_eq!(arm.kept(&at, &algorithms).await, before, "{}: {plant:?} for {quota}", arm.name());
        }
    }
    // Under names with tags, one algorithm never meets the state of another.
    let tags: std::collections::HashSet<_> = quotas.iter().map(|quota| quota.tag()).collect();
    assert_eq!(tags.len(), quotas.len());
}

async fn r139_a_reset_takes_its_subject_literally(arm: &impl LimitArm) {
    begin(arm);
    for quota in of_all(1, 10 * SECOND) {
        let subjects =
            ["user*", "user1", "[a-z]", "a", "a\\*", "?", "x{y}", "x"].map(|subject| at(quota, subject));
        for at in &subjects {
            assert_eq!(take(arm, at, quota).await, 1);
        }
        for literal in [0, 2] {
            assert_eq!(reset(arm, &subjects[literal], &[quota]).await.expect("an answer"), 1);
        }
        let mut left = Vec::new();
        for at in &subjects {
            left.push(kept(arm, at, quota).await.stored != Stored::Empty);
        }
        let expected = [false, true, false, true, true, true, true, true];
        assert_eq!(left, expected, "{}: {quota}", arm.name());
        for at in &subjects {
            reset(arm, at, &[quota]).await.expect("an answer");
        }
    }
}

async fn several_limits_take_together_or_not_at_all(arm: &impl LimitArm) {
    begin(arm);
    let quotas: Vec<Quota> = of_all(10, 10 * SECOND).into_iter().chain(of_all(4, 60 * SECOND)).collect();
    let subjects: Vec<String> = quotas.iter().map(|quota| format!("several:{quota}")).collect();
    let at = keys(&subjects.iter().map(String::as_str).collect::<Vec<_>>());
    let algorithms: Vec<Algorithm> = quotas.iter().map(|quota| quota.algorithm()).collect();
    let taken = try_check(arm, &at, &quotas, &[Ask::whole(3)]).await.expect("an answer");
    assert_eq!(taken.granted(), 3);
    let before = arm.kept(&at, &algorithms).await;
    let refused = try_check(arm, &at, &quotas, &[Ask::whole(2)]).await.expect("an answer");
    // The bucket has its next token in 15 s; the windows end after 60 s; the counter frees its two after 90 s.
    assert_eq!(refused.checked[0].outcome, Outcome::Denied { by: 9 }, "{}", arm.name());
    assert_eq!(arm.kept(&at, &algorithms).await, before, "{}", arm.name());
    let part = try_check(arm, &at, &quotas, &[Ask::up_to(9)]).await.expect("an answer");
    assert_eq!(part.granted(), 1, "{}", arm.name());
    let never = try_check(arm, &at, &quotas, &[Ask::whole(5)]).await.expect("an answer");
    assert_eq!(never.checked[0].outcome, Outcome::Never { by: 5 }, "{}", arm.name());
}

async fn a_batch_is_one_by_one(arm: &impl LimitArm) {
    begin(arm);
    let asks = [
        Ask::whole(2),
        Ask::whole(2),
        Ask::whole(7),
        Ask::whole(2),
        Ask::up_to(9),
        Ask::whole(1),
        Ask::whole(11),
    ];
    for quota in of_all(10, 10 * SECOND) {
        let (batch, single) = (at(quota, "batch"), at(quota, "single"));
        let together = check(arm, &batch, quota, &asks).await.checked;
        let mut apart = Vec::new();
        for ask in asks {
            apart.extend(check(arm, &single, quota, &[ask]).await.checked);
        }
        let granted: Vec<u64> = together.iter().map(Checked::granted).collect();
        assert_eq!(granted, [2, 2, 0, 2, 4, 0, 0], "{}: {quota}", arm.name());
        assert_eq!(together, apart, "{}: {quota}", arm.name());
        assert_eq!(
            kept(arm, &batch, quota).await,
            kept(arm, &single, quota).await,
            "{}: {quota}",
            arm.name()
        );
    }
}

async fn a_part_is_charged_exactly(arm: &impl LimitArm) {
    begin(arm);
    let quota = quota(Limit::token_bucket(1_000_007).refill(1_000_007, 86_400 * SECOND));
    let at = at(quota, "part");
    let mut left = 1_000_007;
    for most in [1, 2, 3, 1_000, 65_535, 65_536, 500_000, u64::MAX, 1] {
        let reply = check(arm, &at, quota, &[Ask::up_to(most)]).await;
        assert_eq!(reply.granted(), most.min(left), "{}: up to {most}", arm.name());
        left -= reply.granted();
        assert_eq!(reply.checked[0].standings[0].remaining, left, "{}: up to {most}", arm.name());
    }
    assert_eq!(left, 0);
}

async fn a_log_says_when_the_next_call_leaves(arm: &impl LimitArm) {
    begin(arm);
    let quota = quota(Limit::sliding_log(3, 10 * SECOND));
    let at = at(quota, "leaves");
    for wait in [8, 1, 0] {
        assert_eq!(take(arm, &at, quota).await, 1);
        arm.advance(wait * SECOND);
    }
    arm.advance(SECOND + MICRO);
    // The first has left; three fit when the last one leaves.
    let (seen, expires_ms) =
        (peek(arm, &at, &[quota], Ask::whole(3)).await, kept(arm, &at, quota).await.expires_ms);
    let refused = check(arm, &at, quota, &[Ask::whole(3)]).await.checked.remove(0);
    assert_eq!(refused.standings[0].retry_after, Some(9 * SECOND - MICRO), "{}", arm.name());
    assert_eq!(seen.expect("an answer"), refused, "{}", arm.name());
    let stored = Stored::Log([BEGIN + 8_000_000, BEGIN + 9_000_000].into());
    assert_eq!(kept(arm, &at, quota).await, LimitCell { stored, expires_ms }, "{}", arm.name());
}

async fn a_log_never_goes_back_with_the_clock(arm: &impl LimitArm) {
    begin(arm);
    let quota = quota(Limit::sliding_log(3, 10 * SECOND));
    let at = at(quota, "back");
    take(arm, &at, quota).await;
    arm.set_clock(Timestamp::from_micros(BEGIN - 3_000_000));
    take(arm, &at, quota).await;
    assert_eq!(kept(arm, &at, quota).await.stored, Stored::Log([BEGIN, BEGIN].into()), "{}", arm.name());
}

async fn a_log_of_ten_thousand_is_filled_and_given_back(arm: &impl LimitArm) {
    begin(arm);
    let quota = quota(Limit::sliding_log(10_000, 10 * SECOND));
    let at = at(quota, "large");
    assert_eq!(check(arm, &at, quota, &[Ask::whole(9_999)]).await.granted(), 9_999, "{}", arm.name());
    arm.advance(SECOND);
    assert_eq!(check(arm, &at, quota, &[Ask::up_to(9_999)]).await.granted(), 1, "{}", arm.name());
    // All of it is brought near when the clock was set back by an hour.
    let back = arm.now().before(3_600 * SECOND);
    arm.set_clock(back);
    assert_eq!(check(arm, &at, quota, &[Ask::whole(1)]).await.repaired, 1, "{}", arm.name());
    let near = Stored::Log(vec![back.as_micros(); 10_000].into());
    assert_eq!(kept(arm, &at, quota).await.stored, near, "{}", arm.name());
    let standings = refund(arm, &at, &[quota], 9_990).await.expect("an answer").standings;
    assert_eq!(standings[0].remaining, 9_990, "{}", arm.name());
    arm.advance(10 * SECOND);
    assert_eq!(peek(arm, &at, &[quota], Ask::whole(10_000)).await.expect("an answer").granted(), 10_000);
}

/// R37: a hundred callers at once, from `stores`, on a limit of 50 let exactly 50 through.
pub async fn r37_a_hundred_at_once_are_fifty<S>(stores: &[S], window: Duration)
where
    S: Apply<Check> + Clone + 'static,
{
    for quota in of_all(50, window) {
        let at = at(quota, "r37");
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..100 {
            let (store, at) = (stores[caller % stores.len()].clone(), at.clone());
            let quotas: Arc<[Quota]> = [quota].into();
            let check = Check { quotas, asks: [Ask::whole(1)].into(), not_after: Timestamp::MAX };
            callers.spawn(async move {
                store.apply(&at, check, WITHIN).await.expect("an answer").reply.granted()
            });
        }
        let granted: u64 = callers.join_all().await.into_iter().sum();
        assert_eq!(granted, 50, "{quota}");
    }
}
