//! Generated histories of permits, run on two arms that must answer the same.

use std::time::Duration;

use lockkeeper::core::lock::OwnerToken;
use lockkeeper::core::lock::permit::{
    AcquirePermit, InspectPermits, PermitLimit, ReleasePermit, RenewPermit,
};
use lockkeeper::core::{Apply, Keys, Timestamp};
use proptest::prelude::*;

use crate::arm::{PermitArm, PermitPlant, key};
use crate::differential::{lease, shown, token_of};

/// Few, so that they collide; with every shape of braces.
const NAMES: [&str; 3] = ["p", "{t}p", "p{"];
const TOKENS: u8 = 5;
const LIMIT: Duration = Duration::from_secs(5);

/// One step of a history. `name` is a number of a name; tokens are numbers.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of the decisions")]
pub enum Step {
    /// Takes a permit.
    Acquire { name: u8, token: u8, lease_ms: u64, limit: u32 },
    /// Lengthens.
    Renew { name: u8, token: u8, lease_ms: u64 },
    /// Gives back.
    Release { name: u8, token: u8 },
    /// Lets time pass.
    Advance { us: u64 },
    /// The server's clock is set back.
    StepBack { us: u64 },
    /// A foreign client acts.
    Plant { name: u8, plant: PermitPlant },
}

/// Histories of up to `most` steps.
pub fn histories(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(steps(), 1..most)
}

fn steps() -> impl Strategy<Value = Step> {
    let (name, token) = (|| 0..NAMES.len() as u8, || 0..TOKENS);
    let lease = || prop_oneof![2 => Just(10u64), 6 => 10u64..5000, 1 => Just(31_536_000_000)];
    let limit = prop_oneof![8 => 1u32..5, 1 => Just(10_000)];
    prop_oneof![
        8 => (name(), token(), lease(), limit)
            .prop_map(|(name, token, lease_ms, limit)| Step::Acquire { name, token, lease_ms, limit }),
        3 => (name(), token(), lease()).prop_map(|(name, token, lease_ms)| Step::Renew { name, token, lease_ms }),
        2 => (name(), token()).prop_map(|(name, token)| Step::Release { name, token }),
        4 => prop_oneof![0u64..3_000_000, 0u64..2000, Just(180_000_000_000)].prop_map(|us| Step::Advance { us }),
        1 => prop_oneof![1u64..2_000_000, Just(3_600_000_000)].prop_map(|us| Step::StepBack { us }),
        1 => (name(), plants()).prop_map(|(name, plant)| Step::Plant { name, plant }),
    ]
}

fn plants() -> impl Strategy<Value = PermitPlant> {
    let holder = (prop::collection::vec(any::<u8>(), 1..300), prop_oneof![1u64..5_000_000, Just(1 << 50)]);
    prop_oneof![
        1 => Just(PermitPlant::Text),
        1 => Just(PermitPlant::Gone),
        2 => Just(PermitPlant::Persist),
        2 => holder.prop_map(|(mut token, left_us)| {
            token.truncate(256);
            PermitPlant::Holder(token, left_us)
        }),
    ]
}

/// Runs a history on both arms, comparing every answer and, after every step, who holds what.
///
/// # Errors
/// The first step that was answered differently.
pub async fn compare(left: &impl PermitArm, right: &impl PermitArm, history: &[Step]) -> Result<(), String> {
    for (at, step) in history.iter().enumerate() {
        let (one, other) = (run(left, step).await, run(right, step).await);
        if one != other {
            return Err(format!("step {at}, {step:?}:\n {}: {one}\n {}: {other}", left.name(), right.name()));
        }
        let (one, other) = (look(left).await, look(right).await);
        if one != other {
            let (left, right) = (left.name(), right.name());
            return Err(format!("after step {at}, {step:?}:\n {left}: {one}\n {right}: {other}"));
        }
    }
    Ok(())
}

/// Removes what a history left, so that the next one starts from nothing.
pub fn clean(arm: &impl PermitArm) {
    NAMES.iter().for_each(|name| arm.plant_permits(&key(name), &PermitPlant::Gone));
}

async fn look(arm: &impl PermitArm) -> String {
    let mut seen = String::new();
    for name in 0..NAMES.len() as u8 {
        seen += &shown(arm.permits().apply(&at(name), InspectPermits, LIMIT).await);
    }
    seen
}

async fn run(arm: &impl PermitArm, step: &Step) -> String {
    let (store, not_after) = (arm.permits(), Timestamp::MAX);
    match step {
        Step::Acquire { name, token, lease_ms, limit } => {
            let limit = PermitLimit::new(*limit).expect("a limit");
            let decision =
                AcquirePermit { token: token_of(*token), lease: lease(*lease_ms), limit, not_after };
            shown(store.apply(&at(*name), decision, LIMIT).await)
        }
        Step::Renew { name, token, lease_ms } => {
            let decision = RenewPermit { token: token_of(*token), lease: lease(*lease_ms), not_after };
            shown(store.apply(&at(*name), decision, LIMIT).await)
        }
        Step::Release { name, token } => {
            shown(store.apply(&at(*name), ReleasePermit { token: token_of(*token) }, LIMIT).await)
        }
        Step::Advance { us } => {
            arm.advance(Duration::from_micros(*us));
            String::new()
        }
        Step::StepBack { us } => {
            // What has ended is removed first: a store may do so at any moment, or leave it to the next decision.
            let stranger = ReleasePermit { token: OwnerToken::given("stranger").expect("a token") };
            for name in 0..NAMES.len() as u8 {
                let _ = store.apply(&at(name), stranger.clone(), LIMIT).await;
            }
            arm.step_back(Duration::from_micros(*us));
            String::new()
        }
        Step::Plant { name, plant } => {
            arm.plant_permits(&key(NAMES[usize::from(*name)]), plant);
            String::new()
        }
    }
}

fn at(name: u8) -> Keys {
    Keys::from(key(NAMES[usize::from(name)]))
}
