//! How one who waits learns that a lock is free: told by the server, at the end of a lease, or by polling.
//!
//! Polling alone takes half a second to a second after the last try. So who is woken sooner, in the median of several
//! rounds, was told.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lockkeeper::{Acquired, Keeper, Lock};
use lockkeeper_faults::{DropReply, FaultProxy, RedisServer, ServerKind, available};
use lockkeeper_testkit::wait::until;
use support::{SOON, calls, command, got, keeper, median, ms, noted, secs, server, take, waits};

const ROUNDS: usize = 9;
/// Below what polling takes.
const TOLD: Duration = Duration::from_millis(250);

/// A lease that ends no round.
fn long(keeper: &Keeper) -> Lock {
    keeper.lock("a").unwrap().lease(secs(60)).wait(secs(60))
}

fn proxied(server: &RedisServer) -> FaultProxy {
    FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], server.port()))).unwrap()
}

/// How long after `free` one of `waiting` has it, who was told busy before. `looking` sees who waits.
async fn wake(waiting: &Keeper, looking: &Keeper, free: impl AsyncFnOnce()) -> Duration {
    let task = waits(long(waiting));
    noted(looking, "a", 1).await;
    let started = Instant::now();
    free().await;
    let guard = got(task).await;
    let took = started.elapsed();
    drop(guard.release().await);
    took
}

fn assert_told(times: &[Duration]) {
    assert!(median(times) < TOLD, "{times:?}");
}

/// A lock of another library: a binary token, and no expiry.
const FOREIGN: [u8; 20] = [0xff; 20];

fn foreign_take(server: &RedisServer) {
    server.command_bytes(&[b"SET", b"lock:a", &FOREIGN, b"NX"]).unwrap();
}

fn foreign_release(server: &RedisServer) {
    let script =
        b"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
    let reply = server.command_bytes(&[b"EVAL", script, b"1", b"lock:a", &FOREIGN]).unwrap();
    assert_eq!(reply.as_int(), Some(1));
}

#[tokio::test]
async fn a_release_by_another_keeper_wakes() {
    let Some(server) = server() else { return };
    let (holding, waiting) = (keeper(&server).await, keeper(&server).await);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let holder = take(&holding, "a", secs(60)).await;
        times.push(wake(&waiting, &holding, async || drop(holder.release().await.unwrap())).await);
    }
    assert_told(&times);
}

/// L118, L119: shown as hex, without an expiry, waited for like any other.
#[tokio::test]
async fn l118_l119_a_release_by_a_foreign_client_wakes() {
    let Some(server) = server() else { return };
    let (waiting, looking) = (keeper(&server).await, keeper(&server).await);
    foreign_take(&server);
    let busy = waiting.lock("a").unwrap().wait(ms(50)).acquire().await.unwrap();
    let Acquired::Busy(busy) = busy else { panic!("{busy:?}") };
    assert_eq!(busy.remaining, None);
    assert!(busy.to_string().contains("0xff") && busy.to_string().contains("no expiry"), "{busy}");
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        foreign_take(&server);
        times.push(wake(&waiting, &looking, async || foreign_release(&server)).await);
    }
    assert_told(&times);
}

/// No expiry is neither zero nor for ever: it is asked for at the pace of the backstop.
#[tokio::test]
async fn l119_no_expiry_is_no_hot_loop_and_no_long_sleep() {
    let Some(server) = server() else { return };
    let (waiting, looking) = (keeper(&server).await, keeper(&server).await);
    foreign_take(&server);
    let task = waits(long(&waiting));
    noted(&looking, "a", 1).await;
    let before = calls(&server, &["evalsha"]);
    // Real time: two to four tries.
    tokio::time::sleep(ms(2100)).await;
    let tries = calls(&server, &["evalsha"]) - before;
    assert!((2..=5).contains(&tries), "{tries} tries in 2.1 s");
    foreign_release(&server);
    drop(got(task).await);
}

/// Among many volatile keys the server's own notice of an expiry comes seconds late.
#[tokio::test]
async fn the_end_of_a_lease_is_not_waited_for_by_notice() {
    let Some(server) = server() else { return };
    let (waiting, looking) = (keeper(&server).await, keeper(&server).await);
    let fill = "for i = 1, 5000 do redis.call('SET', 'v' .. i, 1, 'EX', 10000) end";
    server.command(&["EVAL", fill, "0"]).unwrap();
    let mut late = Vec::new();
    for _ in 0..ROUNDS {
        let lease = ms(700);
        let started = Instant::now();
        command(&server, &["SET", "lock:a", "dead", "PX", "700"]);
        wake(&waiting, &looking, async || ()).await;
        late.push(started.elapsed().saturating_sub(lease));
    }
    assert!(median(&late) < ms(75), "{late:?}");
}

#[tokio::test]
async fn a_flush_wakes() {
    let Some(server) = server() else { return };
    let (waiting, looking) = (keeper(&server).await, keeper(&server).await);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        foreign_take(&server);
        times.push(wake(&waiting, &looking, async || drop(command(&server, &["FLUSHALL"]))).await);
    }
    assert_told(&times);
}

