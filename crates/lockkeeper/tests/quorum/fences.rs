//! Fences over majorities that differ.

use lockkeeper::ErrorKind;
use lockkeeper::core::{Key, Prefix};
use lockkeeper::redis::fence_key;

use crate::five::{Servers, is_away, try_take, votes};
use crate::support::secs;

/// Where it is greater than what there is: a server's last fence never becomes smaller.
const PLANT: &[u8] = b"if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[1]) then \
    redis.call('SET', KEYS[1], ARGV[1], 'PX', 600000) end";

/// Leaves a last fence as a server with a clock of its own would have it.
pub(crate) fn plant(server: &lockkeeper_faults::RedisServer, name: &str, fence: u64) {
    let key = fence_key(&Key::new(&Prefix::new("lock:").unwrap(), name).unwrap());
    let reply = server.command_bytes(&[b"EVAL", PLANT, b"1", &key, fence.to_string().as_bytes()]);
    assert!(!reply.unwrap().is_error());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_grow_over_a_hundred_majorities_that_differ() {
    let Some(five) = Servers::start(5) else { return };
    // Two keepers, so that neither's memory of what it has seen helps the other.
    let keepers = [five.keeper("").await, five.keeper("").await];
    let mut last = 0;
    for round in 0..100usize {
        // Two servers are out of this one, and the clock of a third is far ahead.
        let out = [round % 5, (round + 2) % 5];
        for node in out {
            crate::support::command(&five.servers[node], &["SET", "lock:a", "foreign", "PX", "60000"]);
        }
        let ahead = (round + 1) % 5;
        if round % 3 == 0 {
            plant(&five.servers[ahead], "a", last.max(1_900_000_000_000_000) + 1_000_000);
        }
        let guard = try_take(&keepers[round % 2], "a", secs(10)).await.expect("three are free");
        let fence = guard.fence().unwrap().get();
        assert!(fence > last, "round {round}: {fence} after {last}");
        last = fence;
        guard.release().await.unwrap();
        for node in out {
            crate::support::command(&five.servers[node], &["DEL", "lock:a"]);
        }
        five.nobody_holds("a").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_greatest_is_known_to_a_majority_before_it_is_a_fence() {
    let Some(five) = Servers::start(5) else { return };
    let (one, other) = (five.keeper("").await, five.keeper("").await);
    plant(&five.servers[0], "a", 2_000_000_000_000_000);
    for node in [3, 4] {
        five.servers[node].kill().unwrap();
        is_away(&one, node).await;
    }
    let guard = try_take(&one, "a", secs(10)).await.unwrap();
    let first = guard.fence().unwrap().get();
    assert!(first > 2_000_000_000_000_000);
    guard.release().await.unwrap();
    // Of that majority only the third server is in the next one.
    for node in [3, 4] {
        five.servers[node].restart().unwrap();
    }
    for node in [0, 1] {
        five.servers[node].kill().unwrap();
        is_away(&other, node).await;
    }
    // Both abstain, as they must; an operator who knows better opens them.
    let run_of = |node: usize| {
        let info = crate::support::command(&five.servers[node], &["INFO", "server"]);
        let text = info.as_str().unwrap().to_owned();
        text.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().trim().to_owned()
    };
    for node in [3, 4] {
        let marker = crate::support::command(&five.servers[2], &["GET", "~quorum"]);
        let marker = marker.as_str().unwrap().replace(&run_of(2), &run_of(node));
        crate::support::command(&five.servers[node], &["SET", "~quorum", &marker]);
        votes(&other, node).await;
    }
    let guard = try_take(&other, "a", secs(10)).await.unwrap();
    assert!(guard.fence().unwrap().get() > first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_write_back_there_is_no_fence() {
    let Some(three) = Servers::start(3) else { return };
    let keeper = three.keeper("fences=off").await;
    let guard = try_take(&keeper, "a", secs(10)).await.unwrap();
    assert_eq!(guard.fence().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(keeper.inspect("a").await.unwrap().fence, None);
}
