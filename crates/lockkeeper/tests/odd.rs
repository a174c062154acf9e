//! Stores that are slow, dead or far away, keepers and runtimes that end at the wrong moment, limits without end.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::core::lock::LockCell;
use lockkeeper::core::{Answer, Apply, Decision, Error, ErrorKind, Keys, MemoryStore};
use lockkeeper::redis::{RedisConfig, RedisStore};
use lockkeeper::{Keeper, LockGuard, LossReason, OwnerToken, Released, SystemClock};
use lockkeeper_faults::{FaultProxy, RedisServer};
use lockkeeper_testkit::fake::{Fake, FakeServer, greeting};
use lockkeeper_testkit::wait::until;
use support::{SOON, ms, secs, server};

/// A store of somebody else's, on the memory store, with the ways of a bad day.
struct Odd {
    inner: MemoryStore,
    renewal_ms: AtomicU64,
    renewals_begun: AtomicU32,
    dead: AtomicBool,
    sent_twice: AtomicBool,
    releases: AtomicU32,
}

impl<D: Decision<State = LockCell>> Apply<D> for Odd {
    async fn apply(&self, at: &Keys, decision: D, within: Duration) -> Result<Answer<D::Reply>, Error> {
        match D::NAME {
            "renew" if self.dead.load(Ordering::SeqCst) => {
                return Err(Error::new(ErrorKind::Unreachable, "renew", "nobody there"));
            }
            "renew" => {
                self.renewals_begun.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(ms(self.renewal_ms.load(Ordering::SeqCst))).await;
            }
            "release" => drop(self.releases.fetch_add(1, Ordering::SeqCst)),
            _ => {}
        }
        let mut answer = self.inner.apply_now(at, decision, within)?;
        if D::NAME == "acquire" && self.sent_twice.load(Ordering::SeqCst) {
            answer.sent = 2;
        }
        Ok(answer)
    }
}

async fn odd() -> (Keeper, Arc<Odd>) {
    let odd = Arc::new(Odd {
        inner: MemoryStore::new(Arc::new(SystemClock)),
        renewal_ms: AtomicU64::new(0),
        renewals_begun: AtomicU32::new(0),
        dead: AtomicBool::new(false),
        sent_twice: AtomicBool::new(false),
        releases: AtomicU32::new(0),
    });
    (Keeper::builder().store(odd.clone()).connect().await.unwrap(), odd)
}

async fn held(keeper: &Keeper, lease: Duration) -> LockGuard {
    keeper.lock("a").unwrap().lease(lease).try_acquire().await.unwrap().or_busy().unwrap()
}

/// A guard whose renewal has been sent and is not answered soon.
async fn held_in_renewal(keeper: &Keeper, odd: &Odd) -> LockGuard {
    odd.renewal_ms.store(400, Ordering::SeqCst);
    let guard = held(keeper, secs(3)).await;
    until("the renewal is under way", SOON, async || odd.renewals_begun.load(Ordering::SeqCst) > 0).await;
    guard
}

#[tokio::test]
async fn closing_tells_a_guard_that_is_being_renewed() {
    let (keeper, odd) = odd().await;
    let guard = held_in_renewal(&keeper, &odd).await;
    let closed = keeper.close(secs(1)).await;
    assert_eq!((closed.still_held, guard.loss()), (1, Some(LossReason::KeeperClosed)));
}

#[tokio::test]
async fn a_guard_that_is_dropped_during_its_renewal_releases_at_once() {
    let (keeper, odd) = odd().await;
    drop(held_in_renewal(&keeper, &odd).await);
    keeper.close(secs(5)).await;
    assert_eq!(keeper.inspect("a").await.unwrap().holder, None, "left to its lease");
}

#[tokio::test]
async fn a_lost_guard_stays_lost_when_it_is_extended() {
    let (keeper, _odd) = odd().await;
    let lock = keeper.lock("a").unwrap().lease(secs(10)).max_hold(ms(100));
    let guard = lock.try_acquire().await.unwrap().or_busy().unwrap();
    assert_eq!(guard.lost().await, LossReason::MaxHold);
    assert!(guard.extend(secs(60)).await.unwrap_err().is_lost());
    let left = keeper.inspect("a").await.unwrap().remaining.unwrap();
    assert!(left < secs(11), "lengthened for nobody: {left:?}");
}

#[tokio::test]
async fn a_lease_that_could_not_be_renewed_says_why() {
    let (keeper, odd) = odd().await;
    odd.dead.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let guard = keeper.lock("a").unwrap().lease(ms(300)).acquire().await.unwrap().or_busy().unwrap();
        let reason = guard.lost().await;
        assert!(
            matches!(&reason, LossReason::NotRenewed(error) if error.contains("nobody there")),
            "{reason:?}"
        );
    }
}

