//! Hundreds of locks held and waited for at once by one keeper: three connections, and nothing left afterwards.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::collections::HashSet;
use std::time::Duration;

use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::wait::until;
use support::{SOON, command, got, in_line, keeper, noted, secs, server, take, waits};

const MANY: usize = 500;
const LEASE: Duration = Duration::from_secs(120);

fn clients(server: &RedisServer) -> HashSet<String> {
    let list = command(server, &["CLIENT", "LIST"]);
    let id = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let is_looking = |line: &&str| line.contains("cmd=client|list");
    list.as_str().unwrap().lines().filter(|line| !is_looking(line)).map(id).collect()
}

fn keys(server: &RedisServer, pattern: &str) -> usize {
    command(server, &["KEYS", pattern]).as_array().unwrap().len()
}

fn tracked(server: &RedisServer) -> u64 {
    let info = command(server, &["INFO", "stats"]);
    let mut lines = info.as_str().unwrap().lines();
    lines.find_map(|line| line.strip_prefix("tracking_total_keys:")?.parse().ok()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_held_and_five_hundred_waited_for() {
    let Some(server) = server() else { return };
    let other = keeper(&server).await;
    let mut in_the_way = Vec::new();
    for number in 0..MANY {
        in_the_way.push(take(&other, &format!("w{number}"), LEASE).await);
    }
    let before = clients(&server);
    let keeper = keeper(&server).await;
    let mut held = Vec::new();
    for number in 0..MANY {
        let lock = keeper.lock(format!("h{number}")).unwrap().lease(LEASE);
        held.push(lock.acquire().await.unwrap().or_busy().unwrap());
    }
    let mut tasks = Vec::new();
    for number in 0..MANY {
        tasks.push(waits(keeper.lock(format!("w{number}")).unwrap().lease(LEASE).wait(secs(100))));
    }
    in_line(&keeper, MANY).await;
    noted(&other, "w0", 1).await;
    until("all are noted", SOON, async || keys(&server, "lock:~wait:*") == MANY).await;
    let connections = clients(&server).difference(&before).count();
    assert!((2..=3).contains(&connections), "{connections} connections");
    assert!(tracked(&server) > 0);

    for guard in in_the_way {
        guard.release().await.unwrap();
    }
    for task in tasks {
        let guard = got(task).await;
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }
    assert!(held.iter().all(lockkeeper::LockGuard::is_valid));
    drop(held);
    until("nothing is left", SOON, async || {
        let health = keeper.health().await;
        health.held + health.waiting + health.giving_back == 0 && keys(&server, "lock:[hw]*") == 0
    })
    .await;
    until("nothing is registered", SOON, async || tracked(&server) == 0).await;
    until("no note is left", secs(4), async || keys(&server, "lock:~wait:*") == 0).await;
}
