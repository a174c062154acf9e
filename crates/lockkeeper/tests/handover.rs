//! Handing a held lock to another process by its token.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::net::SocketAddr;

use lockkeeper::core::ErrorKind;
use lockkeeper::{Acquired, LossReason, OwnerToken, Released, TakenOver};
use lockkeeper_faults::FaultProxy;
use lockkeeper_testkit::wait::until;

use support::{SOON, command, exists, keeper, ms, secs, server, take};

fn taken(result: TakenOver) -> lockkeeper::LockGuard {
    match result {
        TakenOver::Held(guard) => guard,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_lock_that_is_handed_over_is_never_free_in_between() {
    let Some(server) = server() else { return };
    let (giver, taker) = (keeper(&server).await, keeper(&server).await);
    let guard = take(&giver, "a", secs(30)).await;
    let fence = guard.fence().unwrap();
    let clone = guard.clone();
    let token = guard.hand_over().unwrap();
    assert_eq!(clone.loss(), Some(LossReason::HandedOver));
    assert!(!clone.is_valid());
    drop(clone);
    // It crosses to the other process as bytes.
    let token = OwnerToken::given(token.as_bytes()).unwrap();
    let lock = taker.lock("a").unwrap().lease(secs(60)).no_renewal();
    assert!(matches!(lock.try_acquire().await.unwrap(), Acquired::Busy(_)));

    let guard = taken(lock.take_over(&token).await.unwrap());
    assert!(guard.fence().unwrap() > fence && guard.is_valid());
    let left = command(&server, &["PTTL", "lock:a"]).as_int().unwrap();
    assert!((50_000..=60_000).contains(&left), "the taker's own lease: {left}");
    // The old token is the right to nothing.
    assert!(matches!(giver.release_token("a", &token).await.unwrap(), Released::HeldByAnother(_)));
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert!(matches!(lock.take_over(&token).await.unwrap(), TakenOver::Expired));
    take(&giver, "a", secs(30)).await.release().await.unwrap();
}

#[tokio::test]
async fn what_somebody_else_holds_is_not_taken_over_and_a_lost_lock_is_not_handed_over() {
    let Some(server) = server() else { return };
    let (giver, taker) = (keeper(&server).await, keeper(&server).await);
    let token = take(&giver, "a", secs(30)).await.hand_over().unwrap();
    command(&server, &["SET", "lock:a", "somebody"]);
    let lock = taker.lock("a").unwrap();
    assert!(matches!(lock.take_over(&token).await.unwrap(), TakenOver::HeldByAnother(_)));
    assert_eq!(command(&server, &["GET", "lock:a"]).as_str().unwrap(), "somebody");

    let guard = giver.lock("b").unwrap().lease(ms(20)).no_renewal().try_acquire().await.unwrap();
    let guard = guard.or_busy().unwrap();
    guard.lost().await;
    assert_eq!(guard.hand_over().unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn a_take_over_whose_answer_is_lost_leaves_nobody_holding() {
    let Some(server) = server() else { return };
    let proxy = FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], server.port()))).unwrap();
    let giver = keeper(&server).await;
    let taker = lockkeeper::Keeper::builder()
        .url(&proxy.url())
        .unwrap()
        .response_timeout(ms(300))
        .connect()
        .await
        .unwrap();
    let token = take(&giver, "a", secs(30)).await.hand_over().unwrap();
    taker.inspect("a").await.unwrap();
    proxy.hold_replies();
    let error = taker.lock("a").unwrap().take_over(&token).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    proxy.release();
    until("both tokens are given back", SOON, async || !exists(&server, "lock:a")).await;
}

#[tokio::test]
async fn a_waiter_of_the_same_keeper_does_not_get_what_is_handed_over() {
    let Some(server) = server() else { return };
    let (giver, taker) = (keeper(&server).await, keeper(&server).await);
    let guard = giver.lock("a").unwrap().acquire().await.unwrap().or_busy().unwrap();
    let lock = giver.lock("a").unwrap().wait(secs(20));
    let waiter = tokio::spawn(async move { lock.acquire().await });
    until("somebody waits", SOON, async || giver.health().await.waiting == 1).await;
    let token = guard.hand_over().unwrap();
    let guard = taken(taker.lock("a").unwrap().take_over(&token).await.unwrap());
    assert!(!waiter.is_finished());
    let fence = guard.fence().unwrap();
    guard.release().await.unwrap();
    assert!(waiter.await.unwrap().unwrap().or_busy().unwrap().fence().unwrap() > fence);
}
