//! Where a level cannot be had: said clearly, before anything is taken.

use std::sync::Arc;

use lockkeeper::core::lock::ReplicaCount;
use lockkeeper::redis::redis1;
use lockkeeper::{Durability, Error, ErrorKind, Keeper, Refusal, SystemClock};
use lockkeeper_faults::{RedisServer, ServerKind, available};

use crate::common::{group, hasty, replicas, try_at};
use crate::support::{command, secs, server};

#[track_caller]
fn assert_unsupported(error: &Error, word: &str) {
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains(word), "{error}");
    assert!(error.key().is_some(), "{error}");
}

fn is_empty(server: &RedisServer) -> bool {
    command(server, &["DBSIZE"]).as_int() == Some(0)
}

const LEVELS: [fn() -> Durability; 4] = [
    || replicas(1),
    || Durability::AllReplicas,
    Durability::fsync,
    || Durability::Fsync { replicas: Some(ReplicaCount::new(1).unwrap()) },
];

#[tokio::test]
async fn the_memory_store_has_no_replicas_and_no_disk() {
    let keeper = Keeper::connect("memory://").await.unwrap();
    for level in LEVELS {
        assert_unsupported(&try_at(&keeper, "a", level()).await.unwrap_err(), "memory");
        let waiting = keeper.lock("a").unwrap().durability(level()).wait(secs(1));
        assert_unsupported(&waiting.acquire().await.unwrap_err(), "memory");
    }
    assert!(try_at(&keeper, "a", Durability::Accepted).await.unwrap().held().is_some());
}

#[tokio::test]
async fn a_lent_connection_is_not_held_up() {
    let Some(server) = server() else { return };
    let client = redis::Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let store = redis1::adopt(connection, Arc::new(SystemClock), secs(2));
    let keeper = Keeper::builder().redis_store(store).connect().await.unwrap();
    for level in LEVELS {
        assert_unsupported(&try_at(&keeper, "a", level()).await.unwrap_err(), "lent");
    }
    assert!(is_empty(&server));
}

#[tokio::test]
async fn no_server_before_redis_7_2_has_waitaof() {
    for kind in [ServerKind::Redis62, ServerKind::Redis] {
        if !available(kind) {
            continue;
        }
        let server = RedisServer::builder().kind(kind).persistent().start().unwrap();
        let has_it =
            command(&server, &["COMMAND", "INFO", "WAITAOF"]).as_array().unwrap()[0].as_array().is_some();
        if has_it {
            continue;
        }
        let keeper = hasty(&server).await;
        for _ in 0..2 {
            let error = try_at(&keeper, "a", Durability::fsync()).await.unwrap_err();
            assert_unsupported(&error, "WAITAOF");
            assert!(is_empty(&server), "{kind}");
        }
        let waiting = keeper.lock("a").unwrap().durability(Durability::fsync()).wait(secs(5));
        assert_unsupported(&waiting.acquire().await.unwrap_err(), "WAITAOF");
        assert!(is_empty(&server), "{kind}");
    }
}

#[tokio::test]
async fn a_server_without_an_append_only_file_has_nothing_to_flush() {
    if !available(ServerKind::Valkey) {
        return;
    }
    let server = RedisServer::builder().kind(ServerKind::Valkey).start().unwrap();
    let error = try_at(&hasty(&server).await, "a", Durability::fsync()).await.unwrap_err();
    assert_unsupported(&error, "appendonly");
    assert!(is_empty(&server));
}

#[tokio::test]
async fn a_user_who_may_not_wait_is_told_before_anything_is_taken() {
    let Some(server) = server() else { return };
    for (forbidden, level) in
        [("-wait", replicas(1)), ("-wait", Durability::AllReplicas), ("-role", Durability::AllReplicas)]
    {
        command(
            &server,
            &["ACL", "SETUSER", "app", "reset", "on", ">secret", "~*", "&*", "+@all", forbidden],
        );
        let url = server.url().replace("redis://", "redis://app:secret@");
        let keeper = Keeper::connect(&url).await.unwrap();
        let error = try_at(&keeper, "a", level).await.unwrap_err();
        assert_unsupported(&error, "nothing was taken");
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(is_empty(&server), "{forbidden}");
        // It heals without a new keeper.
        command(&server, &["ACL", "SETUSER", "app", "+@all"]);
        let error = try_at(&keeper, "a", Durability::AllReplicas).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotDurable { .. }), "{error}");
        keeper.close(secs(5)).await;
        command(&server, &["FLUSHALL"]);
    }
}

/// A plain lock could be had; what cannot is the level, and that is said.
#[tokio::test]
async fn where_scripts_are_forbidden_it_is_the_level_that_cannot_be_had() {
    if !available(ServerKind::Valkey) {
        return;
    }
    let server = RedisServer::builder().kind(ServerKind::Valkey).start().unwrap();
    command(&server, &["ACL", "SETUSER", "plain", "on", ">pw", "~*", "+@all", "-@scripting"]);
    let url = server.url().replace("redis://", "redis://plain:pw@");
    let keeper = Keeper::builder().url(&url).unwrap().without_scripts().connect().await.unwrap();
    let lock = keeper.lock("a").unwrap().durability(replicas(1));
    assert_unsupported(&lock.try_acquire().await.unwrap_err(), "replicas=1 was asked for");
    assert_unsupported(&lock.wait(secs(1)).acquire().await.unwrap_err(), "replicas=1 was asked for");
    assert!(is_empty(&server));
    assert!(try_at(&keeper, "a", Durability::Accepted).await.unwrap().held().is_some());
}

/// It refuses `WAIT` in words of its own; whatever is asked, the answer is that it is a replica.
#[tokio::test]
async fn l80_a_server_that_was_demoted_takes_nothing_and_says_what_it_is() {
    let Some(group) = group(1) else { return };
    let keeper = hasty(&group.replicas()[0].server).await;
    for level in [Durability::Accepted, replicas(1), Durability::AllReplicas] {
        let error = try_at(&keeper, "a", level).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused(Refusal::ReadOnly), "{level}: {error}");
    }
    assert!(is_empty(&group.replicas()[0].server));
}
