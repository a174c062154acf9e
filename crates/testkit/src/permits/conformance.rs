//! The contract of a store of permits, as functions that any arm can run. Each uses keys of its own.

use std::time::Duration;

use lockkeeper::core::lock::permit::{
    AcquirePermit, AcquirePermitReply, InspectPermits, MAX_PERMIT_AHEAD, PermitHolder, PermitLimit,
    ReleasePermit, ReleasePermitReply, RenewPermit, RenewPermitReply,
};
use lockkeeper::core::lock::{Lease, OwnerToken};
use lockkeeper::core::{Apply, ErrorKind, Keys, Timestamp};

use crate::arm::{PermitArm, PermitPlant, key};

const LIMIT: Duration = Duration::from_secs(5);

/// Runs all of it.
pub async fn all(arm: &impl PermitArm) {
    r35_as_many_as_the_limit_hold_and_each_ends_with_its_lease(arm).await;
    r28_a_refusal_changes_nothing(arm).await;
    repeating_takes_no_second_permit_and_never_shortens(arm).await;
    a_lower_limit_evicts_nobody(arm).await;
    a_renewal_takes_nothing_and_never_shortens(arm).await;
    release_gives_back_its_own_alone(arm).await;
    r14_r16_the_key_lives_as_long_as_the_last_lease(arm).await;
    r2_a_key_without_expiry_is_repaired(arm).await;
    what_is_not_a_set_of_permits_is_left_alone(arm).await;
    a_clock_that_is_set_back_lets_nobody_in_early(arm).await;
    an_end_that_nobody_can_have_asked_for_is_removed(arm).await;
}

fn token(name: &str) -> OwnerToken {
    OwnerToken::given(name).expect("a token")
}

fn lease(ms: u64) -> Lease {
    Lease::new(Duration::from_millis(ms)).expect("a lease")
}

fn keys(name: &str) -> Keys {
    Keys::from(key(name))
}

async fn acquire(arm: &impl PermitArm, at: &Keys, who: &str, limit: u32, ms: u64) -> AcquirePermitReply {
    let limit = PermitLimit::new(limit).expect("a limit");
    let decision = AcquirePermit { token: token(who), lease: lease(ms), limit, not_after: Timestamp::MAX };
    arm.permits().apply(at, decision, LIMIT).await.expect("an answer").reply
}

async fn renew(arm: &impl PermitArm, at: &Keys, who: &str, ms: u64) -> RenewPermitReply {
    let decision = RenewPermit { token: token(who), lease: lease(ms), not_after: Timestamp::MAX };
    arm.permits().apply(at, decision, LIMIT).await.expect("an answer").reply
}

async fn release(arm: &impl PermitArm, at: &Keys, who: &str) -> ReleasePermitReply {
    arm.permits().apply(at, ReleasePermit { token: token(who) }, LIMIT).await.expect("an answer").reply
}

async fn inspect(arm: &impl PermitArm, at: &Keys) -> Vec<PermitHolder> {
    arm.permits().apply(at, InspectPermits, LIMIT).await.expect("an answer").reply
}

fn granted(held: u32) -> AcquirePermitReply {
    AcquirePermitReply::Granted { held }
}

fn full(held: u32, first_end_us: u64) -> AcquirePermitReply {
    AcquirePermitReply::Full { held, first_end: Duration::from_micros(first_end_us) }
}

