//! A lock that goes from holder to holder inside one process: one at a time, in order, with growing fences, and fair to
//! other keepers.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockkeeper::{
    Acquired, ErrorKind, Fence, Keeper, Lock, LockGuard, LossReason, MemoryStore, OwnerToken, Released,
};
use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::wait::until;
use support::{
    SOON, calls, command, exists, got, in_line, keeper, median, ms, noted, nothing_left, quiet, secs, server,
    take, waits,
};

const LEASE: Duration = Duration::from_secs(60);

fn plain(keeper: &Keeper) -> Lock {
    keeper.lock("a").unwrap().lease(LEASE).wait(secs(60))
}

/// A holder of `lock` who can pass it on as it is: there are fences left.
async fn established(lock: &Lock, keeper: &Keeper) -> LockGuard {
    let first = lock.acquire().await.unwrap().or_busy().unwrap();
    let next = waits(lock.clone());
    in_line(keeper, 1).await;
    assert_eq!(first.release().await.unwrap(), Released::Released);
    got(next).await
}

/// Passes from `holder` to one who waits for `next`.
async fn pass(holder: LockGuard, next: Lock, keeper: &Keeper) -> LockGuard {
    let fence = holder.fence().unwrap();
    let next = waits(next);
    in_line(keeper, 1).await;
    assert_eq!(holder.release().await.unwrap(), Released::Released);
    let next = got(next).await;
    assert!(next.fence().unwrap() > fence && next.is_valid());
    next
}

fn token_of(server: &RedisServer, key: &str) -> Vec<u8> {
    command(server, &["GET", key]).as_bytes().unwrap_or_default().to_vec()
}

fn left_of(server: &RedisServer, key: &str) -> Duration {
    ms(u64::try_from(command(server, &["PTTL", key]).as_int().unwrap()).unwrap())
}

/// What must never have two inside, and who was there, in order.
#[derive(Default)]
struct Section {
    is_used: AtomicBool,
    fences: Mutex<Vec<Fence>>,
}

impl Section {
    async fn visit(&self, lock: &Lock) {
        let guard = lock.acquire().await.unwrap().or_busy().unwrap();
        assert!(!self.is_used.swap(true, Ordering::SeqCst), "two are inside");
        self.fences.lock().unwrap().push(guard.fence().unwrap());
        tokio::task::yield_now().await;
        assert!(guard.is_valid(), "{:?}", guard.loss());
        self.is_used.store(false, Ordering::SeqCst);
        drop(guard.release().await.unwrap());
    }

    fn assert_growing(&self, count: usize) {
        let fences = self.fences.lock().unwrap().clone();
        assert_eq!(fences.len(), count);
        assert!(fences.is_sorted_by(|one, next| one < next), "fences grow in the order of holding");
    }
}

/// `tasks` tasks, each of which visits `section` so often.
async fn visits(section: &Arc<Section>, lock: &Lock, tasks: usize, times: usize) {
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let (section, lock) = (section.clone(), lock.clone());
            tokio::spawn(async move {
                for _ in 0..times {
                    section.visit(&lock).await;
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(secs(60), task).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sections_cost_few_requests_and_never_overlap() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let section = Arc::new(Section::default());
    let before = calls(&server, &["evalsha", "eval"]);
    visits(&section, &plain(&keeper), 50, 40).await;
    section.assert_growing(2000);
    let sent = calls(&server, &["evalsha", "eval"]) - before;
    assert!(sent <= 200, "{sent} requests for 2000 sections");
    nothing_left(&server, &keeper, "at the end").await;
}

/// L112: ownership is the guard, never the thread.
#[tokio::test]
async fn l112_two_tasks_on_one_thread_exclude_each_other() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let section = Arc::new(Section::default());
    visits(&section, &plain(&keeper), 2, 30).await;
    section.assert_growing(60);
    let holder = plain(&keeper).acquire().await.unwrap().or_busy().unwrap();
    let again = plain(&keeper).wait(ms(100)).acquire().await.unwrap();
    assert!(matches!(again, Acquired::Busy(_)), "{again:?}");
    drop(holder);
}

#[tokio::test]
async fn first_come_first_served() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let holder = established(&plain(&keeper), &keeper).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..12 {
        // Every third one has to swap.
        let lock = if number % 3 == 0 { plain(&keeper).lease(secs(50)) } else { plain(&keeper) };
        let order = order.clone();
        tasks.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap().or_busy().unwrap();
            order.lock().unwrap().push(number);
            drop(guard.release().await.unwrap());
        }));
        in_line(&keeper, number + 1).await;
    }
    drop(holder);
    for task in tasks {
        tokio::time::timeout(secs(10), task).await.unwrap().unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..12).collect::<Vec<_>>());
}

