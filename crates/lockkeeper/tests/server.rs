//! Locks on a real server: connecting in every way, and the cases that name an effect on the server.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::redis::{Credentials, RedisConfig, fence_key};
use lockkeeper::{Acquired, ErrorKind, Keeper, Refusal, Released, SystemClock};
use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::history::{Unprotected, check, section};
use lockkeeper_testkit::wait::until;
use support::{SOON, calls, command, exists, is_busy, keeper, ms, secs, server, take};

async fn locks_and_releases(keeper: &Keeper) {
    let guard = take(keeper, "a", secs(10)).await;
    assert!(is_busy(keeper, "a").await);
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert!(!is_busy(keeper, "a").await);
}

#[tokio::test]
async fn tcp_database_unix_socket_and_password() {
    let Some(server) = server() else { return };
    let numbered = Keeper::connect(&format!("{}/5", server.url())).await.unwrap();
    let guard = take(&numbered, "a", secs(10)).await;
    assert!(!is_busy(&keeper(&server).await, "a").await, "another database");
    drop(guard);

    let unix = RedisServer::builder().unix_socket_only().password("s3cret/:@").start().unwrap();
    let socket = unix.socket_path().unwrap();
    let url = format!("unix://{}?pass=s3cret%2F%3A%40", socket.display());
    locks_and_releases(&Keeper::connect(&url).await.unwrap()).await;

    let protected = RedisServer::builder().password("s3cret").start().unwrap();
    let good = protected.url().replace("redis://", "redis://:s3cret@");
    locks_and_releases(&Keeper::connect(&good).await.unwrap()).await;
    for bad in [protected.url(), protected.url().replace("redis://", "redis://:hunter2@")] {
        let error = Keeper::connect(&bad).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused(Refusal::NotAuthenticated), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[tokio::test]
async fn credentials_are_asked_for_at_every_connection() {
    let Some(server) = server() else { return };
    let password = Arc::new(std::sync::Mutex::new("first".to_owned()));
    command(&server, &["ACL", "SETUSER", "app", "on", ">first", "~*", "+@all"]);
    let asked = password.clone();
    let config = RedisConfig::from_url(&server.url()).unwrap().credentials(move || Credentials {
        user: Some("app".to_owned()),
        password: asked.lock().unwrap().clone(),
    });
    let keeper = Keeper::builder().redis(config).connect().await.unwrap();
    locks_and_releases(&keeper).await;
    // ACL SETUSER ends no connection; the rotation is followed by a kill, as a restart of the server would be.
    "second".clone_into(&mut password.lock().unwrap());
    command(&server, &["ACL", "SETUSER", "app", "resetpass", ">second"]);
    command(&server, &["CLIENT", "KILL", "USER", "app"]);
    until("connected with the new password", SOON, async || keeper.health().await.round_trip.is_ok()).await;
    locks_and_releases(&keeper).await;
}

#[tokio::test]
async fn tls_with_a_private_authority() {
    let Some(_plain) = server() else { return };
    let folder = tempfile::tempdir().unwrap();
    let key =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let (cert_path, key_path) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert_path, key.cert.pem()).unwrap();
    std::fs::write(&key_path, key.signing_key.serialize_pem()).unwrap();
    let server = RedisServer::builder()
        .tls(&cert_path, &key_path, &cert_path)
        .config("tls-auth-clients", "no")
        .start()
        .unwrap();
    let config = RedisConfig::from_url(&server.url()).unwrap();
    let untrusted = Keeper::builder().redis(config.clone()).connect().await.unwrap_err();
    assert_eq!(untrusted.kind(), ErrorKind::Unreachable, "{untrusted}");
    let trusted = config.root_certificate(key.cert.pem()).unwrap();
    locks_and_releases(&Keeper::builder().redis(trusted).connect().await.unwrap()).await;
}

#[tokio::test]
async fn a_connection_of_the_users_own_can_be_adopted() {
    let Some(server) = server() else { return };
    let client = redis::Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let store = lockkeeper::redis::redis1::adopt(connection, Arc::new(SystemClock), secs(2));
    let keeper = Keeper::builder().redis_store(store).connect().await.unwrap();
    locks_and_releases(&keeper).await;
    assert_eq!(keeper.health().await.server.unwrap().product, "redis");
}

#[tokio::test]
async fn lazily_a_keeper_starts_while_redis_is_away() {
    let Some(server) = server() else { return };
    server.kill().unwrap();
    let error = Keeper::connect(&server.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    let keeper = Keeper::builder().url(&server.url()).unwrap().lazy().connect().await.unwrap();
    assert_eq!(keeper.lock("a").unwrap().try_acquire().await.unwrap_err().kind(), ErrorKind::Unreachable);
    server.restart().unwrap();
    until("connected by itself", SOON, async || keeper.health().await.round_trip.is_ok()).await;
    locks_and_releases(&keeper).await;
}

#[tokio::test]
async fn the_probe_knows_the_server() {
    let Some(server) = server() else { return };
    let health = keeper(&server).await.health().await;
    let info = health.server.unwrap();
    assert!(info.scripts && info.tracking && info.compatible_with >= (6, 2), "{info:?}");
    assert_eq!(info.read_only_scripts, info.compatible_with >= (7, 0));
    assert!(!info.run_id.is_empty() && info.mode == "standalone");
    assert!(health.server_ahead_us.abs() < 100_000, "one machine, one clock: {}", health.server_ahead_us);
}

#[tokio::test]
async fn scripts_are_loaded_again_after_they_were_flushed() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    locks_and_releases(&keeper).await;
    command(&server, &["SCRIPT", "FLUSH"]);
    locks_and_releases(&keeper).await;
    let before = calls(&server, &["eval", "evalsha"]);
    locks_and_releases(&keeper).await;
    let after = calls(&server, &["eval", "evalsha"]);
    assert_eq!(after - before, 2, "acquire and release are one call each");
}

/// L1: nothing is left of ten thousand quick holds, and nothing renews afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_nothing_is_renewed_after_release() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let workers: Vec<_> = (0..20)
        .map(|worker: u64| {
            let keeper = keeper.clone();
            tokio::spawn(async move {
                let mut released = Vec::new();
                for round in 0..500u64 {
                    let lock = keeper.lock(format!("{worker}")).unwrap().lease(ms(300));
                    let guard = lock.try_acquire().await.unwrap().or_busy().unwrap();
                    // Some holds end just when their first renewal is due, at 90 to 100 ms.
                    if round % 50 == 0 {
                        tokio::time::sleep(ms(88 + (worker + round / 50) % 14)).await;
                    }
                    // A clone that outlives the release must not be renewed either.
                    released.extend((round % 10 == 0).then(|| guard.clone()));
                    assert_eq!(guard.release().await.unwrap(), Released::Released);
                }
                released
            })
        })
        .collect();
    let mut released = Vec::new();
    for worker in workers {
        released.extend(worker.await.unwrap());
    }
    let commands = calls(&server, &["evalsha"]);
    for worker in 0..20 {
        assert!(!exists(&server, &format!("lock:{worker}")));
    }
    // Real time: three renewal intervals, in which nothing may come.
    tokio::time::sleep(ms(300)).await;
    assert_eq!(calls(&server, &["evalsha"]), commands, "a renewal after the last release");
    assert!(released.iter().all(|guard| !guard.is_valid()));
    assert_eq!(keeper.health().await.held, 0);
}