/// The connections that are told of changes.
fn listening(server: &RedisServer) -> Vec<String> {
    let list = command(server, &["CLIENT", "LIST"]);
    let word = |line: &str, name: &str| {
        line.split(' ').find_map(|word| word.strip_prefix(name).map(str::to_owned)).unwrap_or_default()
    };
    let lines = list.as_str().unwrap().lines();
    lines.filter(|line| word(line, "flags=").contains('t')).map(|line| word(line, "id=")).collect()
}

#[tokio::test]
async fn a_release_while_the_waiting_connection_is_down_wakes() {
    let Some(server) = server() else { return };
    let looking = keeper(&server).await;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        // Fresh each time: connections that keep breaking are replaced with growing pauses.
        let waiting = keeper(&server).await;
        foreign_take(&server);
        let kill = async || {
            let ids = listening(&server);
            assert!(!ids.is_empty());
            ids.iter().for_each(|id| drop(server.command(&["CLIENT", "KILL", "ID", id])));
            foreign_release(&server);
        };
        times.push(wake(&waiting, &looking, kill).await);
        waiting.close(secs(1)).await;
        until("its connections are gone", SOON, async || {
            drop(waiting.health().await);
            listening(&server).len() <= 1
        })
        .await;
    }
    assert_told(&times);
}

/// The time to get the lock of one who may not listen, after it is free.
async fn wake_by_polling(user: &str, server: &RedisServer) {
    let url = format!("redis://{user}:pw@127.0.0.1:{}", server.port());
    let (waiting, looking) = (Keeper::connect(&url).await.unwrap(), keeper(server).await);
    for _ in 0..2 {
        foreign_take(server);
        let task = waits(long(&waiting));
        noted(&looking, "a", 1).await;
        // Real time: the pauses grow to their longest.
        tokio::time::sleep(ms(700)).await;
        assert!(listening(server).is_empty(), "{user} listens");
        let started = Instant::now();
        foreign_release(server);
        let guard = got(task).await;
        assert!(started.elapsed() < ms(1700), "{user}: {:?}", started.elapsed());
        drop(guard.release().await);
    }
}

#[tokio::test]
async fn l94_who_may_not_track_polls() {
    let Some(server) = server() else { return };
    command(&server, &["ACL", "SETUSER", "notrack", "on", ">pw", "~*", "+@all", "-client|tracking"]);
    wake_by_polling("notrack", &server).await;
}

/// No rule for users refuses `HELLO`; but a server may be without it.
#[tokio::test]
async fn l94_where_there_is_no_hello_who_waits_polls() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().config("rename-command", "HELLO no-hello").start().unwrap();
    command(&server, &["ACL", "SETUSER", "nohello", "on", ">pw", "~*", "+@all"]);
    wake_by_polling("nohello", &server).await;
}

#[tokio::test]
async fn a_server_that_was_restarted_empty_lets_those_in_who_wait() {
    let Some(server) = server() else { return };
    let (holding, waiting) = (keeper(&server).await, keeper(&server).await);
    let holder = take(&holding, "a", secs(60)).await;
    let task = waits(long(&waiting));
    noted(&holding, "a", 1).await;
    server.kill().unwrap();
    server.restart().unwrap();
    let started = Instant::now();
    let guard = got(task).await;
    assert!(started.elapsed() < secs(5), "{:?}", started.elapsed());
    assert!(guard.fence().unwrap() > holder.fence().unwrap());
    // The connection is new, and is told as the old one was.
    drop(guard.release().await.unwrap());
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        foreign_take(&server);
        times.push(wake(&waiting, &holding, async || foreign_release(&server)).await);
    }
    assert_told(&times);
}

/// The release comes while the waiting connection is being made.
#[tokio::test]
async fn l22_a_release_before_anybody_listens_is_seen() {
    let Some(server) = server() else { return };
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let proxy = proxied(&server);
        let waiting = Keeper::connect(&proxy.url()).await.unwrap();
        foreign_take(&server);
        proxy.slow(ms(10));
        let connections = proxy.accepted();
        let task = waits(long(&waiting));
        until("it connects to listen", SOON, async || proxy.accepted() > connections).await;
        foreign_release(&server);
        let started = Instant::now();
        let guard = got(task).await;
        times.push(started.elapsed());
        proxy.heal();
        drop(guard.release().await);
    }
    assert!(median(&times) < ms(400), "{times:?}");
}

#[tokio::test]
async fn l23_a_notice_that_is_lost_with_its_connection_costs_no_lease() {
    let Some(server) = server() else { return };
    let looking = keeper(&server).await;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let proxy = proxied(&server);
        let waiting = Keeper::connect(&proxy.url()).await.unwrap();
        foreign_take(&server);
        let lose = async || {
            proxy.drop_next_reply(DropReply::ThenClose);
            foreign_release(&server);
        };
        times.push(wake(&waiting, &looking, lose).await);
    }
    assert_told(&times);
}