#[tokio::test]
async fn work_that_releases_its_own_guard_is_not_cancelled() {
    let (keeper, _odd) = odd().await;
    let work = async |held: LockGuard| {
        held.clone().release().await.unwrap();
        tokio::task::yield_now().await;
        42
    };
    assert_eq!(keeper.lock("a").unwrap().run(work).await.unwrap(), 42);
}

/// Its "not after" lies behind the lease: giving back goes on until it has passed.
#[tokio::test]
async fn a_second_copy_of_a_short_lease_is_compensated_until_its_time() {
    let (keeper, odd) = odd().await;
    odd.sent_twice.store(true, Ordering::SeqCst);
    let guard =
        keeper.lock("a").unwrap().lease(ms(300)).no_renewal().try_acquire().await.unwrap().or_busy().unwrap();
    // Counted from before the release, because the first compensation may be as quick as its answer.
    let before = odd.releases.load(Ordering::SeqCst);
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    until("given back", SOON, async || keeper.health().await.giving_back == 0).await;
    let compensations = odd.releases.load(Ordering::SeqCst) - before - 1;
    assert!(compensations >= 2, "{compensations}: none came after \"not after\" had passed");
}

/// An acquire that arrives after its future was dropped, in a store whose clock is not known.
#[tokio::test]
async fn a_foreign_store_is_compensated_until_not_after_too() {
    struct Far(MemoryStore);
    impl<D: Decision<State = LockCell>> Apply<D> for Far {
        async fn apply(
            &self,
            at: &Keys,
            mut decision: D,
            within: Duration,
        ) -> Result<Answer<D::Reply>, Error> {
            decision.set_not_after(self.0.now().after(within));
            let (store, at) = (self.0.clone(), at.clone());
            let there = tokio::spawn(async move {
                if D::NAME == "acquire" {
                    tokio::time::sleep(ms(200)).await;
                }
                store.apply_now(&at, decision, within)
            });
            there.await.unwrap()
        }
    }
    let far = Far(MemoryStore::new(Arc::new(SystemClock)));
    let keeper = Keeper::builder().store(Arc::new(far)).response_timeout(ms(600)).connect().await.unwrap();
    let lock = keeper.lock("a").unwrap().lease(secs(30));
    assert!(tokio::time::timeout(ms(50), lock.try_acquire()).await.is_err());
    until("given back", SOON, async || keeper.health().await.giving_back == 0).await;
    assert_eq!(keeper.inspect("a").await.unwrap().holder, None, "held by nobody for its whole lease");
}

/// A release has no "not after": a late copy of one would meet a token that is used again.
#[tokio::test]
async fn a_given_token_is_spent_once_it_is_in_doubt() {
    struct Unanswered(MemoryStore);
    impl<D: Decision<State = LockCell>> Apply<D> for Unanswered {
        async fn apply(&self, at: &Keys, decision: D, within: Duration) -> Result<Answer<D::Reply>, Error> {
            let answer = self.0.apply_now(at, decision, within)?;
            match D::NAME {
                "acquire" => {
                    Err(Error::new(ErrorKind::OutcomeUnknown { not_after: Some(answer.at) }, D::NAME, ""))
                }
                _ => Ok(answer),
            }
        }
    }
    let store = Unanswered(MemoryStore::new(Arc::new(SystemClock)));
    let keeper = Keeper::builder().store(Arc::new(store)).connect().await.unwrap();
    let lock = keeper.lock("a").unwrap().wait(secs(5)).token(OwnerToken::given("mine").unwrap());
    let started = Instant::now();
    assert!(lock.acquire().await.unwrap_err().is_outcome_unknown());
    assert!(started.elapsed() < secs(4), "it was not tried again");
}

#[tokio::test]
async fn forbidden_scripts_say_nothing_about_a_lost_copy() {
    let sends = Arc::new(AtomicU32::new(0));
    let fake = FakeServer::start(move |_, words| match words[0].as_str() {
        "EVAL" if sends.load(Ordering::SeqCst) > 0 => {
            Fake::Say("-NOPERM this user has no permissions to run the 'eval' command".to_owned())
        }
        "EVALSHA" => {
            sends.fetch_add(1, Ordering::SeqCst);
            Fake::Close
        }
        _ => greeting(words).unwrap_or(Fake::Close),
    });
    let keeper = Keeper::connect(&fake.url()).await.unwrap();
    let error = keeper.lock("a").unwrap().try_acquire().await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
}