#[tokio::test]
async fn l13_l106_lengths_are_milliseconds_and_every_key_has_an_expiry() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let guard = take(&keeper, "a", ms(2000)).await;
    guard.extend(ms(3000)).await.unwrap();
    let left = command(&server, &["PTTL", "lock:a"]).as_int().unwrap();
    assert!((2500..=3000).contains(&left), "{left}");
    let _both = keeper.lock_all(["b{", "{c}d"]).unwrap().try_acquire().await.unwrap().or_busy().unwrap();
    let keys = command(&server, &["KEYS", "*"]);
    assert_eq!(keys.as_array().unwrap().len(), 6);
    for key in keys.as_array().unwrap() {
        let key = key.as_str().unwrap();
        assert!(command(&server, &["PTTL", key]).as_int().unwrap() > 0, "{key} has no expiry");
        assert!(key.starts_with("lock:"), "{key}");
    }
}

#[tokio::test]
async fn the_fence_outlives_the_lease_by_two_days() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let guard = take(&keeper, "a", secs(10)).await;
    let key = lockkeeper::core::Key::new(&lockkeeper::core::Prefix::new("lock:").unwrap(), "a").unwrap();
    let fence = String::from_utf8(fence_key(&key)).unwrap();
    assert_eq!(command(&server, &["GET", &fence]).as_str().unwrap(), guard.fence().unwrap().to_string());
    let left = command(&server, &["PTTL", &fence]).as_int().unwrap();
    assert!((172_800_000..=172_810_000).contains(&left), "{left}");
}

#[tokio::test]
async fn odd_names_reach_the_server_unchanged() {
    let Some(server) = server() else { return };
    let keeper = Keeper::builder().url(&server.url()).unwrap().prefix("").unwrap().connect().await.unwrap();
    for name in [&b"nul\0"[..], b"line\n", b"*", b"a{b", b"{}", b"\xff\xfe", b"?[x]", &[b'x'; 4096]] {
        let guard = keeper.lock(name).unwrap().try_acquire().await.unwrap().or_busy().unwrap();
        let held = server.command_bytes(&[b"GET", name]).unwrap();
        assert_eq!(held.as_bytes().unwrap(), guard.token().as_bytes());
        assert!(keeper.list(None).await.unwrap().locks.iter().any(|lock| lock.key.name() == name));
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    }
    assert!(keeper.list(None).await.unwrap().locks.is_empty(), "side keys are no locks");
}

