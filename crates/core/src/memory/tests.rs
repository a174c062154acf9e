use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::key::Prefix;
use crate::limit::{Ask, Check, Limit, Outcome, Quota, Stored};
use crate::time::ManualClock;

fn store() -> (Arc<ManualClock>, MemoryStore) {
    let clock = Arc::new(ManualClock::default());
    (clock.clone(), MemoryStore::new(clock))
}

fn key(name: &str) -> Key {
    Key::new(&Prefix::new("limit:").unwrap(), name).unwrap()
}

fn quota(limit: &str) -> Quota {
    limit.parse::<Limit>().unwrap().quota().unwrap()
}

fn granted(store: &MemoryStore, name: &str, quota: Quota) -> u64 {
    store.check_one(key(name).as_bytes(), quota, Ask::whole(1)).unwrap().granted()
}

#[test]
fn the_short_way_and_the_long_way_see_the_same_key() {
    let (_, store) = store();
    let quota = quota("3/10s sliding-log");
    let check = Check { quotas: [quota].into(), asks: [Ask::whole(1)].into(), not_after: Timestamp::MAX };
    let long = || {
        let answer = store.apply_now(&Keys::from(key("a")), check.clone(), Duration::from_secs(1));
        answer.unwrap().reply.granted()
    };
    assert_eq!([granted(&store, "a", quota), long(), granted(&store, "a", quota)], [1, 1, 1]);
    assert_eq!([granted(&store, "a", quota), long()], [0, 0]);
    assert_eq!(granted(&store, "b", quota), 1);
    assert_eq!(store.len(), 2);
}

#[test]
fn a_foreign_key_is_the_wrong_type_and_untouched() {
    let (_, store) = store();
    store.tamper(&key("a"), |cell: &mut LimitCell| cell.stored = Stored::Foreign);
    for limit in ["3/10s", "3/10s sliding-log", "3/10s fixed-window"] {
        assert!(store.check_one(key("a").as_bytes(), quota(limit), Ask::whole(1)).is_err());
    }
    store.tamper(&key("a"), |cell: &mut LimitCell| assert_eq!(cell.stored, Stored::Foreign));
}

/// Several keys in whatever order: nobody waits in a circle, and nobody takes more than there is.
#[test]
fn r37_r38_several_threads_take_exactly_what_there_is() {
    let (_, store) = store();
    let quotas: Arc<[Quota]> = [quota("500/1h"), quota("700/1h fixed-window")].into();
    let ask = |first: &str, second: &str, quotas: &Arc<[Quota]>| {
        let keys = Keys::in_order(vec![key(first), key(second)]).unwrap();
        let check = Check { quotas: quotas.clone(), asks: [Ask::whole(1)].into(), not_after: Timestamp::MAX };
        store.apply_now(&keys, check, Duration::from_secs(1)).unwrap().reply.granted()
    };
    let turned: Arc<[Quota]> = quotas.iter().rev().copied().collect();
    let passed: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (ask, quotas, turned) = (&ask, &quotas, &turned);
                scope.spawn(move || {
                    let one = |_| if thread % 2 == 0 { ask("a", "b", quotas) } else { ask("b", "a", turned) };
                    (0..400).map(one).sum::<u64>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(passed, 500);
    let left = store.check_one(key("b").as_bytes(), quotas[1], Ask::up_to(1000)).unwrap();
    assert_eq!(left.outcome, Outcome::Allowed { granted: 200 });
}

#[test]
fn r13_what_has_expired_goes_also_where_no_new_key_comes() {
    let (clock, store) = store();
    let quota = quota("3/10s");
    let subjects = 20_000;
    for subject in 0..subjects {
        granted(&store, &format!("user:{subject}"), quota);
    }
    let kept = MemoryStore::limits_len;
    assert_eq!(kept(&store), subjects);
    clock.advance(Duration::from_secs(60));
    // Old faces alone, which leave most shards alone.
    let faces: Vec<String> = (0..20).map(|face| format!("user:{face}")).collect();
    for turn in 0..subjects * 10 {
        granted(&store, &faces[turn % faces.len()], quota);
    }
    assert!(kept(&store) <= faces.len() * 2, "{}", kept(&store));
    assert!(store.tables.limits.capacity() < subjects / 4);
}

#[test]
fn a_thousand_new_keys_leave_only_what_lives() {
    let (clock, store) = store();
    let quota = quota("3/10s");
    for round in 0..50 {
        for subject in 0..1_000 {
            granted(&store, &format!("{round}:{subject}"), quota);
        }
        clock.advance(Duration::from_secs(60));
    }
    let kept = store.limits_len();
    assert!(kept <= 64 * 64, "{kept}");
    assert_eq!((store.len(), store.is_empty()), (0, true));
}