/// A peer that answers the greeting and then breaks is not stormed.
#[tokio::test]
async fn connections_that_break_soon_are_replaced_with_growing_pauses() {
    let connections = Arc::new(AtomicU32::new(0));
    let seen = connections.clone();
    let fake = FakeServer::start(move |number, words| match words[0].as_str() {
        "INFO" => {
            seen.store(u32::try_from(number).unwrap(), Ordering::SeqCst);
            greeting(words).unwrap()
        }
        // The first connection is the one for commands; renewals and signs of life break.
        "EVALSHA" if number == 0 => Fake::Say("*3\r\n:1\r\n$7\r\ngranted\r\n:5".to_owned()),
        _ => greeting(words).unwrap_or(Fake::Close),
    });
    let keeper = Keeper::connect(&fake.url()).await.unwrap();
    let _guard = held(&keeper, secs(6)).await;
    // Real time: the renewal is due within two seconds, and then tried again and again.
    tokio::time::sleep(secs(4)).await;
    let made = connections.load(Ordering::SeqCst);
    assert!((2..50).contains(&made), "{made} connections in four seconds");
}

fn proxied(server: &RedisServer) -> FaultProxy {
    FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], server.port()))).unwrap()
}

fn single() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn an_attempt_that_ended_with_its_runtime_is_started_again() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let store = RedisStore::lazy(RedisConfig::from_url(&proxy.url()).unwrap(), Arc::new(SystemClock));
    proxy.hold();
    let runtime = single();
    runtime.block_on(async { assert!(store.heartbeat(ms(50)).await.is_err(), "it is held") });
    let other = std::thread::spawn({
        let store = store.clone();
        move || single().block_on(store.heartbeat(secs(10)))
    });
    drop(runtime);
    proxy.release();
    other.join().unwrap().unwrap();
}

/// Each connection ends with its runtime, soon after it was made. That says nothing about the server.
#[test]
fn a_runtime_for_every_call_is_served() {
    let Some(server) = server() else { return };
    let keeper = single().block_on(Keeper::connect(&server.url())).unwrap();
    for call in 0..8 {
        let acquired = single().block_on(keeper.lock(format!("{call}")).unwrap().try_acquire());
        assert!(acquired.is_ok(), "call {call}: {acquired:?}");
    }
}

/// A runtime that is alive and that nobody drives keeps an attempt to connect, but not for ever.
#[test]
fn an_attempt_on_a_parked_runtime_is_given_up() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let config = RedisConfig::from_url(&proxy.url()).unwrap().connect_timeout(ms(200));
    let store = RedisStore::lazy(config, Arc::new(SystemClock));
    proxy.hold();
    let parked = single();
    parked.block_on(async { assert!(store.heartbeat(ms(50)).await.is_err(), "it is held") });
    proxy.heal();
    let other = single();
    other.block_on(until("connected by somebody else", secs(10), async || {
        store.heartbeat(ms(300)).await.is_ok()
    }));
    drop(parked);
}

#[test]
fn a_keeper_whose_runtime_ended_says_so() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let keeper = runtime.block_on(Keeper::builder().on_current_runtime().connect()).unwrap();
    let before = runtime.block_on(held(&keeper, secs(30)));
    drop(runtime);
    assert_eq!(before.loss(), Some(LossReason::KeeperClosed));
    single().block_on(async {
        let after = keeper.lock("b").unwrap().try_acquire().await.unwrap().or_busy().unwrap();
        assert!(!after.is_valid(), "nobody would renew it");
        drop(after);
        let started = Instant::now();
        keeper.close(secs(10)).await;
        assert!(started.elapsed() < secs(5), "there is nothing to wait for");
    });
}

#[tokio::test]
async fn limits_without_end_are_limits() {
    struct Never;
    impl<D: Decision<State = LockCell>> Apply<D> for Never {
        async fn apply(&self, _: &Keys, _: D, _: Duration) -> Result<Answer<D::Reply>, Error> {
            std::future::pending().await
        }
    }
    let keeper =
        Keeper::builder().response_timeout(Duration::MAX).store(Arc::new(Never)).connect().await.unwrap();
    let lock = keeper.lock("a").unwrap().wait(Duration::MAX).max_hold(Duration::MAX);
    assert!(tokio::time::timeout(ms(10), lock.acquire()).await.is_err(), "dropped in flight, and no panic");

    let Some(server) = server() else { return };
    let endless = RedisConfig::from_url(&server.url()).unwrap();
    let endless = endless.connect_timeout(Duration::MAX).response_timeout(Duration::MAX);
    let keeper = Keeper::builder().redis(endless).connect().await.unwrap();
    let lock = keeper.lock("a").unwrap().wait(Duration::MAX).max_hold(Duration::MAX);
    assert!(lock.acquire().await.unwrap().held().is_some_and(|guard| guard.is_valid()));
}
