//! The contract of a store of idempotency, as functions that any arm can run. Each uses keys of its own.

mod damage;
mod life;
mod ownership;
mod race;
mod table;

pub use race::c1_c11_one_of_many_at_once_has_the_right_to_run;

use crate::arm::OnceArm;

/// Runs all of it that needs a clock that is stepped.
pub async fn all(arm: &impl OnceArm) {
    table::every_decision_in_every_phase(arm).await;
    ownership::all(arm).await;
    life::all(arm).await;
    damage::all(arm).await;
}
