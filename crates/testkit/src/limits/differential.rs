//! Generated histories of limits, run on two arms that must answer and keep the same.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::core::limit::{Ask, Asks, Check, Limit, MAX_COUNT, MAX_WINDOW, Peek, Quota, Refund, Reset};
use lockkeeper::core::{Answer, Apply, Error, Keys, Timestamp};
use proptest::prelude::*;

use super::arm::{LimitArm, keys, quota};
use super::plant::Plant;

/// One subject for each algorithm, so that one check can be held to any of them together.
const SUBJECTS: [&str; 5] = ["t1:a", "w1:a", "f1:a", "l1:a", "c1:a"];
/// Where each history begins: 2026-01-01.
const BEGIN: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const WITHIN: Duration = Duration::from_secs(5);
/// How many quotas each subject has to choose from.
const CHOICES: usize = 10;

/// One step of a history. Subjects are a mask, and for each subject one of its quotas is chosen.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of the decisions")]
pub enum Step {
    /// Takes.
    Check { at: u8, of: [usize; 5], asks: Vec<Ask> },
    /// Looks.
    Peek { at: u8, of: [usize; 5], ask: Ask },
    /// Gives back.
    Refund { at: u8, of: [usize; 5], cost: u64 },
    /// Forgets.
    Reset { at: u8, of: [usize; 5] },
    /// Lets time pass.
    Advance { us: u64 },
    /// Sets the server's clock forward or back.
    Step { us: i64 },
    /// A foreign client acts.
    Plant { subject: usize, plant: Plant },
}

/// The quotas of a subject. The first ones are everyday ones, in which histories meet the edges more often.
fn quotas(subject: usize) -> [Quota; CHOICES] {
    let (us, s, hour) = (Duration::from_micros(1), Duration::from_secs(1), Duration::from_secs(3600));
    let (day, year) = (24 * hour, Duration::from_secs(31_557_600));
    let bucket = |capacity, refill, period| quota(Limit::token_bucket(capacity).refill(refill, period));
    if subject == 0 {
        return [
            bucket(3, 3, 10 * s),
            bucket(7, 7, 10 * s),
            bucket(10, 3, hour),
            bucket(1_000_007, 1_000_007, day),
            bucket(100, 3_000_000, s),
            bucket(10, 700_000, s),
            bucket(1, 1, 70 * year),
            bucket(5, 1, us),
            bucket(MAX_COUNT, 1, 3 * s / 1000),
            bucket(MAX_COUNT, MAX_COUNT, MAX_WINDOW),
        ];
    }
    let most = if subject == 3 { 300 } else { MAX_COUNT };
    let windows = [
        (3, 10 * s),
        (7, 10 * s),
        (5, s),
        (10, hour),
        (2, 999 * us),
        (1, us),
        (4, us),
        (5, MAX_WINDOW),
        (most, MAX_WINDOW),
        (most, hour),
    ];
    windows.map(|(count, window)| {
        quota(match subject {
            1 => Limit::fixed_window(count, window),
            2 => Limit::fixed_window_from_first(count, window),
            3 => Limit::sliding_log(count, window),
            _ => Limit::sliding_counter(count, window),
        })
    })
}

/// Histories of up to `most` steps.
pub fn histories(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(steps(), 1..most)
}

fn steps() -> impl Strategy<Value = Step> {
    let at = || prop_oneof![5 => prop::sample::select(vec![1u8, 2, 4, 8, 16]), 2 => 1u8..32];
    // Mostly one of the everyday quotas, so that a state lives through several steps.
    let of = || prop::array::uniform5(prop_oneof![6 => Just(0usize), 2 => 0..4usize, 1 => 0..CHOICES]);
    let cost = || prop_oneof![5 => Just(1u64), 4 => 1..12u64, 1 => 1..400u64, 1 => large()];
    let ask = move || (cost(), prop::bool::weighted(0.25)).prop_map(|(cost, partial)| Ask { cost, partial });
    prop_oneof![
        12 => (at(), of(), asks(ask())).prop_map(|(at, of, asks)| Step::Check { at, of, asks }),
        2 => (at(), of(), ask()).prop_map(|(at, of, ask)| Step::Peek { at, of, ask }),
        2 => (at(), of(), cost()).prop_map(|(at, of, cost)| Step::Refund { at, of, cost }),
        1 => (at(), of()).prop_map(|(at, of)| Step::Reset { at, of }),
        5 => advances().prop_map(|us| Step::Advance { us }),
        2 => clock_steps().prop_map(|us| Step::Step { us }),
        2 => (0..5usize, plants()).prop_map(|(subject, plant)| Step::Plant { subject, plant }),
    ]
}

fn large() -> impl Strategy<Value = u64> {
    let large = vec![500_003, MAX_COUNT / 2, MAX_COUNT - 1, MAX_COUNT, MAX_COUNT + 1, u64::MAX];
    prop::sample::select(large)
}

/// One call, or several with some alike in a row.
fn asks(ask: impl Strategy<Value = Ask>) -> impl Strategy<Value = Vec<Ask>> {
    let runs = prop::collection::vec((ask, prop_oneof![2 => Just(1usize), 1 => 1..9usize]), 1..4);
    runs.prop_map(|runs| runs.into_iter().flat_map(|(ask, many)| vec![ask; many]).collect())
}

fn advances() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..3,
        0u64..3_000,
        0u64..3_000_000,
        0u64..20_000_000,
        Just(1_000),
        Just(3_333_333),
        Just(10_000_000),
        Just(3_600_000_000),
        Just(86_400_000_000),
        Just(31_557_600_000_000),
    ]
}

