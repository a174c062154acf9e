//! Connecting: wrong names and passwords, and Sentinels that are away.

use std::time::Instant;

use lockkeeper::core::Refusal;
use lockkeeper::redis::RedisConfig;
use lockkeeper::{ErrorKind, Keeper};
use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::wait::until;

use crate::common::{blocking, group, keeper, try_take};
use crate::support::{command, ms, secs};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_of_sentinels_and_servers_are_apart_and_never_shown() {
    let Some(group) =
        group(|group| group.replicas(1).password("server-word").sentinel_password("sentinel-word"))
    else {
        return;
    };
    let keeper = keeper(&group).await;
    drop(try_take(&keeper, "a").await.unwrap());
    let health = keeper.health().await;
    assert!(health.address.contains("/main/0") && !health.address.contains("word"), "{}", health.address);

    for (right, wrong) in
        [("sentinel_password=sentinel-word", "sentinel_password=bad-word"), (":server-word@", ":bad-word@")]
    {
        let started = Instant::now();
        let error = Keeper::connect(&group.url().replace(right, wrong)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused(Refusal::NotAuthenticated), "{error}");
        assert!(started.elapsed() < ms(1500), "it is told at once");
        assert!(
            !format!("{error} {error:?}").contains("word@") && !error.to_string().contains("-word"),
            "{error:?}"
        );
    }
    let error = Keeper::connect(&group.url().replace("/main", "/mian")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadArgument, "{error}");
    assert!(error.to_string().contains("`mian`"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_user_needs_little_and_without_events_it_is_asked() {
    let Some(group) = group(|group| group.replicas(1)) else { return };
    let asking = "-@all +sentinel|master +sentinel|get-master-addr-by-name";
    for (more, user) in [("+hello +subscribe &*", "told"), ("", "asked")] {
        for sentinel in group.sentinels() {
            let rule = format!("ACL SETUSER {user} on >hunter2 {asking} {more}");
            command(sentinel, &rule.split_whitespace().collect::<Vec<_>>());
        }
        let url = format!("{}?sentinel_user={user}&sentinel_password=hunter2", group.url());
        let keeper = Keeper::connect(&url).await.unwrap();
        try_take(&keeper, "a").await.unwrap().release().await.unwrap();
        let sentinel = &group.sentinels()[0];
        let named = |word: &str| {
            let list = command(sentinel, &["CLIENT", "LIST"]);
            let list = list.as_str().unwrap().to_owned();
            list.lines().any(|line| line.contains(&format!("user={user}")) && line.contains(word))
        };
        let (events, none) = (named(" sub=5 "), named(" sub=0 "));
        assert_eq!((events, none), (user == "told", user == "asked"), "{user}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_servers_speak_tls_with_a_private_authority() {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (cert, secret) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, key.cert.pem()).unwrap();
    std::fs::write(&secret, key.signing_key.serialize_pem()).unwrap();
    let tls = RedisServer::builder().tls(&cert, &secret, &cert);
    let Some(group) = group(|group| group.server(tls).replicas(1)) else { return };
    assert!(group.url().starts_with("rediss+sentinel://"));
    let config = RedisConfig::from_url(&group.url()).unwrap();
    let untrusted = Keeper::builder().redis(config.clone()).connect().await.unwrap_err();
    assert_eq!(untrusted.kind(), ErrorKind::Unreachable, "{untrusted}");
    let trusted = config.root_certificate(key.cert.pem()).unwrap();
    let keeper = Keeper::builder().redis(trusted).connect().await.unwrap();
    let guard = try_take(&keeper, "a").await.unwrap();
    blocking(|| group.wait_in_sync(0)).unwrap();
    assert_eq!(blocking(|| group.failover()).unwrap(), 1);
    assert!(try_take(&keeper, "b").await.unwrap().is_valid() && guard.is_valid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_locks_go_on_while_all_sentinels_are_away() {
    let Some(group) = group(|group| group.replicas(1)) else { return };
    let keeper = keeper(&group).await;
    let guard = keeper.lock("a").unwrap().lease(ms(900)).acquire().await.unwrap().or_busy().unwrap();
    blocking(|| group.sentinels().iter().for_each(|sentinel| sentinel.kill().unwrap()));
    // Also over new connections.
    command(&group.servers()[0], &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let started = Instant::now();
    until("three leases have passed", secs(20), async || {
        assert!(guard.is_valid(), "{:?}", guard.loss());
        started.elapsed() > ms(2700)
    })
    .await;
    drop(try_take(&keeper, "b").await.unwrap());

    let started = Instant::now();
    let error = Keeper::connect(&group.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("no primary of service `main`"), "{error}");
    assert!(error.to_string().contains("no Sentinel can be asked"), "{error}");
    assert!(started.elapsed() < secs(4), "{:?}", started.elapsed());
}

/// Also while a pause is due, who has the time waits for the primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_in_a_row_cost_a_wait_and_no_error() {
    let Some(group) = group(|group| group.replicas(1)) else { return };
    let keeper = keeper(&group).await;
    for round in 0..5 {
        command(&group.servers()[0], &["CLIENT", "KILL", "TYPE", "normal"]);
        // What was under way, or finds out, may fail.
        let _ = keeper.inspect("a").await;
        let seen = keeper.inspect("a").await;
        assert!(seen.is_ok(), "round {round}: {seen:?}");
    }
}
