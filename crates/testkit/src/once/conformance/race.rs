//! Many at once, in real time.

use std::time::Duration;

use lockkeeper::core::idempotency::{AbandonReply, Begin, BeginReply, CompleteReply, HowAbandoned, OnCrash};
use lockkeeper::core::Keys;

use crate::arm::{OnceStore, once_key};
use crate::once::ask::{abandon, begin, complete, lease};

const CALLERS: usize = 64;
const WITHIN: Duration = Duration::from_secs(5);
/// Nobody's lease ends by itself meanwhile.
const LONG: Duration = Duration::from_secs(3600);
const ROUNDS: u64 = 4;

/// `CALLERS` on these stores of one server begin at once: one claims. It crashes, and they begin again: one takes over.
/// The last one completes: all are answered its result. For any store, in real time.
pub async fn c1_c11_one_of_many_at_once_has_the_right_to_run<S>(stores: &[S])
where
    S: OnceStore + Clone + 'static,
{
    let at = Keys::from(once_key("race"));
    let mut last = 0;
    for attempt in 1..=ROUNDS {
        let replies = all_begin(stores, &at, attempt).await;
        let mut claims = replies.iter().enumerate().filter_map(|(caller, reply)| match reply {
            BeginReply::Claimed { fence, attempt: number, takeover } => {
                assert_eq!((*number, *takeover), (attempt, attempt > 1), "{reply:?}");
                Some((caller, fence.get()))
            }
            _ => None,
        });
        let (winner, fence) = claims.next().unwrap_or_else(|| panic!("nobody claimed: {replies:?}"));
        assert!(claims.next().is_none(), "two may run at once");
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        let who = name(attempt, winner);
        if attempt < ROUNDS {
            let crashed = abandon(&who, HowAbandoned::Crashed);
            let reply = stores[0].apply(&at, crashed, WITHIN).await.expect("an answer").reply;
            assert_eq!(reply, AbandonReply::Abandoned);
        } else {
            let reply = stores[0].apply(&at, complete(&who), WITHIN).await.expect("an answer").reply;
            assert!(matches!(reply, CompleteReply::Completed { .. }), "{reply:?}");
        }
    }
    let replies = all_begin(stores, &at, ROUNDS + 1).await;
    let replayed = replies.iter().filter(|reply| matches!(reply, BeginReply::Completed { .. })).count();
    assert_eq!(replayed, CALLERS, "{replies:?}");
}

async fn all_begin<S>(stores: &[S], at: &Keys, attempt: u64) -> Vec<BeginReply>
where
    S: OnceStore + Clone + 'static,
{
    let calls: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (store, at) = (stores[caller % stores.len()].clone(), at.clone());
            let decision = Begin { lease: lease(LONG), ..begin(&name(attempt, caller), OnCrash::Rerun) };
            tokio::spawn(async move { store.apply(&at, decision, WITHIN).await })
        })
        .collect();
    let mut replies = Vec::new();
    for call in calls {
        replies.push(call.await.expect("no panic").expect("an answer").reply);
    }
    replies
}

fn name(attempt: u64, caller: usize) -> String {
    format!("{attempt}:{caller}")
}
