//! Invariant 8: every public future is dropped after its n-th poll, for every n, against a real server, and leaves no
//! claim, no key that says otherwise, and no work behind.

use lockkeeper::{Begun, Once, OncePhase, Resolution, RunError};
use lockkeeper_testkit::drops::drop_at_every_poll;
use lockkeeper_testkit::wait::until;

use crate::common::{claim, idle, impatient, replay, request, whole};
use crate::support::{SOON, ms, secs, server};

async fn phase(once: &Once, key: &str) -> Option<OncePhase> {
    once.inspect(key).await.unwrap().map(|seen| seen.phase)
}

#[tokio::test]
async fn beginning() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    for once in [keeper.once("drops").unwrap(), keeper.once("drops").unwrap().wait(secs(5))] {
        let polls = drop_at_every_poll(
            || once.begin("k", request()),
            async |polls, output| {
                if let Some(Ok(Begun::Claimed(attempt))) = output {
                    attempt.abandon().await.unwrap();
                }
                idle(&keeper, &format!("after {polls} polls")).await;
                let phase = phase(&once, "k").await;
                assert!(phase.is_none_or(|phase| phase == OncePhase::Open), "{polls}: {phase:?}");
            },
        )
        .await;
        assert!(polls >= 2, "it was dropped in flight at least once");
    }
}

#[tokio::test]
async fn waiting() {
    let Some(server) = server() else { return };
    let (keeper, other) = (impatient(&server.url()).await, impatient(&server.url()).await);
    let holder = claim(&other.once("drops").unwrap(), "k").await;
    let once = keeper.once("drops").unwrap().wait(ms(120));
    let polls = drop_at_every_poll(
        || once.begin("k", request()),
        async |polls, output| {
            if let Some(begun) = output {
                assert!(matches!(begun.unwrap(), Begun::Running { .. }));
            }
            idle(&keeper, &format!("after {polls} polls")).await;
        },
    )
    .await;
    assert!(polls >= 3, "{polls}");
    assert!(holder.is_valid());
}

/// Whenever its caller goes away, it is recorded.
#[tokio::test]
async fn completing() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let once = keeper.once("drops").unwrap();
    let mut attempts = Vec::new();
    for number in 0..20 {
        attempts.push((number, claim(&once, &number.to_string()).await));
    }
    let mut last = 0;
    drop_at_every_poll(
        || {
            let (number, attempt) = attempts.pop().unwrap();
            last = number;
            attempt.complete(whole("done"))
        },
        async |polls, _output| {
            until(&format!("completed after {polls} polls"), SOON, async || {
                phase(&once, &(19 - polls).to_string()).await == Some(OncePhase::Completed)
            })
            .await;
        },
    )
    .await;
    assert_eq!(replay(&once, &last.to_string()).await.stored, whole("done"));
    drop(attempts);
    idle(&keeper, "at the end").await;
}

#[tokio::test]
async fn abandoning() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let once = keeper.once("drops").unwrap();
    let mut attempts = Vec::new();
    for number in 0..20 {
        attempts.push(claim(&once, &number.to_string()).await);
    }
    drop_at_every_poll(
        || attempts.pop().unwrap().abandon(),
        async |polls, _output| {
            until(&format!("open after {polls} polls"), SOON, async || {
                phase(&once, &(19 - polls).to_string()).await == Some(OncePhase::Open)
            })
            .await;
        },
    )
    .await;
}

/// Dropped before its work has returned, it crashed; afterwards, it is recorded.
#[tokio::test]
async fn running() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let once = keeper.once("drops").unwrap();
    let mut number = 0;
    let polls = drop_at_every_poll(
        || {
            number += 1;
            let (once, key) = (once.clone(), number.to_string());
            async move {
                let ran: Result<u32, RunError<u32, String>> = once
                    .run(&key, &1, async |_| {
                        tokio::time::sleep(ms(5)).await;
                        Ok(7)
                    })
                    .await;
                ran
            }
        },
        async |polls, output| {
            idle(&keeper, &format!("after {polls} polls")).await;
            let phase = phase(&once, &(polls + 1).to_string()).await;
            assert_ne!(phase, Some(OncePhase::Running), "after {polls} polls");
            if output.is_some() {
                assert_eq!(phase, Some(OncePhase::Completed));
            }
        },
    )
    .await;
    assert!(polls >= 4, "{polls}");
}

#[tokio::test]
async fn looking_and_resolving() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let once = keeper.once("drops").unwrap();
    let attempt = claim(&once, "k").await;
    let runs = async |_, _| assert_eq!(phase(&once, "k").await, Some(OncePhase::Running));
    drop_at_every_poll(|| once.inspect("k"), async |_, _| ()).await;
    drop_at_every_poll(|| once.resolve("k", attempt.fence(), Resolution::Undone), runs).await;
    drop_at_every_poll(|| async { drop(attempt.lost()) }, async |_, _| ()).await;
    assert!(attempt.is_valid());
}

/// Outside of any runtime, an attempt is given back all the same.
#[test]
fn an_attempt_that_is_dropped_outside_of_a_runtime_ends() {
    let Some(server) = server() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (keeper, attempt) = runtime.block_on(async {
        let keeper = impatient(&server.url()).await;
        let attempt = claim(&keeper.once("drops").unwrap(), "k").await;
        (keeper, attempt)
    });
    drop(attempt);
    let again = runtime.block_on(async {
        idle(&keeper, "after the drop").await;
        claim(&keeper.once("drops").unwrap(), "k").await.attempt()
    });
    assert_eq!(again, 2);
}
