//! The contract of a lock store, as functions that any arm can run. Each uses keys of its own.

use std::fmt::Debug;
use std::time::Duration;

use lockkeeper::core::lock::{
    Acquire, AcquireReply, Fence, FenceRequest, ForceRelease, ForceReleaseReply, Holder, Inspect, Inspection,
    KeeperName, Lease, Leave, MAX_PRESENT, OwnerToken, Release, ReleaseReply, Renew, RenewReply, Swap,
    SwapReply, Waiter, Watch, WatchOutcome, WatchReply,
};
use lockkeeper::core::{ErrorKind, Keys, Timestamp};

use crate::arm::{Arm, Plant, key};

const LIMIT: Duration = Duration::from_secs(5);

/// Runs all of it.
pub async fn all(arm: &dyn Arm) {
    acquire_is_exclusive_and_ends_with_its_lease(arm).await;
    l19_repeating_an_acquire_restarts_and_never_shortens(arm).await;
    fences_grow_over_everything_that_ends_a_hold(arm).await;
    fence_blocks_are_reserved_whole(arm).await;
    a_lost_fence_key_is_healed_by_what_the_client_has_seen(arm).await;
    l8_l109_a_renewal_never_creates_and_never_takes(arm).await;
    l11_a_renewal_never_shortens(arm).await;
    l107_release_removes_only_its_own(arm).await;
    swap_hands_over_without_a_gap(arm).await;
    several_keys_are_all_or_nothing(arm).await;
    a_watch_takes_or_notes_who_waits(arm).await;
    a_watch_of_several_keys_notes_presence_beside_each(arm).await;
    notes_of_presence_are_bounded(arm).await;
    l77_what_is_not_a_lock_is_left_alone(arm).await;
    l119_a_foreign_holder_without_expiry_is_a_holder(arm).await;
    force_release_removes_only_who_was_shown(arm).await;
    l104_fence_keys_go_after_their_time_and_fences_still_grow(arm).await;
}

