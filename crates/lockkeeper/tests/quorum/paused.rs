//! Holders whose time passes without their knowledge: a process that stands still, answers that come late, a line that breaks.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use lockkeeper::core::{Clock, Uptime};
use lockkeeper::{Keeper, LockGuard, Released, SystemClock};
use lockkeeper_faults::FaultProxy;
use lockkeeper_testkit::wait::until;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{SOON, got, ms, secs, take, waits};
use crate::views::{Views, config, url};

const LEASE: Duration = secs(1);
const URL: &str = "LOCKKEEPER_QUORUM_URL";

/// Another process, which holds the lock `a`.
struct Other {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
    go_on: ChildStdin,
}

impl Other {
    fn start(url: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "paused::holding_child", "--ignored", "--nocapture"]).env(URL, url);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let go_on = child.stdin.take().unwrap();
        Self { child, said, go_on }
    }

    /// What it says after `name=`.
    fn hears(&mut self, name: &str) -> String {
        let mark = format!("{name}=");
        self.said.find_map(|line| Some(line.unwrap().split_once(&mark)?.1.to_owned())).unwrap()
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stopped for longer than its lease, while another takes the lock; back again, it knows before it does anything, and neither
/// its renewal nor its release touches the other's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_process_comes_back_to_a_guard_that_is_not_valid() {
    let Some(views) = Views::start(2, "max_lease=2s").await else { return };
    let mut child = Other::start(&url(&views.proxies[1], "max_lease=2s"));
    let fence: u64 = child.hears("fence").parse().unwrap();
    // It is renewed.
    tokio::time::sleep(LEASE * 3 / 2).await;
    assert!(views.keepers[0].inspect("a").await.unwrap().holder.is_some());
    child.send(Signal::STOP);
    let waiting = waits(views.keepers[0].lock("a").unwrap().lease(LEASE).wait(secs(20)));
    let guard = got(waiting).await;
    assert!(guard.fence().unwrap().get() > fence);
    child.send(Signal::CONT);
    child.go_on.write_all(b"\n").unwrap();
    assert_eq!(child.hears("valid"), "false");
    let released = child.hears("released");
    assert!(!released.contains("Ok(Released)"), "{released}");
    // One whole lease: it is renewed still.
    tokio::time::sleep(LEASE).await;
    assert!(guard.is_valid(), "{:?}", guard.loss());
    let holder = views.keepers[0].inspect("a").await.unwrap().holder;
    assert_eq!(holder, Some(guard.token().holder()));
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    until("no server keeps it", SOON, async || views.holding("a") == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the process that a_stopped_process_comes_back_to_a_guard_that_is_not_valid starts and stops"]
async fn holding_child() {
    let Ok(url) = std::env::var(URL) else { return };
    let keeper = Keeper::builder().quorum(config(&url)).connect().await.unwrap();
    let guard = keeper.lock("a").unwrap().lease(LEASE).acquire().await.unwrap().or_busy().unwrap();
    println!("fence={}", guard.fence().unwrap());
    // Until somebody says so.
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    println!("valid={}", guard.is_valid());
    println!("released={:?}", guard.release().await);
}

/// Up to when it was seen valid.
async fn valid_until(guard: &LockGuard) -> Uptime {
    let mut last = SystemClock.uptime();
    loop {
        let now = SystemClock.uptime();
        if !guard.is_valid() {
            return last;
        }
        last = now;
        tokio::time::sleep(ms(1)).await;
    }
}

/// Lines on which a request and its answer take 180 ms of the 300 that a server is given, and more than the margin of a lease.
const SLOW: Duration = ms(90);
const SLOW_LEASE: Duration = secs(3);

/// Takes it without renewals; on a busy machine the slow lines may take a try or two.
async fn take_slowly(keeper: &Keeper, name: &str) -> LockGuard {
    let lock = keeper.lock(name).unwrap().lease(SLOW_LEASE).no_renewal().wait(secs(5));
    loop {
        match lock.acquire().await {
            Ok(acquired) => return acquired.or_busy().unwrap(),
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
}

/// The next holder, and that the first one had stopped when it began.
async fn next_begins_after(views: &Views, name: &str, first: LockGuard) -> LockGuard {
    let waiting = waits(views.keepers[1].lock(name).unwrap().lease(SLOW_LEASE).wait(secs(20)));
    let stopping = tokio::spawn({
        let first = first.clone();
        async move { valid_until(&first).await }
    });
    let second = got(waiting).await;
    let began = SystemClock.uptime();
    let stopped = tokio::time::timeout(secs(10), stopping).await.unwrap().unwrap();
    assert!(stopped < began, "{:?} together", stopped.since(began));
    assert!(second.fence().unwrap() > first.fence().unwrap());
    second
}

/// A holder counts from before it asked, so that slow answers end its guard no later than the servers end the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_answers_were_slow_stops_before_the_next_begins() {
    let Some(views) = Views::start(2, "max_lease=10s").await else { return };
    take(&views.keepers[0], "warm", LEASE).await.release().await.unwrap();
    views.of(0, |proxy| proxy.slow(SLOW));
    let first = take_slowly(&views.keepers[0], "a").await;
    let second = next_begins_after(&views, "a", first).await;
    second.release().await.unwrap();
}

/// The same for renewals: the last one that was answered counts from before it was sent, and one that was not, not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_cut_off_stops_before_the_next_begins() {
    let Some(views) = Views::start(2, "max_lease=10s").await else { return };
    let cuts: [fn(&FaultProxy); 2] = [FaultProxy::hold, FaultProxy::hold_replies];
    for (round, cut) in cuts.into_iter().enumerate() {
        let name = format!("a{round}");
        let lock = views.keepers[0].lock(&name).unwrap().lease(SLOW_LEASE);
        let first = lock.acquire().await.unwrap().or_busy().unwrap();
        views.of(0, |proxy| proxy.slow(SLOW));
        // Before it is renewed for the first time.
        tokio::time::sleep(SLOW_LEASE / 6).await;
        let left = first.remaining();
        until("it is renewed over slow lines", SLOW_LEASE, async || first.remaining() > left).await;
        views.of(0, cut);
        let second = next_begins_after(&views, &name, first).await;
        views.of(0, FaultProxy::heal);
        tokio::time::sleep(LEASE / 2).await;
        assert!(second.is_valid(), "what came late took nothing: {:?}", second.loss());
        second.release().await.unwrap();
        until("no server keeps it", SOON, async || views.holding(&name) == 0).await;
    }
}