/// Nothing tells that the notice was lost: the next try finds the connection silent, and another one is made.
#[tokio::test]
async fn l23_a_notice_that_is_lost_in_silence_costs_no_lease() {
    let Some(server) = server() else { return };
    let (proxy, looking) = (proxied(&server), keeper(&server).await);
    let waiting = Keeper::builder().url(&proxy.url()).unwrap().response_timeout(ms(200)).connect().await;
    let waiting = waiting.unwrap();
    foreign_take(&server);
    let lose = async || {
        proxy.drop_next_reply(DropReply::Silently);
        foreign_release(&server);
    };
    let took = wake(&waiting, &looking, lose).await;
    assert!(took < secs(6), "{took:?}");
}

/// Between the first try and the one that listens: whoever says busy registers in the same step.
#[tokio::test]
async fn l26_no_release_falls_into_a_gap() {
    let Some(server) = server() else { return };
    let (holding, waiting) = (keeper(&server).await, keeper(&server).await);
    let mut times = Vec::new();
    for round in 0..60 {
        let holder = take(&holding, "a", secs(60)).await;
        let task = waits(long(&waiting));
        tokio::time::sleep(Duration::from_micros(round * 100)).await;
        let started = Instant::now();
        holder.release().await.unwrap();
        let guard = got(task).await;
        times.push(started.elapsed());
        guard.release().await.unwrap();
    }
    let polled = times.iter().filter(|took| **took > ms(450)).count();
    assert!(polled <= 2, "{polled} of 60 were woken by polling: {times:?}");
}

#[tokio::test]
async fn l28_waiting_goes_on_beyond_the_lease_of_a_holder_who_renews() {
    let Some(server) = server() else { return };
    let (holding, waiting) = (keeper(&server).await, keeper(&server).await);
    let holder = holding.lock("a").unwrap().lease(ms(400)).acquire().await.unwrap().or_busy().unwrap();
    let task = waits(waiting.lock("a").unwrap().wait_forever());
    noted(&holding, "a", 1).await;
    // Real time: three leases.
    tokio::time::sleep(ms(1200)).await;
    assert!(holder.is_valid() && !task.is_finished());
    let fence = holder.fence().unwrap();
    holder.release().await.unwrap();
    assert!(got(task).await.fence().unwrap() > fence);
}

/// Waits, holds for a moment, gives back.
async fn once(lock: Lock) {
    let guard = lock.acquire().await.unwrap().or_busy().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn l35_many_who_wait_for_a_dead_holder_are_no_storm() {
    let Some(server) = server() else { return };
    let many = keeper(&server).await;
    let mut keepers = Vec::new();
    for _ in 0..20 {
        keepers.push(keeper(&server).await);
    }
    command(&server, &["SET", "lock:a", "dead", "PX", "3000"]);
    let before = calls(&server, &["evalsha", "eval"]);
    let mut tasks: Vec<_> = (0..100).map(|_| tokio::spawn(once(long(&many)))).collect();
    tasks.extend(keepers.iter().map(|keeper| tokio::spawn(once(long(keeper)))));
    noted(&many, "a", 120).await;
    let looks = calls(&server, &["evalsha_ro"]);
    until("the dead holder is gone", SOON, async || {
        command(&server, &["GET", "lock:a"]).as_str() != Some("dead")
    })
    .await;
    let dead = calls(&server, &["evalsha", "eval"]) - before;
    assert!(dead < 400, "{dead} requests while nothing could be had ({looks} looks)");
    for task in tasks {
        tokio::time::timeout(secs(20), task).await.unwrap().unwrap();
    }
    let all = calls(&server, &["evalsha", "eval"]) - before;
    assert!(all < 2000, "{all} requests for 120 acquisitions");
}

#[tokio::test]
async fn l37_the_wait_limit_and_the_lease_are_independent() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    command(&server, &["SET", "lock:a", "busy", "PX", "1500"]);
    let started = Instant::now();
    let lock = keeper.lock("a").unwrap().lease(ms(600)).no_renewal().wait(secs(6));
    let guard = lock.acquire().await.unwrap().or_busy().unwrap();
    let left = command(&server, &["PTTL", "lock:a"]).as_int().unwrap();
    assert!(started.elapsed() >= ms(1400), "{:?}", started.elapsed());
    assert!((1..=600).contains(&left), "{left} ms left");
    assert!(guard.is_valid());
}

#[tokio::test]
async fn l38_a_limit_per_call_ends_the_wait_and_zero_is_one_try() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    foreign_take(&server);
    let lock = keeper.lock("a").unwrap().wait_forever();
    let started = Instant::now();
    let outcome = lock.clone().wait(ms(500)).acquire().await.unwrap();
    assert!(matches!(outcome, Acquired::Busy(_)), "{outcome:?}");
    assert!(started.elapsed() >= ms(500) && started.elapsed() < ms(1200), "{:?}", started.elapsed());
    let before = calls(&server, &["evalsha"]);
    let outcome = lock.wait(Duration::ZERO).acquire().await.unwrap();
    assert!(matches!(outcome, Acquired::Busy(_)), "{outcome:?}");
    // The line of before may take its note away meanwhile.
    let tries = calls(&server, &["evalsha"]) - before;
    assert!((1..=2).contains(&tries), "{tries} tries");
}
