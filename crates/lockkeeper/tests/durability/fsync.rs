//! On a server that flushes its append-only file.

use lockkeeper::Durability;
use lockkeeper::core::lock::ReplicaCount;
use lockkeeper_faults::{RedisServer, Replicated, ServerKind, available};

use crate::common::{assert_unmet, gone, hasty, keeper, take_at, token_of, token_on, try_at};

fn and_a_replica() -> Durability {
    Durability::Fsync { replicas: Some(ReplicaCount::new(1).unwrap()) }
}

#[tokio::test]
async fn what_is_on_disk_is_there_after_the_server_was_killed() {
    if !available(ServerKind::Valkey) {
        return;
    }
    let server = RedisServer::builder().kind(ServerKind::Valkey).persistent().start().unwrap();
    let keeper = keeper(&server).await;
    let guard = take_at(&keeper, "a", Durability::fsync()).await;
    server.kill().unwrap();
    server.restart().unwrap();
    assert_eq!(token_on(&server, "a"), token_of(&guard));
}

/// A loss of power, imitated: what was written and not flushed is cut off. The file is flushed once a second here, so what
/// it had when the level was met is what the disk has.
#[tokio::test]
async fn what_is_on_disk_survives_a_loss_of_power_and_what_is_accepted_need_not() {
    if !available(ServerKind::Valkey) {
        return;
    }
    let server = RedisServer::builder().kind(ServerKind::Valkey).persistent().start().unwrap();
    let keeper = keeper(&server).await;
    let guard = take_at(&keeper, "flushed", Durability::fsync()).await;
    let file = log_of(&server);
    let flushed = std::fs::metadata(&file).unwrap().len();
    let accepted = take_at(&keeper, "accepted", Durability::Accepted).await;
    server.kill().unwrap();
    let log = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    assert!(log.metadata().unwrap().len() > flushed, "nothing was written since");
    log.set_len(flushed).unwrap();
    server.restart().unwrap();
    assert_eq!(token_on(&server, "flushed"), token_of(&guard));
    assert_eq!(token_on(&server, "accepted"), None, "the loss that this level allows");
    drop(accepted);
}

/// The file that is written to.
fn log_of(server: &RedisServer) -> std::path::PathBuf {
    let files = std::fs::read_dir(server.folder().join("appendonlydir")).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    files.find(|file| file.to_string_lossy().ends_with(".incr.aof")).unwrap()
}

/// A server that leaves flushing to the system never says that it did.
#[tokio::test]
async fn a_file_that_is_not_flushed_meets_no_level() {
    if !available(ServerKind::Valkey) {
        return;
    }
    let builder = RedisServer::builder().kind(ServerKind::Valkey).persistent();
    let server = builder.config("appendfsync", "no").start().unwrap();
    let keeper = hasty(&server).await;
    assert_unmet(&try_at(&keeper, "a", Durability::fsync()).await.unwrap_err(), 0, 1);
    gone(&server, "a").await;
}

#[tokio::test]
async fn the_disk_of_a_replica_is_one_more() {
    if !available(ServerKind::Valkey) {
        return;
    }
    let builder = RedisServer::builder().kind(ServerKind::Valkey).persistent();
    let group = Replicated::start(&builder.config("appendfsync", "always"), 1).unwrap();
    // A replica tells of its disk about once a second.
    let patient = keeper(group.primary()).await;
    take_at(&patient, "a", and_a_replica()).await.release().await.unwrap();
    let keeper = hasty(group.primary()).await;
    group.replicas()[0].line.hold();
    assert_unmet(&try_at(&keeper, "a", and_a_replica()).await.unwrap_err(), 1, 2);
    gone(group.primary(), "a").await;
    take_at(&keeper, "a", Durability::fsync()).await.release().await.unwrap();
}