#[tokio::test]
async fn who_wants_the_same_gets_the_same_tenure_by_release_and_by_drop() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let holder = established(&plain(&keeper), &keeper).await;
    let token = token_of(&server, "lock:a");
    let holder = pass(holder, plain(&keeper), &keeper).await;
    assert_eq!(token_of(&server, "lock:a"), token);
    let next = waits(plain(&keeper));
    in_line(&keeper, 1).await;
    drop((holder.clone(), holder));
    let holder = got(next).await;
    assert_eq!(token_of(&server, "lock:a"), token);
    drop(holder);
    nothing_left(&server, &keeper, "at the end").await;
}

#[tokio::test]
async fn several_keys_are_passed_on_together() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let lock = keeper.lock_all(["a", "b", "c"]).unwrap().lease(LEASE);
    let holder = established(&lock, &keeper).await;
    let token = token_of(&server, "lock:c");
    let holder = pass(holder, lock.clone(), &keeper).await;
    assert!(token_of(&server, "lock:a") == token && token_of(&server, "lock:c") == token);
    drop(holder);
    nothing_left(&server, &keeper, "at the end").await;
}

/// The line of the one who holds is long gone when somebody comes.
#[tokio::test]
async fn it_is_passed_on_to_one_who_comes_long_after_the_last() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let holder = established(&plain(&keeper), &keeper).await;
    let token = token_of(&server, "lock:a");
    // Real time: the line lingers for a tenth of a second.
    tokio::time::sleep(ms(400)).await;
    let holder = pass(holder, plain(&keeper), &keeper).await;
    assert_eq!(token_of(&server, "lock:a"), token);
    drop(holder);
    nothing_left(&server, &keeper, "at the end").await;
}

#[tokio::test]
async fn who_wants_something_else_gets_a_tenure_of_their_own() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let lock = plain(&keeper);
    let own = OwnerToken::given("my own").unwrap();
    for (what, other, lease) in [
        ("lease", lock.clone().lease(secs(7)), secs(7)),
        ("renewal", lock.clone().no_renewal(), LEASE),
        ("label", lock.clone().owner("me"), LEASE),
        ("token", lock.clone().token(own.clone()), LEASE),
    ] {
        let holder = established(&lock, &keeper).await;
        let token = token_of(&server, "lock:a");
        let next = pass(holder, other, &keeper).await;
        let now = token_of(&server, "lock:a");
        assert_ne!(now, token, "{what}");
        let left = left_of(&server, "lock:a");
        assert!(left <= lease && left > lease - secs(2), "{what}: {left:?}");
        assert_eq!(what == "token", now == own.as_bytes());
        let shown = keeper.inspect("a").await.unwrap().holder.unwrap().to_string();
        assert_eq!(what == "label", shown.ends_with(":me"), "{shown}");
        // And the other way round.
        let back = pass(next, lock.clone(), &keeper).await;
        assert_eq!(what == "renewal", token_of(&server, "lock:a") == now, "{what}");
        assert!(back.is_valid());
        drop(back);
        nothing_left(&server, &keeper, "at the end").await;
    }
}

#[tokio::test]
async fn a_lengthened_lease_is_not_inherited() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let holder = established(&plain(&keeper), &keeper).await;
    let token = token_of(&server, "lock:a");
    holder.extend(secs(600)).await.unwrap();
    let next = pass(holder, plain(&keeper), &keeper).await;
    assert_ne!(token_of(&server, "lock:a"), token);
    assert!(left_of(&server, "lock:a") <= LEASE);
    assert!(next.remaining() <= LEASE);
}

