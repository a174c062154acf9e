//! Sentinels that lie, lag and are silent; a primary that was demoted by hand.

use std::time::Instant;

use lockkeeper::{ErrorKind, Keeper};
use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::wait::until;
use tokio::net::TcpListener;

use crate::common::try_take;
use crate::fake::Fakes;
use crate::support::{calls, command, ms, scripts, secs, server};

/// Two servers that are both primaries.
fn two() -> Option<(RedisServer, RedisServer)> {
    Some((server()?, server()?))
}

#[tokio::test]
async fn one_that_says_something_old_leads_nobody_astray() {
    let Some((right, wrong)) = two() else { return };
    // The first in the URL, and the only one that is not of the same mind.
    let fakes = Fakes::start(&[(wrong.port(), 4), (right.port(), 5), (right.port(), 5)]).await;
    for number in 0..5 {
        let keeper = Keeper::connect(&fakes.url(&[])).await.unwrap();
        drop(try_take(&keeper, &format!("a{number}")).await.unwrap());
    }
    let keeper = Keeper::connect(&fakes.url(&[])).await.unwrap();
    let guard = try_take(&keeper, "b").await.unwrap();
    // With the same epoch it is one of three.
    fakes.say(0, (wrong.port(), 5));
    let started = Instant::now();
    while started.elapsed() < secs(2) {
        try_take(&keeper, "c").await.unwrap().release().await.unwrap();
        tokio::time::sleep(ms(20)).await;
    }
    assert!(guard.is_valid());
    assert_eq!(scripts(&wrong), 0, "the other one was never asked for anything");
    // What a later epoch says is true.
    fakes.say(0, (wrong.port(), 6));
    let reason = tokio::time::timeout(secs(5), guard.lost()).await.expect("noticed by asking");
    assert_eq!(reason, lockkeeper::LossReason::Failover);
}

#[tokio::test]
async fn a_selected_server_is_used_as_soon_as_it_says_that_it_is_the_primary_and_not_before() {
    let Some((old, new)) = two() else { return };
    command(&new, &["REPLICAOF", "127.0.0.1", &old.port().to_string()]);
    let fakes = Fakes::telling(&[(old.port(), 1); 3]).await;
    let keeper = Keeper::connect(&fakes.url(&[])).await.unwrap();
    let guard = try_take(&keeper, "a").await.unwrap();
    let selected =
        |service: &str| format!("slave s 127.0.0.1 {} @ {service} 127.0.0.1 {}", new.port(), old.port());
    assert!(fakes.tell("+selected-slave", selected("other")));
    assert!(fakes.tell("+selected-slave", selected("main")));
    let asked = || calls(&new, &["role"]);
    until("it was asked a few times", secs(5), async || asked() > 5).await;
    assert!(guard.is_valid() && scripts(&new) == 0, "it is a replica still");

    command(&new, &["REPLICAOF", "NO", "ONE"]);
    command(&new, &["DEL", "lock:a"]);
    // The Sentinels do not say so yet, and would be believed after five seconds only.
    let reason = tokio::time::timeout(secs(4), guard.lost()).await.expect("found without the Sentinels");
    assert_eq!(reason, lockkeeper::LossReason::Failover);
    try_take(&keeper, "b").await.unwrap().release().await.unwrap();
    assert!(scripts(&new) > 0);
}

#[tokio::test]
async fn one_that_never_answers_costs_nothing() {
    let Some(server) = server() else { return };
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let fakes = Fakes::start(&[(server.port(), 1), (server.port(), 1)]).await;
    let started = Instant::now();
    let keeper = Keeper::connect(&fakes.url(&[silent.local_addr().unwrap().port()])).await.unwrap();
    drop(try_take(&keeper, "a").await.unwrap());
    assert!(started.elapsed() < ms(700), "{:?}", started.elapsed());
}

#[tokio::test]
async fn l80_a_demoted_primary_is_left_and_what_it_refused_is_taken_from_the_new_one() {
    let Some((old, new)) = two() else { return };
    let fakes = Fakes::start(&[(old.port(), 1); 3]).await;
    let keeper =
        Keeper::builder().url(&fakes.url(&[])).unwrap().response_timeout(secs(20)).connect().await.unwrap();
    try_take(&keeper, "before").await.unwrap().release().await.unwrap();

    // Whoever demotes it by hand leaves connections as they are.
    command(&old, &["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    let refusals = || command(&old, &["INFO", "errorstats"]).as_str().unwrap().contains("READONLY");
    let taking = tokio::spawn({
        let keeper = keeper.clone();
        async move { try_take(&keeper, "a").await }
    });
    until("it was refused", secs(10), async || refusals()).await;
    assert!(!taking.is_finished(), "it waits within its own limit");
    fakes.say_all((new.port(), 2));
    let guard = tokio::time::timeout(secs(10), taking).await.unwrap().unwrap().unwrap();
    assert_eq!(command(&new, &["EXISTS", "lock:a"]).as_int(), Some(1));
    assert_eq!(guard.release().await.unwrap(), lockkeeper::Released::Released);
}

#[tokio::test]
async fn the_time_without_a_primary_is_bounded_by_the_callers_limit() {
    let Some((server, other)) = two() else { return };
    let fakes = Fakes::start(&[(server.port(), 1); 3]).await;
    let keeper =
        Keeper::builder().url(&fakes.url(&[])).unwrap().response_timeout(ms(600)).connect().await.unwrap();
    command(&server, &["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    // The second one finds no connection to begin with.
    for _ in 0..2 {
        let started = Instant::now();
        let error = try_take(&keeper, "a").await.unwrap_err();
        let took = started.elapsed();
        assert!(took >= ms(500) && took < ms(1100), "{took:?}: {error}");
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(error.to_string().contains("no primary of service `main` within"), "{error}");
        assert!(error.to_string().contains("is not a primary"), "{error}");
    }
    let waiting = keeper.lock("a").unwrap().wait(secs(2));
    let started = Instant::now();
    assert!(waiting.acquire().await.is_err());
    assert!(started.elapsed() < secs(4), "{:?}", started.elapsed());
}
