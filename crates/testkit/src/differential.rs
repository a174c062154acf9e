//! Generated histories, run on two arms that must answer the same.

use std::time::Duration;

use lockkeeper::core::lock::{
    Acquire, FenceRequest, ForceRelease, Inspect, KeeperName, Lease, Leave, OwnerToken, RaiseFence, Release,
    Renew, Swap, Waiter, Watch,
};
use lockkeeper::core::{Answer, Error, Keys, Timestamp};
use proptest::prelude::*;

use crate::arm::{Arm, Plant, key};

/// The names that histories are about: few, so that they collide; with every shape of braces.
const NAMES: [&str; 4] = ["a", "{t}b", "c{", "{}d"];
const TOKENS: u8 = 3;
const LIMIT: Duration = Duration::from_secs(5);

/// One step of a history. `keys` is a mask over the names; tokens are numbers.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of the decisions")]
pub enum Step {
    /// Takes keys.
    Acquire { keys: u8, token: u8, lease_ms: u64, seen_ahead_us: i64, block: u32 },
    /// Takes keys, or notes who waits.
    Watch { keys: u8, token: u8, lease_ms: u64, block: u32, keeper: u8, count: u32 },
    /// Waits no more.
    Leave { keys: u8, keeper: u8 },
    /// Lengthens.
    Renew { keys: u8, token: u8, lease_ms: u64 },
    /// Gives back.
    Release { keys: u8, token: u8 },
    /// Hands over.
    Swap { keys: u8, from: u8, to: u8, lease_ms: u64, block: u32 },
    /// Removes by force.
    Force { key: u8, token: u8 },
    /// Lifts a fence.
    Raise { keys: u8, token: u8, ahead_us: i64 },
    /// Lets time pass.
    Advance { us: u64 },
    /// A foreign client acts.
    Plant { key: u8, plant: Plant },
}

/// Histories of up to `most` steps.
pub fn histories(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(steps(), 1..most)
}

fn steps() -> impl Strategy<Value = Step> {
    let keys = || prop_oneof![4 => prop::sample::select(vec![1u8, 2, 4, 8]), 1 => 1u8..16];
    let token = || 0..TOKENS;
    let lease = || prop_oneof![Just(10u64), 10u64..5000, Just(31_536_000_000)];
    let block = || prop_oneof![3 => Just(1u32), 1 => 1u32..4096];
    prop_oneof![
        6 => (keys(), token(), lease(), -200_000_000i64..200_000_000, block())
            .prop_map(|(keys, token, lease_ms, seen_ahead_us, block)| Step::Acquire { keys, token, lease_ms, seen_ahead_us, block }),
        5 => (keys(), token(), lease(), block(), 0..3u8, 0..3u32)
            .prop_map(|(keys, token, lease_ms, block, keeper, count)| Step::Watch { keys, token, lease_ms, block, keeper, count }),
        1 => (keys(), 0..3u8).prop_map(|(keys, keeper)| Step::Leave { keys, keeper }),
        3 => (keys(), token(), lease()).prop_map(|(keys, token, lease_ms)| Step::Renew { keys, token, lease_ms }),
        3 => (keys(), token()).prop_map(|(keys, token)| Step::Release { keys, token }),
        2 => (keys(), token(), token(), lease(), block())
            .prop_map(|(keys, from, to, lease_ms, block)| Step::Swap { keys, from, to, lease_ms, block }),
        1 => (0..4u8, token()).prop_map(|(key, token)| Step::Force { key, token }),
        2 => (keys(), token(), -200_000_000i64..200_000_000)
            .prop_map(|(keys, token, ahead_us)| Step::Raise { keys, token, ahead_us }),
        4 => prop_oneof![0u64..3_000_000, Just(1000), Just(2_500_000), Just(180_000_000_000)].prop_map(|us| Step::Advance { us }),
        1 => (0..4u8, plants()).prop_map(|(key, plant)| Step::Plant { key, plant }),
    ]
}

fn plants() -> impl Strategy<Value = Plant> {
    let text = prop::collection::vec(any::<u8>(), 1..40);
    prop_oneof![
        Just(Plant::MainList),
        (text, prop::option::of(1u64..5000)).prop_map(|(text, ttl)| Plant::MainText(text, ttl)),
        Just(Plant::MainGone),
        Just(Plant::FenceList),
        prop_oneof![
            Just("0"),
            Just("17"),
            Just("-3"),
            Just("9007199254700000"),
            Just("9007199254700001"),
            Just("1e9")
        ]
        .prop_map(|text| Plant::FenceText(text.as_bytes().to_vec())),
        Just(Plant::FenceGone),
    ]
}