fn left(who: &str, us: u64) -> PermitHolder {
    PermitHolder { holder: token(who).holder(), remaining: Duration::from_micros(us) }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// To the microsecond: held until the last one of the lease, free after it.
pub async fn r35_as_many_as_the_limit_hold_and_each_ends_with_its_lease(arm: &impl PermitArm) {
    let (name, at) = (arm.name(), keys("permit:limit"));
    assert_eq!(acquire(arm, &at, "a", 2, 1000).await, granted(1), "{name}");
    arm.advance(ms(400));
    assert_eq!(acquire(arm, &at, "b", 2, 1000).await, granted(2), "{name}");
    assert_eq!(acquire(arm, &at, "c", 2, 1000).await, full(2, 600_000), "{name}");
    arm.advance(Duration::from_micros(599_999));
    assert_eq!(acquire(arm, &at, "c", 2, 1000).await, full(2, 1), "{name}: in its last microsecond");
    arm.advance(Duration::from_micros(1));
    assert_eq!(inspect(arm, &at).await, [left("b", 400_000)], "{name}: a dead holder's permit is back");
    assert_eq!(acquire(arm, &at, "c", 2, 1000).await, granted(2), "{name}");
    assert_eq!(inspect(arm, &at).await, [left("b", 400_000), left("c", 1_000_000)], "{name}");
}

/// Refused calls leave holders, ends and expiry as they were.
pub async fn r28_a_refusal_changes_nothing(arm: &impl PermitArm) {
    let (name, at) = (arm.name(), keys("permit:refusal"));
    acquire(arm, &at, "a", 1, 1000).await;
    let before = (inspect(arm, &at).await, arm.kept_for_ms(&key("permit:refusal")));
    for number in 0..50 {
        let reply = acquire(arm, &at, &format!("x{number}"), 1, 5000).await;
        assert_eq!(reply, full(1, 1_000_000), "{name}");
    }
    assert_eq!((inspect(arm, &at).await, arm.kept_for_ms(&key("permit:refusal"))), before, "{name}");
}

/// The same token again: full lease, one permit; a shorter lease does not shorten.
pub async fn repeating_takes_no_second_permit_and_never_shortens(arm: &impl PermitArm) {
    let (name, at) = (arm.name(), keys("permit:repeat"));
    acquire(arm, &at, "a", 1, 10_000).await;
    arm.advance(ms(4000));
    assert_eq!(acquire(arm, &at, "a", 1, 10_000).await, granted(1), "{name}");
    assert_eq!(inspect(arm, &at).await, [left("a", 10_000_000)], "{name}");
    assert_eq!(acquire(arm, &at, "a", 1, 1000).await, granted(1), "{name}");
    assert_eq!(inspect(arm, &at).await, [left("a", 10_000_000)], "{name}");
}

/// New ones wait until fewer are held than the new limit says.
pub async fn a_lower_limit_evicts_nobody(arm: &impl PermitArm) {
    let (name, at) = (arm.name(), keys("permit:lower"));
    for (who, length) in [("a", 3000), ("b", 2000), ("c", 1000)] {
        acquire(arm, &at, who, 3, length).await;
    }
    assert_eq!(acquire(arm, &at, "d", 2, 1000).await, full(3, 1_000_000), "{name}");
    release(arm, &at, "c").await;
    assert_eq!(acquire(arm, &at, "d", 2, 1000).await, full(2, 2_000_000), "{name}");
    release(arm, &at, "b").await;
    assert_eq!(acquire(arm, &at, "d", 2, 1000).await, granted(2), "{name}");
    assert_eq!(acquire(arm, &at, "e", 3, 1000).await, granted(3), "{name}: raised again");
}

/// Absent or expired: expired, and nothing is created.
pub async fn a_renewal_takes_nothing_and_never_shortens(arm: &impl PermitArm) {
    let (name, at) = (arm.name(), keys("permit:renew"));
    assert_eq!(renew(arm, &at, "a", 1000).await, RenewPermitReply::Expired, "{name}");
    assert_eq!(arm.kept_for_ms(&key("permit:renew")), None, "{name}: it made a key");
    acquire(arm, &at, "a", 2, 10_000).await;
    acquire(arm, &at, "b", 2, 1000).await;
    assert_eq!(renew(arm, &at, "a", 1000).await, RenewPermitReply::Renewed, "{name}");
    assert_eq!(inspect(arm, &at).await, [left("b", 1_000_000), left("a", 10_000_000)], "{name}");
    arm.advance(ms(500));
    assert_eq!(renew(arm, &at, "b", 1000).await, RenewPermitReply::Renewed, "{name}");
    assert_eq!(inspect(arm, &at).await[0], left("b", 1_000_000), "{name}");
    arm.advance(ms(1000));
    assert_eq!(renew(arm, &at, "b", 1000).await, RenewPermitReply::Expired, "{name}");
    assert_eq!(inspect(arm, &at).await, [left("a", 8_500_000)], "{name}");
}

/// Absent, expired, released before: expired. Nobody else's is touched.
pub async fn release_gives_back_its_own_alone(arm: &impl PermitArm) {
    let (name, at) = (arm.name(), keys("permit:release"));
    assert_eq!(release(arm, &at, "a").await, ReleasePermitReply::Expired, "{name}");
    acquire(arm, &at, "a", 2, 1000).await;
    acquire(arm, &at, "b", 2, 1000).await;
    assert_eq!(release(arm, &at, "a").await, ReleasePermitReply::Released, "{name}");
    assert_eq!(release(arm, &at, "a").await, ReleasePermitReply::Expired, "{name}");
    assert_eq!(inspect(arm, &at).await, [left("b", 1_000_000)], "{name}");
    arm.advance(ms(1000));
    assert_eq!(release(arm, &at, "b").await, ReleasePermitReply::Expired, "{name}");
    assert_eq!(arm.kept_for_ms(&key("permit:release")), None, "{name}: an empty key stays");
}

/// Rounded up to a millisecond, after every decision; also for the shortest lease.
pub async fn r14_r16_the_key_lives_as_long_as_the_last_lease(arm: &impl PermitArm) {
    let (name, at, kept) = (arm.name(), keys("permit:ttl"), || arm.kept_for_ms(&key("permit:ttl")));
    // All others advance by whole milliseconds: from here on, every lease ends between two of them.
    arm.advance(Duration::from_micros(1));
    acquire(arm, &at, "a", 3, 10).await;
    assert_eq!(kept(), Some(11), "{name}");
    acquire(arm, &at, "b", 3, 5000).await;
    acquire(arm, &at, "c", 3, 2000).await;
    assert_eq!(kept(), Some(5001), "{name}");
    release(arm, &at, "b").await;
    assert_eq!(kept(), Some(2001), "{name}: the key outlives its last lease");
    renew(arm, &at, "a", 9000).await;
    assert_eq!(kept(), Some(9001), "{name}");
    arm.advance(Duration::from_micros(999));
}

/// By any decision that touches it, a refusal included.
pub async fn r2_a_key_without_expiry_is_repaired(arm: &impl PermitArm) {
    let (name, at, main) = (arm.name(), keys("permit:repair"), key("permit:repair"));
    acquire(arm, &at, "a", 1, 5000).await;
    for decision in ["refusal", "repeat", "renewal", "release"] {
        arm.plant_permits(&main, &PermitPlant::Persist);
        match decision {
            "refusal" => drop(acquire(arm, &at, "b", 1, 1000).await),
            "repeat" => drop(acquire(arm, &at, "a", 1, 1000).await),
            "renewal" => drop(renew(arm, &at, "a", 1000).await),
            _ => drop(release(arm, &at, "b").await),
        }
        let kept = arm.kept_for_ms(&main).expect("a key");
        assert!((5000..=5001).contains(&kept), "{name}: {decision}: {kept}");
    }
}

/// Refused by every decision, and not changed.
pub async fn what_is_not_a_set_of_permits_is_left_alone(arm: &impl PermitArm) {
    let (name, at, store) = (arm.name(), keys("permit:text"), arm.permits());
    arm.plant_permits(&key("permit:text"), &PermitPlant::Text);
    let (limit, not_after) = (PermitLimit::new(1).expect("a limit"), Timestamp::MAX);
    let (token, lease) = (token("a"), lease(1000));
    for _ in 0..2 {
        let acquire = AcquirePermit { token: token.clone(), lease, limit, not_after };
        let renew = RenewPermit { token: token.clone(), lease, not_after };
        let errors = [
            store.apply(&at, acquire, LIMIT).await.err(),
            store.apply(&at, renew, LIMIT).await.err(),
            store.apply(&at, ReleasePermit { token: token.clone() }, LIMIT).await.err(),
            store.apply(&at, InspectPermits, LIMIT).await.err(),
        ];
        for error in errors {
            let error = error.expect("a string is no set of permits");
            assert_eq!(error.kind(), ErrorKind::WrongType, "{name}: {error}");
            assert!(error.to_string().contains("not a set of permits"), "{name}: {error}");
        }
    }
}

/// The server's clock is set back by an hour: leases end an hour later, and nobody is let in before.
pub async fn a_clock_that_is_set_back_lets_nobody_in_early(arm: &impl PermitArm) {
    let (name, at) = (arm.name(), keys("permit:back"));
    acquire(arm, &at, "a", 1, 1000).await;
    arm.step_back(Duration::from_secs(3600));
    assert_eq!(acquire(arm, &at, "b", 1, 1000).await, full(1, 3_601_000_000), "{name}");
    assert_eq!(renew(arm, &at, "a", 1000).await, RenewPermitReply::Renewed, "{name}");
    assert_eq!(inspect(arm, &at).await, [left("a", 3_601_000_000)], "{name}: an end was moved back");
    assert_eq!(release(arm, &at, "a").await, ReleasePermitReply::Released, "{name}");
    assert_eq!(acquire(arm, &at, "b", 1, 1000).await, granted(1), "{name}");
}

/// A permit that nobody can have asked for is not a permit.
pub async fn an_end_that_nobody_can_have_asked_for_is_removed(arm: &impl PermitArm) {
    let (name, at, main) = (arm.name(), keys("permit:ahead"), key("permit:ahead"));
    let most = u64::try_from(MAX_PERMIT_AHEAD.as_micros()).expect("it fits");
    arm.plant_permits(&main, &PermitPlant::Holder(b"x".to_vec(), most));
    arm.plant_permits(&main, &PermitPlant::Holder(b"y".to_vec(), most + 1));
    assert_eq!(inspect(arm, &at).await, [left("x", most)], "{name}");
    assert_eq!(acquire(arm, &at, "a", 2, 1000).await, granted(2), "{name}");
    assert_eq!(renew(arm, &at, "y", 1000).await, RenewPermitReply::Expired, "{name}");
}
