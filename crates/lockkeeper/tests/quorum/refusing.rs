//! What a majority refuses, and what it does not do.

use lockkeeper::redis::{NodeStanding, QuorumConfig};
use lockkeeper::{ErrorKind, Keeper, Limit};
use lockkeeper_faults::{RedisServer, ServerKind, available};

use lockkeeper_testkit::wait::until;

use crate::five::{Servers, stands, try_take};
use crate::support::{SOON, command, ms, scripts, secs};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_by_two_names_is_refused() {
    let Some(two) = Servers::start(2) else { return };
    let ports = [two.servers[0].port(), two.servers[1].port()];
    let url = format!("redis+quorum://127.0.0.1:{},localhost:{},127.0.0.1:{}", ports[0], ports[0], ports[1]);
    let error = Keeper::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let text = error.to_string();
    assert!(text.contains("same server as 127.0.0.1:") && text.contains("independent servers"), "{text}");
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
    // One that was demoted costs its vote; two of three are too many.
    let replica = RedisServer::builder().start().unwrap();
    let demote = |server: &RedisServer| {
        command(server, &["REPLICAOF", "127.0.0.1", &two.servers[0].port().to_string()]);
    };
    demote(&replica);
    let keeper = Keeper::connect(&url(&replica)).await.unwrap();
    let is_refused = |standing: &NodeStanding| standing.to_string().contains("is a replica");
    stands(&keeper, 2, "is refused", is_refused).await;
    demote(&two.servers[1]);
    let error = Keeper::connect(&url(&replica)).await.unwrap_err().to_string();
    assert!(error.contains("is a replica"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_connects_gets_locks_although_a_minority_is_demoted_or_of_another_majority() {
    let Some(five) = Servers::start(5) else { return };
    let first = five.keeper("").await;
    command(&five.servers[4], &["REPLICAOF", "127.0.0.1", &five.servers[0].port().to_string()]);
    let marker = markers(&five.servers)[3].clone().unwrap();
    let (ours, _) = marker.rsplit_once(' ').unwrap();
    command(&five.servers[3], &["SET", "~quorum", &format!("{ours} {:016x}", 7)]);
    let keeper = Keeper::connect(&five.url("")).await.unwrap();
    for node in [3, 4] {
        stands(&keeper, node, "is refused", |standing| matches!(standing, NodeStanding::Refused(_))).await;
    }
    let guard = try_take(&keeper, "a", secs(10)).await.unwrap();
    assert!(try_take(&first, "a", secs(10)).await.is_none());
    guard.release().await.unwrap();
    command(&five.servers[2], &["SET", "~quorum", &format!("{ours} {:016x}", 7)]);
    let error = Keeper::connect(&five.url("")).await.expect_err("two of five").to_string();
    assert!(error.contains("other servers") && error.contains("is a replica"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_other_numbers_are_refused() {
    let Some(three) = Servers::start(3) else { return };
    three.keeper("max_lease=60s").await;
    let error = Keeper::connect(&three.url("max_lease=10s")).await.unwrap_err().to_string();
    assert!(error.contains("majority of 3 with max_lease=60s"), "{error}");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_that_became_wrong_costs_its_vote_and_nothing_else() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    let guard = keeper.lock("a").unwrap().lease(ms(1500)).try_acquire().await.unwrap().or_busy().unwrap();
    command(&five.servers[4], &["REPLICAOF", "127.0.0.1", &five.servers[0].port().to_string()]);
    stands(&keeper, 4, "is refused", |standing| matches!(standing, NodeStanding::Refused(_))).await;
    // Longer than the lease: it is renewed by the others.
    let lost = tokio::time::timeout(secs(2), guard.lost()).await;
    assert!(lost.is_err() && guard.is_valid(), "{lost:?}");
    assert!(try_take(&keeper, "b", secs(10)).await.is_some());
    for server in &five.servers[2..4] {
        command(server, &["REPLICAOF", "127.0.0.1", &five.servers[0].port().to_string()]);
    }
    for node in [2, 3] {
        stands(&keeper, node, "is refused", |standing| matches!(standing, NodeStanding::Refused(_))).await;
    }
    let lock = keeper.lock("c").unwrap().lease(secs(10)).no_renewal();
    let error = lock.try_acquire().await.expect_err("two of five");
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("is a replica"), "{error}");
}

fn markers(servers: &[RedisServer]) -> Vec<Option<String>> {
    servers.iter().map(|server| command(server, &["GET", "~quorum"]).as_str().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_other_numbers_or_only_looks_leaves_no_marker() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    five.restart(0).await;
    stands(&keeper, 0, "abstains", |standing| matches!(standing, NodeStanding::Abstains(_))).await;
    let config = QuorumConfig::from_url(&five.url("max_lease=100ms")).unwrap();
    let other = Keeper::builder().quorum(config).lazy().connect().await.unwrap();
    let store = other.quorum_store().unwrap();
    // Used, and looked at, until it would mark the first server if it might.
    let lock = other.lock("a").unwrap().lease(ms(100)).no_renewal();
    let is_due = async || {
        let error = lock.try_acquire().await.expect_err("they are of another majority");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        store.status().await[0].standing == NodeStanding::Abstains(ms(0))
    };
    until("100 ms are over", SOON, is_due).await;
    tokio::time::sleep(ms(1500)).await;
    assert_eq!(markers(&five.servers)[0], None);
    assert!(try_take(&keeper, "a", secs(10)).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_marks_nothing_also_when_all_has_ended() {
    let Some(three) = Servers::start(3) else { return };
    let config = QuorumConfig::from_url(&three.url("max_lease=100ms")).unwrap();
    // Its own thread marks, so nothing but looks may be asked of this one.
    let keeper = Keeper::builder().quorum(config).lazy().connect().await.unwrap();
    let store = keeper.quorum_store().unwrap();
    let all_due =
        async || store.status().await.iter().all(|one| one.standing == NodeStanding::Abstains(ms(0)));
    until("100 ms are over", SOON, all_due).await;
    assert_eq!(markers(&three.servers), vec![None; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_servers_that_overlap_are_never_two_majorities() {
    let Some(five) = Servers::start(5) else { return };
    let url = |nodes: [usize; 3], parameters: &str| {
        let places = nodes.map(|node| format!("127.0.0.1:{}", five.servers[node].port())).join(",");
        format!("redis+quorum://{places}?max_lease=500ms{parameters}")
    };
    let lazy = async |url: &str| {
        let config = QuorumConfig::from_url(url).unwrap();
        Keeper::builder().quorum(config).lazy().connect().await.unwrap()
    };
    let one = lazy(&url([0, 1, 2], "")).await;
    one.quorum_store().unwrap().init(false).await.unwrap();
    // The same servers in another order are the same.
    let again = lazy(&url([2, 0, 1], "")).await;
    let guard = again.lock("a").unwrap().lease(ms(500)).try_acquire().await.unwrap().or_busy().unwrap();
    // One that shares a server, and one in which a server was replaced.
    for nodes in [[2, 3, 4], [0, 1, 3]] {
        let other = lazy(&url(nodes, "")).await;
        let lock = other.lock("a").unwrap().lease(ms(500)).no_renewal();
        let started = std::time::Instant::now();
        while started.elapsed() < ms(2500) {
            assert!(lock.try_acquire().await.is_err(), "{nodes:?} has a majority of its own");
            tokio::time::sleep(ms(50)).await;
        }
        let error = other.quorum_store().unwrap().init(false).await.unwrap_err().to_string();
        assert!(error.contains("other servers") && error.contains("nothing was marked"), "{error}");
    }
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    // One of three is not all that the old list needs: it would go on.
    let beside = lazy(&url([2, 3, 4], "")).await;
    let error = beside.quorum_store().unwrap().init(true).await.unwrap_err().to_string();
    assert!(
        error.contains("would go on with its other 2") && error.contains("nothing was marked"),
        "{error}"
    );
    assert_eq!(markers(&five.servers)[3..], [None, None]);
    // Who changes the list says so, and the clients with the old one are out.
    let new = lazy(&url([0, 1, 3], "")).await;
    new.quorum_store().unwrap().init(true).await.unwrap();
    assert!(try_take(&new, "a", ms(500)).await.is_some());
    stands(&one, 0, "is refused", |standing| matches!(standing, NodeStanding::Refused(_))).await;
    let error = one.lock("a").unwrap().lease(ms(500)).no_renewal().try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("other servers"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_marker_that_cannot_be_read_is_anothers() {
    let Some(three) = Servers::start(3) else { return };
    let keeper = three.keeper("").await;
    command(&three.servers[0], &["SET", "~quorum", "2 of a later version"]);
    let is_others = |standing: &NodeStanding| standing.to_string().contains("of another form");
    stands(&keeper, 0, "is refused", is_others).await;
    assert!(try_take(&keeper, "a", secs(10)).await.is_some());
    tokio::time::sleep(ms(1500)).await;
    assert_eq!(markers(&three.servers)[0].as_deref(), Some("2 of a later version"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_called_otherwise_are_the_same_by_a_name() {
    let Some(three) = Servers::start(3) else { return };
    let keeper = three.keeper("name=q").await;
    let guard = try_take(&keeper, "a", secs(10)).await.unwrap();
    let direct = three.servers.iter().map(|server| format!("127.0.0.1:{}", server.port()));
    let url = format!("redis+quorum://{}", direct.collect::<Vec<_>>().join(","));
    let other = Keeper::connect(&format!("{url}?name=q")).await.unwrap();
    assert!(try_take(&other, "a", secs(10)).await.is_none());
    guard.release().await.unwrap();
    assert!(Keeper::connect(&url).await.unwrap_err().to_string().contains("another name"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_that_has_a_marker_of_whatever_run_is_not_new() {
    let Some(three) = Servers::start(3) else { return };
    let keeper = three.keeper("").await;
    let marker = markers(&three.servers)[0].clone().unwrap();
    for node in 0..3 {
        three.restart(node).await;
        stands(&keeper, node, "abstains", |standing| matches!(standing, NodeStanding::Abstains(_))).await;
    }
    // What its snapshot would have given back.
    command(&three.servers[0], &["SET", "~quorum", &marker]);
    let store = keeper.quorum_store().unwrap();
    let error = store.init(false).await.unwrap_err().to_string();
    assert!(error.contains("not new") && error.contains("nothing was marked"), "{error}");
    assert_eq!(markers(&three.servers)[1..], [None, None]);
    store.init(true).await.unwrap();
    assert!(try_take(&keeper, "a", secs(10)).await.is_some());
}
