//! What a majority refuses, and what it does not do.

use lockkeeper::{ErrorKind, Keeper, Limit};
use lockkeeper_faults::{RedisServer, ServerKind, available};

use crate::five::Servers;
use crate::support::{command, scripts, secs};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_by_two_names_is_refused() {
    let Some(two) = Servers::start(2) else { return };
    let ports = [two.servers[0].port(), two.servers[1].port()];
    let url = format!("redis+quorum://127.0.0.1:{},localhost:{},127.0.0.1:{}", ports[0], ports[0], ports[1]);
    let error = Keeper::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let text = error.to_string();
    assert!(text.contains("same server as localhost:") && text.contains("independent servers"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l124_members_of_a_cluster_and_replicas_are_refused() {
    if !available(ServerKind::Redis) {
        return;
    }
    let Some(two) = Servers::start(2) else { return };
    let member = RedisServer::builder().config("cluster-enabled", "yes").start().unwrap();
    let url = |odd: &RedisServer| {
        let [one, other] = [two.servers[0].port(), two.servers[1].port()];
        format!("redis+quorum://127.0.0.1:{one},127.0.0.1:{other},127.0.0.1:{}", odd.port())
    };
    let error = Keeper::connect(&url(&member)).await.unwrap_err().to_string();
    assert!(error.contains("member of a cluster") && error.contains(&member.port().to_string()), "{error}");
    let replica = RedisServer::builder().start().unwrap();
    command(&replica, &["REPLICAOF", "127.0.0.1", &two.servers[0].port().to_string()]);
    let error = Keeper::connect(&url(&replica)).await.unwrap_err().to_string();
    assert!(error.contains("is a replica"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_other_numbers_are_refused() {
    let Some(three) = Servers::start(3) else { return };
    three.keeper("max_lease=60s").await;
    let error = Keeper::connect(&three.url("max_lease=10s")).await.unwrap_err().to_string();
    assert!(error.contains("majority of 3 with max_lease=60000ms"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_longer_than_max_lease_is_refused_before_anything_is_sent() {
    let Some(three) = Servers::start(3) else { return };
    let keeper = three.keeper("max_lease=5s").await;
    let before: u64 = three.servers.iter().map(scripts).sum();
    let lock = keeper.lock("a").unwrap().lease(secs(6)).no_renewal();
    let error = lock.try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadArgument, "{error}");
    assert!(error.to_string().contains("max_lease of 5s"), "{error}");
    assert_eq!(three.servers.iter().map(scripts).sum::<u64>(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_done_safely_is_said_when_the_handle_is_made() {
    let Some(three) = Servers::start(3) else { return };
    let keeper = three.keeper("").await;
    let errors = [
        keeper.limiter("l", Limit::token_bucket(1).refill(1, secs(1))).map(|_| ()).unwrap_err(),
        keeper.once("o").map(|_| ()).unwrap_err(),
        keeper.concurrency("c", 3).map(|_| ()).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("majority of independent servers"), "{error}");
    }
}
