//! Requests and answers that come late, and futures that are dropped: nothing stays on any server.

use std::time::Duration;

use lockkeeper::{Keeper, Released};
use lockkeeper_faults::FaultProxy;
use lockkeeper_testkit::runs;
use lockkeeper_testkit::wait::until;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::{SOON, ms, secs, take};
use crate::views::Views;

/// So long that a lease which ends by itself is no excuse.
const LONG: Duration = secs(60);

async fn nothing_is_left(views: &Views, name: &str) {
    until(&format!("no server keeps {name}"), SOON, async || views.holding(name) == 0).await;
}

async fn is_quiet(keeper: &Keeper) {
    until("nothing is being given back", secs(10), async || keeper.health().await.giving_back == 0).await;
}

/// A minority's requests or answers stand still from before the acquire until after the release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l73_what_passes_after_the_release_leaves_nothing_on_any_server() {
    let Some(views) = Views::start(1, "").await else { return };
    let (keeper, proxies) = (&views.keepers[0], &views.proxies[0]);
    take(keeper, "warm", LONG).await.release().await.unwrap();
    let holds: [fn(&FaultProxy); 3] = [FaultProxy::hold_replies, FaultProxy::hold_requests, FaultProxy::hold];
    for (round, hold) in holds.into_iter().cycle().take(9).enumerate() {
        let name = format!("late{round}");
        let late = [round % 5, (round + 2) % 5].map(|node| &proxies[node]);
        late.iter().for_each(|proxy| hold(proxy));
        let guard = take(keeper, &name, LONG).await;
        assert!(views.holding(&name) >= 3, "a majority has it");
        // In every third round they pass while it is still held, and race with the release.
        if round / 3 == 1 {
            late.iter().for_each(|proxy| proxy.release());
        }
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        late.iter().for_each(|proxy| proxy.release());
        nothing_is_left(&views, &name).await;
        is_quiet(keeper).await;
        // What is still on its way has nothing to say.
        assert_eq!(views.holding(&name), 0);
    }
}

/// Acquires, extensions and releases are dropped at random moments, on lines that are slow in different ways.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l8_futures_that_are_dropped_at_random_leave_nothing_on_any_server() {
    let seed = runs::seed();
    eprintln!("LOCKKEEPER_SEED={seed}");
    let Some(views) = Views::start(1, "").await else { return };
    let keeper = &views.keepers[0];
    take(keeper, "warm", LONG).await.release().await.unwrap();
    for (node, proxy) in views.proxies[0].iter().enumerate() {
        proxy.slow(ms(2 + 6 * node as u64));
    }
    let tasks: Vec<_> = (0..60)
        .map(|number| {
            let random = StdRng::seed_from_u64(seed.wrapping_add(number));
            tokio::spawn(dropping(keeper.clone(), format!("d{number}"), random))
        })
        .collect();
    let mut finished = 0;
    for task in tasks {
        finished += u32::from(task.await.unwrap());
    }
    eprintln!("{finished} of 60 finished");
    is_quiet(keeper).await;
    for number in 0..60 {
        nothing_is_left(&views, &format!("d{number}")).await;
    }
    let health = keeper.health().await;
    assert_eq!((health.held, health.waiting, health.giving_back), (0, 0, 0));
}

/// Whether nothing of it was dropped.
async fn dropping(keeper: Keeper, name: String, mut random: StdRng) -> bool {
    let mut patience = || ms(random.random_range(0..120));
    let lock = keeper.lock(&name).unwrap().lease(LONG);
    let acquire = tokio::time::timeout(patience(), lock.acquire()).await;
    let Ok(acquired) = acquire else { return false };
    let guard = acquired.unwrap().or_busy().unwrap();
    let extended = tokio::time::timeout(patience(), guard.extend(LONG)).await;
    let released = tokio::time::timeout(patience(), guard.release()).await;
    extended.is_ok() && released.is_ok()
}
