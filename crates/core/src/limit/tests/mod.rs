//! What every algorithm promises.

mod bounds;
mod clocks;
mod exact;
mod keeping;
mod numbers;
mod returning;
mod support;
mod valid;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::{Key, Keys, ManualClock, MemoryStore, Prefix, Timestamp};

fn check(store: &MemoryStore, limit: Limit, ask: Ask) -> Checked {
    let quotas: Arc<[Quota]> = [limit.quota().unwrap()].into();
    let at = Keys::from(Key::new(&Prefix::new("limit:").unwrap(), "x").unwrap());
    let check = Check { quotas, asks: [ask].into(), not_after: Timestamp::MAX };
    store.apply_now(&at, check, Duration::from_secs(1)).unwrap().reply.checked.remove(0)
}

#[test]
fn r35_exactly_n_pass_for_every_algorithm() {
    let window = Duration::from_secs(10);
    for limit in [
        Limit::fixed_window(3, window),
        Limit::fixed_window_from_first(3, window),
        Limit::sliding_log(3, window),
        Limit::sliding_counter(3, window),
        Limit::token_bucket(3).refill(3, window),
    ] {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::new(clock.clone());
        let limit = limit.unwrap();
        for left in [2, 1, 0] {
            let checked = check(&store, limit, Ask::whole(1));
            assert_eq!(
                (checked.outcome, checked.standings[0].remaining),
                (Outcome::Allowed { granted: 1 }, left)
            );
        }
        let denied = check(&store, limit, Ask::whole(1));
        assert_eq!(denied.outcome, Outcome::Denied { by: 0 }, "{limit}");
        let retry = denied.standings[0].retry_after.unwrap();
        clock.advance(retry - Duration::from_micros(1));
        assert_eq!(check(&store, limit, Ask::whole(1)).outcome, Outcome::Denied { by: 0 }, "{limit}");
        clock.advance(Duration::from_micros(1));
        assert_eq!(check(&store, limit, Ask::whole(1)).outcome, Outcome::Allowed { granted: 1 }, "{limit}");
        assert_eq!(check(&store, limit, Ask::whole(4)).outcome, Outcome::Never { by: 0 }, "{limit}");
    }
}