/// Runs a history on both arms, comparing every answer and, after every step, every key.
///
/// Answers carry the server's time, so a difference of a microsecond is a failure.
///
/// # Errors
/// The first step that was answered differently.
pub async fn compare(left: &dyn Arm, right: &dyn Arm, history: &[Step]) -> Result<(), String> {
    for (at, step) in history.iter().enumerate() {
        let (one, other) = (run(left, step).await, run(right, step).await);
        if one != other {
            return Err(format!("step {at}, {step:?}:\n {}: {one}\n {}: {other}", left.name(), right.name()));
        }
        let (one, other) = (look(left).await, look(right).await);
        if one != other {
            return Err(format!(
                "after step {at}, {step:?}:\n {}: {one}\n {}: {other}",
                left.name(),
                right.name()
            ));
        }
    }
    Ok(())
}

/// Removes what a history left, so that the next one starts from nothing.
pub fn clean(arm: &dyn Arm) {
    for name in NAMES {
        arm.plant(&key(name), &Plant::MainGone);
        arm.plant(&key(name), &Plant::FenceGone);
    }
}

async fn look(arm: &dyn Arm) -> String {
    shown(arm.store().inspect(&selected(15), Inspect, LIMIT).await)
}

async fn run(arm: &dyn Arm, step: &Step) -> String {
    let (store, not_after) = (arm.store(), Timestamp::MAX);
    match step {
        Step::Acquire { keys, token, lease_ms, seen_ahead_us, block } => {
            let now =
                store.inspect(&selected(1), Inspect, LIMIT).await.map_or(0, |answer| answer.at.as_micros());
            let fences = FenceRequest { seen: now.saturating_add_signed(*seen_ahead_us), block: *block };
            shown(
                store
                    .acquire(
                        &selected(*keys),
                        Acquire { token: token_of(*token), lease: lease(*lease_ms), fences, not_after },
                        LIMIT,
                    )
                    .await,
            )
        }
        Step::Watch { keys, token, lease_ms, block, keeper, count } => {
            let fences = FenceRequest { seen: 0, block: *block };
            let acquire = Acquire { token: token_of(*token), lease: lease(*lease_ms), fences, not_after };
            let waiter = Waiter { keeper: keeper_of(*keeper), count: *count };
            shown(store.watch(&selected(*keys), Watch { acquire, waiter }, LIMIT).await)
        }
        Step::Leave { keys, keeper } => {
            shown(store.leave(&selected(*keys), Leave { keeper: keeper_of(*keeper) }, LIMIT).await)
        }
        Step::Renew { keys, token, lease_ms } => shown(
            store
                .renew(
                    &selected(*keys),
                    Renew { token: token_of(*token), lease: lease(*lease_ms), not_after },
                    LIMIT,
                )
                .await,
        ),
        Step::Release { keys, token } => {
            shown(store.release(&selected(*keys), Release { token: token_of(*token) }, LIMIT).await)
        }
        Step::Swap { keys, from, to, lease_ms, block } => {
            let fences = FenceRequest { seen: 0, block: *block };
            let swap =
                Swap { from: token_of(*from), to: token_of(*to), lease: lease(*lease_ms), fences, not_after };
            shown(store.swap(&selected(*keys), swap, LIMIT).await)
        }
        Step::Force { key, token } => {
            let shown_holder = token_of(*token).holder();
            shown(
                store
                    .force_release(
                        &selected(1 << key),
                        ForceRelease { shown: shown_holder, seen: 0, not_after },
                        LIMIT,
                    )
                    .await,
            )
        }
        Step::Raise { keys, token, ahead_us } => {
            let now =
                store.inspect(&selected(1), Inspect, LIMIT).await.map_or(0, |answer| answer.at.as_micros());
            let to = now.saturating_add_signed(*ahead_us);
            let raise = RaiseFence { token: token_of(*token), to, not_after };
            shown(arm.fences().raise_fence(&selected(*keys), raise, LIMIT).await)
        }
        Step::Advance { us } => {
            arm.advance(Duration::from_micros(*us));
            String::new()
        }
        Step::Plant { key: index, plant } => {
            arm.plant(&key(NAMES[usize::from(*index)]), plant);
            String::new()
        }
    }
}

fn selected(mask: u8) -> Keys {
    let names = NAMES.iter().enumerate().filter(|(at, _)| mask & (1 << at) != 0);
    Keys::new(names.map(|(_, name)| key(name))).expect("at least one key")
}

fn keeper_of(number: u8) -> KeeperName {
    KeeperName::new([b'k', number, 0xfe])
}

pub(crate) fn token_of(number: u8) -> OwnerToken {
    OwnerToken::given([b't', number, 0xff]).expect("a token")
}

pub(crate) fn lease(ms: u64) -> Lease {
    Lease::new(Duration::from_millis(ms)).expect("a lease")
}

/// An answer with its time, or the error, for comparing.
pub(crate) fn shown<R: std::fmt::Debug>(result: Result<Answer<R>, Error>) -> String {
    match result {
        Ok(answer) => format!("{:?} at {:?}", answer.reply, answer.at),
        Err(error) => error.to_string(),
    }
}