#[tokio::test]
async fn l118_l119_l77_foreign_holders_are_waited_for_and_never_touched() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    server.command_bytes(&[b"SET", b"lock:a", &[0xf0; 20]]).unwrap();
    let started = std::time::Instant::now();
    let Acquired::Busy(busy) = keeper.lock("a").unwrap().wait(ms(300)).acquire().await.unwrap() else {
        panic!("took it")
    };
    assert!(started.elapsed() >= ms(300) && started.elapsed() < secs(3));
    assert_eq!(busy.remaining, None);
    assert_eq!(busy.to_string(), "held by foreign 0xf0f0f0f0f0f0f0f0… (20 bytes), no expiry");
    let waiter = tokio::spawn({
        let lock = keeper.lock("a").unwrap();
        async move { lock.acquire().await }
    });
    until("polled", SOON, async || calls(&server, &["evalsha", "eval"]) > 5).await;
    command(&server, &["DEL", "lock:a"]);
    assert!(matches!(waiter.await.unwrap().unwrap(), Acquired::Held(_)), "a foreign release is noticed");

    command(&server, &["RPUSH", "lock:list", "x"]);
    let error = keeper.lock("list").unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
    assert_eq!(command(&server, &["LLEN", "lock:list"]).as_int(), Some(1));
}

/// L35: a hundred waiters on a dead holder's key poll gently. 10 s of a 100 ms poll would be 10,000 commands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l35_waiters_back_off_and_notice_the_end_of_the_lease() {
    let Some(server) = server() else { return };
    let (holder, waiting) = (keeper(&server).await, keeper(&server).await);
    std::mem::forget(take(&holder, "a", secs(4)).await);
    let before = calls(&server, &["evalsha"]);
    let started = std::time::Instant::now();
    let waiters: Vec<_> = (0..100)
        .map(|_| {
            let lock = waiting.lock("a").unwrap().wait(ms(4500)).lease(secs(20));
            tokio::spawn(async move { lock.acquire().await.unwrap() })
        })
        .collect();
    let mut acquired = Vec::new();
    for waiter in waiters {
        acquired.extend(waiter.await.unwrap().held());
    }
    assert_eq!(acquired.len(), 1, "one of them gets it");
    assert!(started.elapsed() < secs(7), "{:?}", started.elapsed());
    let polls = calls(&server, &["evalsha"]) - before;
    assert!(polls < 100 * 20, "{polls} commands");
}

#[tokio::test]
async fn l92_a_prefix_may_be_empty_and_exact_keys_are_shared() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let guard = keeper.lock_exact("lock:a").unwrap().try_acquire().await.unwrap().or_busy().unwrap();
    assert!(is_busy(&keeper, "a").await);
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exclusion_holds_among_keepers_on_a_real_server() {
    let Some(server) = server() else { return };
    let counter = Arc::new(Unprotected::default());
    let mut workers = Vec::new();
    for _ in 0..4 {
        let keeper = keeper(&server).await;
        for _ in 0..2 {
            let (keeper, counter) = (keeper.clone(), counter.clone());
            workers.push(tokio::spawn(async move {
                let mut sections = Vec::new();
                for _ in 0..25 {
                    let guard =
                        keeper.lock("a").unwrap().wait_forever().acquire().await.unwrap().or_busy().unwrap();
                    sections.push(section(&guard, &counter).await);
                    assert_eq!(guard.release().await.unwrap(), Released::Released);
                }
                sections
            }));
        }
    }
    let mut sections = Vec::new();
    for worker in workers {
        sections.extend(worker.await.unwrap());
    }
    assert_eq!(sections.len(), 200);
    check(sections, counter.get()).unwrap();
}

#[tokio::test]
async fn renewals_use_one_connection_of_their_own() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let mut guards = Vec::new();
    for number in 0..200 {
        guards.push(
            keeper
                .lock(format!("{number}"))
                .unwrap()
                .lease(ms(600))
                .try_acquire()
                .await
                .unwrap()
                .or_busy()
                .unwrap(),
        );
    }
    until("all renewed", SOON, async || calls(&server, &["pexpire"]) >= 400).await;
    let clients = command(&server, &["CLIENT", "LIST"]);
    let ours = clients
        .as_str()
        .unwrap()
        .lines()
        .filter(|line| line.contains("lib-name=lockkeeper") || line.contains("cmd=evalsha"))
        .count();
    assert!(ours <= 2, "one for commands, one for renewals: {clients:?}");
    assert!(guards.iter().all(lockkeeper::LockGuard::is_valid));
}

#[tokio::test]
async fn stated_time_bounds_hold_when_nobody_answers() {
    let Some(server) = server() else { return };
    let keeper =
        Keeper::builder().url(&server.url()).unwrap().response_timeout(ms(200)).connect().await.unwrap();
    server.pause().unwrap();
    let started = std::time::Instant::now();
    let error = keeper.lock("a").unwrap().try_acquire().await.unwrap_err();
    let took = started.elapsed();
    server.resume().unwrap();
    assert!(error.is_outcome_unknown(), "{error}");
    assert!(took >= ms(200) && took < Duration::from_secs(2), "{took:?}");
}