/// The one before did not renew it; the next one does.
#[tokio::test]
async fn what_was_not_renewed_is_renewed_for_the_next() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let lock = plain(&keeper).lease(ms(800));
    let holder = established(&lock.clone().no_renewal(), &keeper).await;
    let token = token_of(&server, "lock:a");
    let holder = pass(holder, lock, &keeper).await;
    assert_eq!(token_of(&server, "lock:a"), token, "it could be passed on as it is");
    // Real time: two leases.
    tokio::time::sleep(ms(1600)).await;
    assert!(holder.is_valid(), "{:?}", holder.loss());
}

#[tokio::test]
async fn the_bound_on_holding_is_each_holders_own() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let lock = plain(&keeper).lease(ms(1000)).max_hold(ms(500));
    let mut holder = established(&lock, &keeper).await;
    for _ in 0..3 {
        tokio::time::sleep(ms(250)).await;
        assert!(holder.is_valid(), "{:?}", holder.loss());
        holder = pass(holder, lock.clone(), &keeper).await;
    }
    let started = Instant::now();
    assert_eq!(tokio::time::timeout(SOON, holder.lost()).await.unwrap(), LossReason::MaxHold);
    assert!(started.elapsed() >= ms(400), "{:?}", started.elapsed());
    // And one without a bound has none.
    let holder = established(&lock, &keeper).await;
    let holder = pass(holder, lock.clone().max_hold(None), &keeper).await;
    tokio::time::sleep(ms(1200)).await;
    assert!(holder.is_valid(), "{:?}", holder.loss());
}

#[tokio::test]
async fn the_bound_on_renewals_is_each_holders_own() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let lock = plain(&keeper).lease(ms(900)).max_renewals(1);
    let holder = established(&lock, &keeper).await;
    // Renewed once: it would be lost at the end of this lease.
    until("renewed", SOON, async || holder.remaining() > ms(870)).await;
    until("not renewed again", SOON, async || holder.remaining() < ms(560)).await;
    let holder = pass(holder, lock, &keeper).await;
    let started = Instant::now();
    assert_eq!(tokio::time::timeout(SOON, holder.lost()).await.unwrap(), LossReason::MaxRenewals);
    assert!(started.elapsed() >= ms(850), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_token_that_was_shown_serves_one_holder_only() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let holder = established(&plain(&keeper), &keeper).await;
    let shown = holder.token().clone();
    let next = pass(holder, plain(&keeper), &keeper).await;
    assert_ne!(token_of(&server, "lock:a"), shown.as_bytes());
    assert_ne!(keeper.release_token("a", &shown).await.unwrap(), Released::Released);
    assert!(next.is_valid() && exists(&server, "lock:a"));
    assert_eq!(next.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn a_loss_reaches_the_holder_of_now_and_the_line_races_on() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let lock = plain(&keeper).lease(ms(600));
    let holder = established(&lock, &keeper).await;
    let holder = pass(holder, lock.clone(), &keeper).await;
    let (fence, next) = (holder.fence().unwrap(), waits(lock));
    in_line(&keeper, 1).await;
    command(&server, &["DEL", "lock:a"]);
    let reason = tokio::time::timeout(SOON, holder.lost()).await.unwrap();
    assert!(matches!(reason, LossReason::KeyGone | LossReason::HeldByAnother(_)), "{reason:?}");
    let next = got(next).await;
    assert!(next.fence().unwrap() > fence && next.is_valid());
    drop(holder);
    // Whatever the lost one gave back was not the next one's.
    quiet(&keeper).await;
    assert!(next.is_valid() && exists(&server, "lock:a"));
    let token = token_of(&server, "lock:a");
    let after = pass(next, plain(&keeper).lease(ms(600)), &keeper).await;
    assert_eq!(token_of(&server, "lock:a"), token, "the turn goes on with the new tenure");
    drop(after);
}

/// Nobody of this process waits at the server: the watchdog finds out.
#[tokio::test]
async fn a_loss_that_the_watchdog_finds_reaches_the_holder_of_now() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let lock = plain(&keeper).lease(ms(600));
    let holder = established(&lock, &keeper).await;
    let holder = pass(holder, lock, &keeper).await;
    command(&server, &["SET", "lock:a", "stranger", "PX", "5000"]);
    let reason = tokio::time::timeout(SOON, holder.lost()).await.unwrap();
    assert!(matches!(reason, LossReason::HeldByAnother(_)), "{reason:?}");
    drop(holder);
    assert_eq!(token_of(&server, "lock:a"), b"stranger");
}