fn token(name: &str) -> OwnerToken {
    OwnerToken::given(name).expect("a token")
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn lease(length: u64) -> Lease {
    Lease::new(ms(length)).expect("a lease")
}

fn keys(names: &[&str]) -> Keys {
    Keys::new(names.iter().map(|name| key(name))).expect("keys")
}

async fn acquire(arm: &dyn Arm, at: &Keys, who: &str, length: u64) -> AcquireReply {
    acquire_with(arm, at, who, length, FenceRequest::default()).await
}

async fn acquire_with(
    arm: &dyn Arm,
    at: &Keys,
    who: &str,
    length: u64,
    fences: FenceRequest,
) -> AcquireReply {
    let decision = Acquire { token: token(who), lease: lease(length), fences, not_after: Timestamp::MAX };
    arm.store().acquire(at, decision, LIMIT).await.expect("an answer").reply
}

async fn granted(arm: &dyn Arm, at: &Keys, who: &str, length: u64) -> Fence {
    match acquire(arm, at, who, length).await {
        AcquireReply::Granted(fence) => fence,
        AcquireReply::Busy(busy) => panic!("{}: {at} is busy: {busy:?}", arm.name()),
    }
}

async fn renew(arm: &dyn Arm, at: &Keys, who: &str, length: u64) -> RenewReply {
    let decision = Renew { token: token(who), lease: lease(length), not_after: Timestamp::MAX };
    arm.store().renew(at, decision, LIMIT).await.expect("an answer").reply
}

async fn release(arm: &dyn Arm, at: &Keys, who: &str) -> ReleaseReply {
    arm.store().release(at, Release { token: token(who) }, LIMIT).await.expect("an answer").reply
}

async fn swap(arm: &dyn Arm, at: &Keys, from: &str, to: &str, length: u64) -> SwapReply {
    let decision = Swap {
        from: token(from),
        to: token(to),
        lease: lease(length),
        fences: FenceRequest::default(),
        not_after: Timestamp::MAX,
    };
    arm.store().swap(at, decision, LIMIT).await.expect("an answer").reply
}

async fn inspect(arm: &dyn Arm, at: &Keys) -> Vec<Inspection> {
    arm.store().inspect(at, Inspect, LIMIT).await.expect("an answer").reply
}

async fn remaining(arm: &dyn Arm, at: &Keys) -> Option<Duration> {
    inspect(arm, at).await[0].remaining
}

fn same<T: Debug + PartialEq>(arm: &dyn Arm, left: &T, right: &T) {
    assert_eq!(left, right, "{}", arm.name());
}

fn holder(name: &str) -> Holder {
    token(name).holder()
}

/// One holder at a time; the key is there until the last millisecond of the lease, and gone after it.
pub async fn acquire_is_exclusive_and_ends_with_its_lease(arm: &dyn Arm) {
    let at = keys(&["exclusive"]);
    granted(arm, &at, "a", 1000).await;
    let AcquireReply::Busy(busy) = acquire(arm, &at, "b", 1000).await else { panic!("two holders") };
    same(arm, &busy.holder, &holder("a"));
    same(arm, &busy.remaining, &Some(ms(1000)));
    arm.advance(ms(1000));
    assert!(
        matches!(acquire(arm, &at, "b", 1000).await, AcquireReply::Busy(_)),
        "{}: at its last millisecond",
        arm.name()
    );
    arm.advance(ms(1));
    granted(arm, &at, "b", 1000).await;
}

/// The same token again: full lease, same fence; a shorter lease does not shorten.
pub async fn l19_repeating_an_acquire_restarts_and_never_shortens(arm: &dyn Arm) {
    let at = keys(&["repeat"]);
    let first = granted(arm, &at, "a", 10_000).await;
    arm.advance(ms(4000));
    same(arm, &granted(arm, &at, "a", 10_000).await, &first);
    same(arm, &remaining(arm, &at).await, &Some(ms(10_000)));
    same(arm, &granted(arm, &at, "a", 1000).await, &first);
    same(arm, &remaining(arm, &at).await, &Some(ms(10_000)));
}

/// After release, expiry, forced release and swap, also when no time passes in between.
pub async fn fences_grow_over_everything_that_ends_a_hold(arm: &dyn Arm) {
    let at = keys(&["fences"]);
    let mut last = granted(arm, &at, "t0", 1000).await;
    for round in 0..4 {
        let who = format!("t{round}");
        let next = format!("t{}", round + 1);
        let fence = match round {
            0 => {
                release(arm, &at, &who).await;
                granted(arm, &at, &next, 1000).await
            }
            1 => {
                arm.advance(ms(1001));
                granted(arm, &at, &next, 1000).await
            }
            2 => match swap(arm, &at, &who, &next, 1000).await {
                SwapReply::Swapped(fence) => fence,
                other => panic!("{}: {other:?}", arm.name()),
            },
            _ => {
                let ForceReleaseReply::Released(raised) = force(arm, &at, &holder(&who)).await else {
                    panic!("not released")
                };
                assert!(raised > last, "{}: raised by force", arm.name());
                last = raised;
                granted(arm, &at, &next, 1000).await
            }
        };
        assert!(fence > last, "{}: round {round}: {fence} after {last}", arm.name());
        last = fence;
    }
}

/// The next holder's fence lies above the whole block, and a repeated acquire names the block's first number.
pub async fn fence_blocks_are_reserved_whole(arm: &dyn Arm) {
    let at = keys(&["block"]);
    let block = FenceRequest { seen: 0, block: 1000 };
    let AcquireReply::Granted(first) = acquire_with(arm, &at, "a", 1000, block).await else { panic!("busy") };
    same(arm, &acquire_with(arm, &at, "a", 1000, block).await, &AcquireReply::Granted(first));
    release(arm, &at, "a").await;
    let next = granted(arm, &at, "b", 1000).await;
    assert!(next.get() >= first.get() + 1000, "{}: {next} after {first} and its block", arm.name());
}

/// The side key is gone and the clock stands still: what the client has seen still makes the fence grow.
pub async fn a_lost_fence_key_is_healed_by_what_the_client_has_seen(arm: &dyn Arm) {
    let at = keys(&["healed"]);
    let block = FenceRequest { seen: 0, block: 4000 };
    let AcquireReply::Granted(first) = acquire_with(arm, &at, "a", 1000, block).await else { panic!("busy") };
    let seen = first.get() + 3999;
    release(arm, &at, "a").await;
    arm.plant(&key("healed"), &Plant::FenceGone);
    let AcquireReply::Granted(fence) =
        acquire_with(arm, &at, "b", 1000, FenceRequest { seen, block: 1 }).await
    else {
        panic!("busy")
    };
    same(arm, &fence.get(), &(seen + 1));
}

/// Absent: expired. Somebody else's: held by another. Neither is changed.
pub async fn l8_l109_a_renewal_never_creates_and_never_takes(arm: &dyn Arm) {
    let at = keys(&["renew"]);
    same(arm, &renew(arm, &at, "a", 1000).await, &RenewReply::Expired(0));
    same(arm, &inspect(arm, &at).await[0].holder, &None);
    granted(arm, &at, "b", 1000).await;
    arm.advance(ms(400));
    same(arm, &renew(arm, &at, "a", 9000).await, &RenewReply::HeldByAnother(0, holder("b")));
    same(arm, &remaining(arm, &at).await, &Some(ms(600)));
    same(arm, &renew(arm, &at, "b", 1000).await, &RenewReply::Renewed);
    same(arm, &remaining(arm, &at).await, &Some(ms(1000)));
}

/// A shorter length leaves the longer lease.
pub async fn l11_a_renewal_never_shortens(arm: &dyn Arm) {
    let at = keys(&["shorten"]);
    granted(arm, &at, "a", 10_000).await;
    arm.advance(ms(1000));
    same(arm, &renew(arm, &at, "a", 10).await, &RenewReply::Renewed);
    same(arm, &remaining(arm, &at).await, &Some(ms(9000)));
}

/// A late release answers what it found and leaves the next holder alone.
pub async fn l107_release_removes_only_its_own(arm: &dyn Arm) {
    let at = keys(&["release"]);
    granted(arm, &at, "a", 1000).await;
    arm.advance(ms(1001));
    same(arm, &release(arm, &at, "a").await, &ReleaseReply::Expired(0));
    granted(arm, &at, "b", 1000).await;
    same(arm, &release(arm, &at, "a").await, &ReleaseReply::HeldByAnother(0, holder("b")));
    same(arm, &release(arm, &at, "b").await, &ReleaseReply::Released);
    same(arm, &release(arm, &at, "b").await, &ReleaseReply::Expired(0));
}

/// From one token to another: lease restarted, fence raised, repeatable; refused from a stranger and after expiry.
pub async fn swap_hands_over_without_a_gap(arm: &dyn Arm) {
    let at = keys(&["swap"]);
    let first = granted(arm, &at, "a", 1000).await;
    arm.advance(ms(500));
    same(arm, &swap(arm, &at, "x", "b", 1000).await, &SwapReply::HeldByAnother(0, holder("a")));
    let SwapReply::Swapped(second) = swap(arm, &at, "a", "b", 1000).await else { panic!("not swapped") };
    assert!(second > first, "{}", arm.name());
    same(arm, &remaining(arm, &at).await, &Some(ms(1000)));
    same(arm, &swap(arm, &at, "a", "b", 1000).await, &SwapReply::Swapped(second));
    same(arm, &release(arm, &at, "a").await, &ReleaseReply::HeldByAnother(0, holder("b")));
    arm.advance(ms(1001));
    same(arm, &swap(arm, &at, "b", "c", 1000).await, &SwapReply::Expired(0));
}

/// Several keys: nothing is taken when one is busy, one fence for all, and a lost one is found.
pub async fn several_keys_are_all_or_nothing(arm: &dyn Arm) {
    let (both, one) = (keys(&["all-1", "all-2"]), keys(&["all-2"]));
    let alone = granted(arm, &one, "other", 1000).await;
    let AcquireReply::Busy(busy) = acquire(arm, &both, "a", 1000).await else { panic!("took a held key") };
    same(arm, &busy.index, &1);
    same(arm, &inspect(arm, &both).await[0].holder, &None);
    release(arm, &one, "other").await;
    let fence = granted(arm, &both, "a", 1000).await;
    assert!(fence > alone, "{}", arm.name());
    for seen in inspect(arm, &both).await {
        same(arm, &seen.fence, &Some(fence));
    }
    arm.plant(&key("all-1"), &Plant::MainGone);
    arm.advance(ms(300));
    same(arm, &renew(arm, &both, "a", 1000).await, &RenewReply::Expired(0));
    same(arm, &remaining(arm, &one).await, &Some(ms(700)));
    same(arm, &release(arm, &both, "a").await, &ReleaseReply::Expired(0));
    same(arm, &inspect(arm, &one).await[0].holder, &None);
}

/// A list under the main key or the fence key: an error that says so, and nothing is touched.
pub async fn l77_what_is_not_a_lock_is_left_alone(arm: &dyn Arm) {
    let at = keys(&["list"]);
    arm.plant(&key("list"), &Plant::MainList);
    let decision = Acquire {
        token: token("a"),
        lease: lease(1000),
        fences: FenceRequest::default(),
        not_after: Timestamp::MAX,
    };
    let error = arm.store().acquire(&at, decision.clone(), LIMIT).await.expect_err("a list is not a lock");
    same(arm, &error.kind(), &ErrorKind::WrongType);
    assert!(error.to_string().contains("lock:list"), "{error}");
    let error = arm
        .store()
        .release(&at, Release { token: token("a") }, LIMIT)
        .await
        .expect_err("a list is not a lock");
    same(arm, &error.kind(), &ErrorKind::WrongType);
    assert!(inspect(arm, &at).await[0].wrong_type, "{}", arm.name());

    for bad in [
        Plant::FenceList,
        Plant::FenceText(b"1e300".to_vec()),
        Plant::FenceText(b"99999999999999999999".to_vec()),
    ] {
        let at = keys(&["list-fence"]);
        arm.plant(&key("list-fence"), &bad);
        let error = arm.store().acquire(&at, decision.clone(), LIMIT).await.expect_err("not a fence");
        same(arm, &error.kind(), &ErrorKind::WrongType);
        same(arm, &inspect(arm, &at).await[0].holder, &None);
    }
}

/// Binary token, no expiry: busy without an end, never overwritten, and inspected without an error.
pub async fn l119_a_foreign_holder_without_expiry_is_a_holder(arm: &dyn Arm) {
    let at = keys(&["foreign"]);
    arm.plant(&key("foreign"), &Plant::MainText(vec![0xff; 20], None));
    arm.advance(Duration::from_secs(86_400));
    let AcquireReply::Busy(busy) = acquire(arm, &at, "a", 1000).await else { panic!("took a foreign lock") };
    same(arm, &busy.remaining, &None);
    same(arm, &busy.holder, &Holder::new(&[0xff; 20], 20));
    same(arm, &release(arm, &at, "a").await, &ReleaseReply::HeldByAnother(0, busy.holder.clone()));
    same(arm, &inspect(arm, &at).await[0].remaining, &None);
}

async fn force(arm: &dyn Arm, at: &Keys, shown: &Holder) -> ForceReleaseReply {
    let decision = ForceRelease { shown: shown.clone(), seen: 0, not_after: Timestamp::MAX };
    arm.store().force_release(at, decision, LIMIT).await.expect("an answer").reply
}

/// A holder that came since is left alone; a foreign one can be removed; an empty key is said to be free.
pub async fn force_release_removes_only_who_was_shown(arm: &dyn Arm) {
    let at = keys(&["force"]);
    same(arm, &force(arm, &at, &holder("a")).await, &ForceReleaseReply::Free);
    granted(arm, &at, "b", 1000).await;
    same(arm, &force(arm, &at, &holder("a")).await, &ForceReleaseReply::HeldByAnother(holder("b")));
    arm.plant(&key("force"), &Plant::MainText(vec![0; 20], None));
    let foreign = inspect(arm, &at).await[0].holder.clone().expect("a holder");
    assert!(matches!(force(arm, &at, &foreign).await, ForceReleaseReply::Released(_)), "{}", arm.name());
    same(arm, &inspect(arm, &at).await[0].holder, &None);
}

/// The side key lives for two days after the lease, and the clock takes over.
pub async fn l104_fence_keys_go_after_their_time_and_fences_still_grow(arm: &dyn Arm) {
    let at = keys(&["once"]);
    let first = granted(arm, &at, "a", 1000).await;
    release(arm, &at, "a").await;
    arm.advance(Duration::from_secs(2 * 86_400));
    same(arm, &inspect(arm, &at).await[0].fence, &Some(first));
    arm.advance(ms(1001));
    same(arm, &inspect(arm, &at).await[0].fence, &None);
    assert!(granted(arm, &at, "b", 1000).await > first, "{}", arm.name());
}

async fn watch(arm: &dyn Arm, at: &Keys, who: &str, keeper: &str, count: u32) -> WatchReply {
    let acquire = Acquire {
        token: token(who),
        lease: lease(10_000),
        fences: FenceRequest::default(),
        not_after: Timestamp::MAX,
    };
    let waiter = Waiter { keeper: KeeperName::new(keeper), count };
    arm.store().watch(at, Watch { acquire, waiter }, LIMIT).await.expect("an answer").reply
}

async fn waiters(arm: &dyn Arm, at: &Keys) -> Vec<(String, u32)> {
    let seen = inspect(arm, at).await;
    seen[0].waiters.iter().map(|waiter| (waiter.keeper.to_string(), waiter.count)).collect()
}

async fn a_watch_takes_or_notes_who_waits(arm: &dyn Arm) {
    let at = keys(&["watch"]);
    let AcquireReply::Granted(first) = acquire(arm, &at, "a", 10_000).await else { panic!("it was free") };
    let busy = watch(arm, &at, "b", "one", 3).await;
    assert!(matches!(&busy.outcome, WatchOutcome::Busy(busy) if busy.remaining == Some(ms(10_000))));
    assert!(!busy.others_wait, "its own note is not another's");
    assert!(watch(arm, &at, "c", "two", 1).await.others_wait);
    assert_eq!(waiters(arm, &at).await, [("one".to_owned(), 3), ("two".to_owned(), 1)]);

    arm.store().release(&at, Release { token: token("a") }, LIMIT).await.expect("an answer");
    let granted = watch(arm, &at, "b", "one", 3).await;
    assert!(matches!(granted.outcome, WatchOutcome::Granted(fence) if fence > first), "{granted:?}");
    assert!(granted.others_wait, "the second one still waits");
    assert_eq!(waiters(arm, &at).await, [("one".to_owned(), 2), ("two".to_owned(), 1)]);

    arm.store().leave(&at, Leave { keeper: KeeperName::new("two") }, LIMIT).await.expect("an answer");
    assert_eq!(waiters(arm, &at).await, [("one".to_owned(), 2)]);
    arm.advance(ms(2600));
    assert_eq!(waiters(arm, &at).await, [], "a note that is not renewed goes");
}

/// Who waits for several keys is noted beside each of them, busy or not.
pub async fn a_watch_of_several_keys_notes_presence_beside_each(arm: &dyn Arm) {
    let (both, one) = (keys(&["watch:a", "watch:b"]), keys(&["watch:b"]));
    acquire(arm, &one, "x", 10_000).await;
    let busy = watch(arm, &both, "y", "k", 1).await;
    assert!(matches!(&busy.outcome, WatchOutcome::Busy(busy) if busy.index == 1));
    assert_eq!(waiters(arm, &keys(&["watch:a"])).await, [("k".to_owned(), 1)]);
    assert_eq!(waiters(arm, &one).await, [("k".to_owned(), 1)]);
}

async fn notes_of_presence_are_bounded(arm: &dyn Arm) {
    let at = keys(&["watch:many"]);
    acquire(arm, &at, "x", 10_000).await;
    for number in 0..MAX_PRESENT + 2 {
        watch(arm, &at, "y", &format!("k{number:03}"), 1).await;
    }
    assert_eq!(waiters(arm, &at).await.len(), MAX_PRESENT);
    arm.advance(ms(2600));
    watch(arm, &at, "y", "later", 1).await;
    assert_eq!(waiters(arm, &at).await, [("later".to_owned(), 1)], "stale notes make room");
}
