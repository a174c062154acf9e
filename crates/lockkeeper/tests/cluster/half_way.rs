//! A slot that is on its way from one server to another.

use lockkeeper::redis::slot_of;
use lockkeeper::{Begun, ErrorKind, Refusal, Released, Stored, fingerprint};
use lockkeeper_testkit::wait::until;

use crate::common::{hold, keeper, slot, three};
use crate::support::{SOON, ms, secs};

/// Its record has the hash tag of the locks.
const SAME_SLOT: &str = "{t}";

/// The held lock is renewed and released at whichever place its keys are; a free one waits for the end.
#[tokio::test]
async fn a_held_lock_is_kept_and_a_free_one_waits_while_its_slot_is_on_its_way() {
    let Some(cluster) = three() else { return };
    let (keeper, other) = (keeper(&cluster).await, keeper(&cluster).await);
    let [held, free] = ["{t}:held", "{t}:free"];
    let to = (cluster.owner_of(slot(held)).unwrap() + 1) % 3;
    let guard = hold(&keeper, held).await;
    let half_way = cluster.begin_move(slot(held), to).unwrap();
    guard.extend(secs(3)).await.unwrap();

    // One key there, one here: nobody can look at both.
    half_way.carry(format!("lock:{held}").as_bytes()).unwrap();
    let error = guard.extend(secs(3)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused(Refusal::ClusterDown), "{error}");
    assert!(error.is_transient() && error.to_string().contains("TRYAGAIN"), "{error}");
    half_way.carry(format!("lock:~fence::{held}").as_bytes()).unwrap();
    guard.extend(secs(3)).await.unwrap();
    assert!(guard.is_valid());

    // Of a free lock no key exists, and no server runs a script for it.
    let waiting = tokio::spawn({
        let lock = other.lock(free).unwrap().wait(secs(20));
        async move { lock.acquire().await.unwrap().or_busy().unwrap() }
    });
    let error = keeper.lock(free).unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused(Refusal::ClusterDown), "{error}");
    // What has one key only goes on: it is asked for at the new place.
    let key = format!("once:pay:{SAME_SLOT}");
    assert_eq!(slot_of(key.as_bytes()), slot(held));
    let once = keeper.once("pay").unwrap();
    let Begun::Claimed(attempt) = once.begin(SAME_SLOT, fingerprint::of_bytes("")).await.unwrap() else {
        panic!("it is nobody's");
    };
    attempt.complete(Stored::nothing()).await.unwrap();
    assert!(!waiting.is_finished());

    half_way.finish().unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    let next = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    next.release().await.unwrap();
}

/// The refusals are waited out inside the limit of the call, not beyond it.
#[tokio::test]
async fn a_slot_that_stays_half_way_costs_a_caller_no_more_than_its_limit() {
    let Some(cluster) = three() else { return };
    let url = cluster.url();
    let builder = lockkeeper::Keeper::builder().url(&url).unwrap().response_timeout(ms(300));
    let keeper = builder.connect().await.unwrap();
    let to = (cluster.owner_of(slot("a")).unwrap() + 1) % 3;
    let half_way = cluster.begin_move(slot("a"), to).unwrap();
    let started = std::time::Instant::now();
    let error = keeper.lock("a").unwrap().try_acquire().await.unwrap_err();
    let took = started.elapsed();
    assert_eq!(error.kind(), ErrorKind::Refused(Refusal::ClusterDown), "{error}");
    assert!(took >= ms(150) && took < ms(1000), "{took:?}");
    half_way.abandon().unwrap();
    until("it is taken again", SOON, async || {
        keeper.lock("a").unwrap().try_acquire().await.is_ok_and(|taken| taken.held().is_some())
    })
    .await;
}

/// Whoever lists sees the others all the same, and is told of the one.
#[tokio::test]
async fn a_lock_that_is_half_way_hides_no_other_from_a_listing() {
    let Some(cluster) = three() else { return };
    let keeper = keeper(&cluster).await;
    let take = async |name: &str| {
        keeper.lock(name).unwrap().lease(secs(30)).acquire().await.unwrap().or_busy().unwrap()
    };
    let (half, other) = (take("{t}:half").await, take("other").await);
    let to = (cluster.owner_of(slot("{t}:half")).unwrap() + 1) % 3;
    let half_way = cluster.begin_move(slot("{t}:half"), to).unwrap();
    half_way.carry(b"lock:{t}:half").unwrap();
    let (mut listed, mut unseen, mut from) = (Vec::new(), Vec::new(), None);
    loop {
        let page = keeper.list(from).await.unwrap();
        listed.extend(page.locks.into_iter().map(|view| view.key.to_string()));
        unseen.extend(page.unseen.into_iter().map(|key| key.to_string()));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!((listed, unseen), (vec!["lock:other".to_owned()], vec!["lock:{t}:half".to_owned()]));
    half_way.carry(b"lock:~fence::{t}:half").unwrap();
    half_way.finish().unwrap();
    other.release().await.unwrap();
    half.release().await.unwrap();
}
