//! The same on a real server.

use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper_faults::{RedisServer, Reply, ServerKind, available};
use lockkeeper_tower::rate_limit::Rule;

use crate::support::*;

/// Two keepers stand for two processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_fifty_at_once_in_two_processes_exactly_five_pass() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let mut calls = Vec::new();
    for _ in 0..2 {
        let keeper = Keeper::connect(&server.url()).await.unwrap();
        // A token more would come after 12 minutes.
        let limiter = keeper.limiter("crowd", "5/h").unwrap().decide_within(Duration::from_secs(10));
        let service = served([Rule::new(limiter, by_address())]);
        calls.extend((0..25).map(|_| {
            let service = service.clone();
            tokio::spawn(async move { send(&service, get("/users/{id}", ADDRESS)).await })
        }));
    }
    let (mut passed, mut refused) = (0, 0);
    for call in calls {
        let answer = call.await.unwrap();
        match answer.status().as_u16() {
            200 => passed += 1,
            429 => {
                refused += 1;
                assert!(field(&answer, "ratelimit").unwrap().starts_with("\"crowd\";r=0;t="));
            }
            other => panic!("{other}: {}", answer.body()),
        }
    }
    assert_eq!((passed, refused), (5, 45));
    let Reply::Array(keys) = server.command(&["KEYS", "*"]).unwrap() else { panic!("a list") };
    let keys: Vec<&str> = keys.iter().filter_map(Reply::as_str).collect();
    let [key] = keys[..] else { panic!("one key for all: {keys:?}") };
    assert!(key.ends_with(":@ip:192.0.2.1@route:GET /users/%7Bid%7D"), "{key}");
}