#[tokio::test]
async fn who_runs_out_of_patience_is_told_of_the_holder_here() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let holder = established(&plain(&keeper), &keeper).await;
    let started = Instant::now();
    let outcome = plain(&keeper).wait(ms(300)).acquire().await.unwrap();
    let Acquired::Busy(busy) = outcome else { panic!("{outcome:?}") };
    assert!(started.elapsed() >= ms(300) && started.elapsed() < secs(1), "{:?}", started.elapsed());
    assert_eq!(Some(busy.holder), keeper.inspect("a").await.unwrap().holder);
    assert!(busy.remaining.is_some_and(|left| left > secs(50)));
    assert!(holder.is_valid());
    in_line(&keeper, 0).await;
}

#[tokio::test]
async fn closing_tells_those_who_wait_at_once() {
    let Some(server) = server() else { return };
    let (keeper, other) = (keeper(&server).await, keeper(&server).await);
    let holder = take(&other, "a", secs(60)).await;
    let held = keeper.lock("b").unwrap().acquire().await.unwrap().or_busy().unwrap();
    let mut tasks: Vec<_> = (0..5).map(|_| waits(plain(&keeper))).collect();
    tasks.push(waits(keeper.lock("b").unwrap()));
    in_line(&keeper, 6).await;
    let closing = tokio::spawn({
        let keeper = keeper.clone();
        async move { keeper.close(secs(5)).await }
    });
    for task in tasks {
        let error = tokio::time::timeout(secs(1), task).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
    assert_eq!(closing.await.unwrap().undone, 0);
    assert_eq!(plain(&keeper).acquire().await.unwrap_err().kind(), ErrorKind::Closed);
    assert!(!held.is_valid() && holder.is_valid());
}

/// While B waits, A's turns end. Twenty times in a row B gets it soon, and A goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_keeper_lets_another_in() {
    let Some(server) = server() else { return };
    let (busy, other) = (keeper(&server).await, keeper(&server).await);
    let (section, stops) = (Arc::new(Section::default()), Arc::new(AtomicBool::new(false)));
    let visited = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let (section, stops, visited) = (section.clone(), stops.clone(), visited.clone());
            let lock = plain(&busy);
            tokio::spawn(async move {
                while !stops.load(Ordering::SeqCst) {
                    section.visit(&lock).await;
                    visited.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let mut waited = Vec::new();
    for round in 0..20 {
        let before = visited.load(Ordering::SeqCst);
        until("the busy keeper is busy", SOON, async || visited.load(Ordering::SeqCst) > before + 20).await;
        let started = Instant::now();
        section.visit(&plain(&other)).await;
        assert!(started.elapsed() < secs(1), "round {round}: {:?}", started.elapsed());
        waited.push(started.elapsed());
    }
    // A turn takes 5 ms. Without asking meanwhile, others are noticed after 0.8 s.
    assert!(median(&waited) < ms(100), "{waited:?}");
    stops.store(true, Ordering::SeqCst);
    for task in tasks {
        tokio::time::timeout(secs(10), task).await.unwrap().unwrap();
    }
    let count = section.fences.lock().unwrap().len();
    section.assert_growing(count);
    assert_eq!(count, visited.load(Ordering::SeqCst) + 20);
    nothing_left(&server, &busy, "at the end").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_in_memory_passes_on_and_waits() {
    let keeper = Keeper::connect("memory://").await.unwrap();
    let section = Arc::new(Section::default());
    visits(&section, &plain(&keeper), 20, 20).await;
    section.assert_growing(400);
    let holder = plain(&keeper).acquire().await.unwrap().or_busy().unwrap();
    let outcome = plain(&keeper).wait(ms(100)).acquire().await.unwrap();
    assert!(matches!(outcome, Acquired::Busy(_)), "{outcome:?}");
    drop(pass(holder, plain(&keeper).lease(secs(7)), &keeper).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_keepers_on_one_memory_store_take_turns() {
    let store = MemoryStore::new(Arc::new(lockkeeper::SystemClock));
    let one = Keeper::builder().memory_store(store.clone()).connect().await.unwrap();
    let other = Keeper::builder().memory_store(store).connect().await.unwrap();
    let section = Arc::new(Section::default());
    let (ones, others) = (plain(&one), plain(&other));
    tokio::join!(visits(&section, &ones, 10, 10), visits(&section, &others, 10, 10));
    section.assert_growing(200);
}

/// A waiter whose runtime nobody drives any more is passed over.
#[tokio::test]
async fn one_whose_runtime_stands_still_blocks_nobody() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let holder = established(&plain(&keeper), &keeper).await;
    let parked = std::thread::spawn({
        let lock = plain(&keeper);
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let mut waiting = Box::pin(async move { lock.acquire().await });
            runtime.block_on(async {
                let waited = tokio::time::timeout(ms(100), &mut waiting).await;
                assert!(waited.is_err());
            });
            (runtime, waiting)
        }
    });
    let (runtime, parked) = parked.join().unwrap();
    let next = waits(plain(&keeper));
    in_line(&keeper, 2).await;
    drop(holder);
    let next = tokio::time::timeout(SOON, next).await.expect("it is passed over").unwrap().unwrap();
    let next = next.or_busy().unwrap();
    // Driven again, it waits like any other.
    let done = std::thread::spawn(move || runtime.block_on(parked).unwrap().or_busy().unwrap());
    in_line(&keeper, 1).await;
    drop(next.release().await.unwrap());
    until("it had its turn", SOON, async || done.is_finished()).await;
    drop(done.join().unwrap());
    nothing_left(&server, &keeper, "at the end").await;
}

/// L25: two wait for two keys, one gives up; both keys are used again, and nothing is left registered.
#[tokio::test]
async fn l25_nothing_stays_registered() {
    let Some(server) = server() else { return };
    let (keeper, other) = (keeper(&server).await, keeper(&server).await);
    for _ in 0..3 {
        let (a, b) = (take(&other, "a", secs(60)).await, take(&other, "b", secs(60)).await);
        let one = waits(keeper.lock("a").unwrap().wait(ms(200)));
        let two = waits(keeper.lock("b").unwrap().wait(secs(20)));
        noted(&other, "a", 1).await;
        noted(&other, "b", 1).await;
        assert!(matches!(one.await.unwrap().unwrap(), Acquired::Busy(_)));
        drop(a.release().await.unwrap());
        drop(b.release().await.unwrap());
        drop(got(two).await.release().await.unwrap());
    }
    let tracked = || {
        let info = command(&server, &["INFO", "stats"]);
        info.as_str().unwrap().lines().any(|line| line == "tracking_total_keys:0")
    };
    until("nothing is registered", SOON, async || tracked()).await;
    until("no note is left", SOON, async || {
        command(&server, &["KEYS", "lock:~wait:*"]).as_array().unwrap().is_empty()
    })
    .await;
    assert_eq!(keeper.health().await.waiting, 0);
}

/// The line wins the lock that its own keeper thought to have: that holder is told at once, not by the next renewal.
#[tokio::test]
async fn a_lock_won_again_is_lost_to_the_one_before() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let holder = established(&plain(&keeper), &keeper).await;
    let next = waits(plain(&keeper));
    noted(&keeper, "a", 1).await;
    command(&server, &["DEL", "lock:a"]);
    let next = got(next).await;
    assert_eq!(tokio::time::timeout(SOON, holder.lost()).await.unwrap(), LossReason::KeyGone);
    let token = token_of(&server, "lock:a");
    let after = pass(next, plain(&keeper), &keeper).await;
    assert_eq!(token_of(&server, "lock:a"), token, "the line knows its new tenure");
    drop((holder, after));
    nothing_left(&server, &keeper, "at the end").await;
}

/// A tenure that cannot be passed on is released, and the line is told by its own keeper: this store tells nobody.
#[tokio::test]
async fn a_release_here_wakes_the_line_here() {
    let keeper = Keeper::connect("memory://").await.unwrap();
    let mut times = Vec::new();
    for _ in 0..9 {
        let holder = established(&plain(&keeper), &keeper).await;
        let holder = pass(holder, plain(&keeper), &keeper).await;
        let _shown = holder.token();
        let next = waits(plain(&keeper));
        in_line(&keeper, 1).await;
        // Real time: whatever was under way has been done.
        tokio::time::sleep(ms(50)).await;
        let started = Instant::now();
        drop(holder.release().await.unwrap());
        drop(got(next).await.release().await.unwrap());
        times.push(started.elapsed());
    }
    assert!(median(&times) < ms(150), "{times:?}");
}