fn clock_steps() -> impl Strategy<Value = i64> {
    const HOUR: i64 = 3_600_000_000;
    prop_oneof![Just(HOUR), Just(-HOUR), -HOUR..HOUR, -25_000_000i64..25_000_000, -2_000i64..2_000]
}

fn plants() -> impl Strategy<Value = Plant> {
    let ttl = || prop::option::of(prop_oneof![0u64..3, 1u64..20_000]);
    // Near the times of histories, and anywhere.
    let near = || (-30_000_000i64..30_000_000).prop_map(|us| BEGIN.as_micros().saturating_add_signed(us));
    let number = move || prop_oneof![6 => 0u64..12, 4 => near(), 1 => 0u64..1 << 53, 1 => (1u64 << 53) - 2..(1 << 53) + 3, 1 => large()];
    let state = prop::collection::vec(number(), 1..4)
        .prop_map(|numbers| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(":").into_bytes());
    let begun = (near(), number(), 0u64..12, 1usize..4).prop_map(|(start, one, two, many)| {
        let parts = [start.to_string(), one.to_string(), two.to_string()];
        parts[..many].join(":").into_bytes()
    });
    let odd = prop::sample::select(vec![
        "",
        ":",
        "1e15",
        "-5",
        "5:",
        "0000000000000000005:1",
        "1.5:2",
        " 1:2",
        "1:2\n",
    ])
    .prop_map(|text| text.as_bytes().to_vec());
    let garbage = prop::collection::vec(any::<u8>(), 0..40);
    let text = prop_oneof![2 => state, 3 => begun, 1 => odd, 1 => garbage];
    let time = prop_oneof![6 => near(), 1 => 0u64..(1 << 53) - 1];
    prop_oneof![
        6 => (text, ttl()).prop_map(|(text, ttl)| Plant::Text(text, ttl.filter(|ttl| *ttl > 0))),
        1 => Just(Plant::List),
        1 => Just(Plant::Hash),
        1 => Just(Plant::Ranking),
        3 => prop::collection::vec(time, 1..6).prop_map(Plant::Log),
        3 => Just(Plant::Persist),
        1 => Just(Plant::Gone),
    ]
}

/// Runs a history on both arms, comparing every answer and, after every step, every key and its expiry.
///
/// # Errors
/// The first step that was answered differently, or after which the keys differ.
pub async fn compare(left: &impl LimitArm, right: &impl LimitArm, history: &[Step]) -> Result<(), String> {
    clean(left);
    clean(right);
    for (at, step) in history.iter().enumerate() {
        let (one, other) = (run(left, step).await, run(right, step).await);
        let (kept, others) = (look(left).await, look(right).await);
        for (one, other) in [(one, other), (kept, others)] {
            if one != other {
                let (left, right) = (left.name(), right.name());
                return Err(format!("step {at}, {step:?}:\n {left}: {one}\n {right}: {other}"));
            }
        }
    }
    Ok(())
}

/// Removes what a history left, and begins at the same time again.
fn clean(arm: &impl LimitArm) {
    arm.set_clock(BEGIN);
    for (subject, key) in keys(&SUBJECTS).as_slice().iter().enumerate() {
        arm.plant_limit(key, quotas(subject)[0].algorithm(), &Plant::Gone);
    }
}

async fn look(arm: &impl LimitArm) -> String {
    let algorithms: Vec<_> = (0..SUBJECTS.len()).map(|subject| quotas(subject)[0].algorithm()).collect();
    format!("{:?}", arm.kept(&keys(&SUBJECTS), &algorithms).await)
}

async fn run(arm: &impl LimitArm, step: &Step) -> String {
    let not_after = Timestamp::MAX;
    match step {
        Step::Check { at, of, asks } => {
            let (at, quotas) = chosen(*at, of);
            ask(arm, &at, Check { quotas, asks: Asks::from_slice(asks), not_after }).await
        }
        Step::Peek { at, of, ask: wanted } => {
            let (at, quotas) = chosen(*at, of);
            ask(arm, &at, Peek { quotas, ask: *wanted }).await
        }
        Step::Refund { at, of, cost } => {
            let (at, quotas) = chosen(*at, of);
            ask(arm, &at, Refund { quotas, cost: *cost, not_after }).await
        }
        Step::Reset { at, of } => {
            let (at, quotas) = chosen(*at, of);
            ask(arm, &at, Reset { quotas }).await
        }
        Step::Advance { us } => {
            arm.advance(Duration::from_micros(*us));
            String::new()
        }
        Step::Step { us } => {
            arm.set_clock(Timestamp::from_micros(arm.now().as_micros().saturating_add_signed(*us)));
            String::new()
        }
        Step::Plant { subject, plant } => {
            let at = keys(&SUBJECTS);
            arm.plant_limit(at.at(*subject), quotas(*subject)[0].algorithm(), plant);
            String::new()
        }
    }
}

fn chosen(mask: u8, of: &[usize; 5]) -> (Keys, Arc<[Quota]>) {
    let subjects: Vec<usize> = (0..SUBJECTS.len()).filter(|subject| mask & (1 << subject) != 0).collect();
    let names: Vec<&str> = subjects.iter().map(|subject| SUBJECTS[*subject]).collect();
    (keys(&names), subjects.iter().map(|subject| quotas(*subject)[of[*subject]]).collect())
}

async fn ask<A: LimitArm, D>(arm: &A, at: &Keys, decision: D) -> String
where
    D: lockkeeper::core::Decision<Reply: std::fmt::Debug>,
    A::Store: Apply<D>,
{
    let answer: Result<Answer<D::Reply>, Error> = arm.limits().apply(at, decision, WITHIN).await;
    match answer {
        Ok(answer) => format!("{:?} at {:?}", answer.reply, answer.at),
        Err(error) => error.to_string(),
    }
}
