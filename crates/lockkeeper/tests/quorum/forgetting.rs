//! Servers that were restarted empty.

use lockkeeper::Keeper;
use lockkeeper::redis::NodeStanding;
use lockkeeper_faults::{FakeClock, RedisServer, ServerKind, available, faketime_available};
use lockkeeper_testkit::wait::until;

use crate::five::{Servers, stands, try_take, votes};
use crate::support::{SOON, command, ms, secs};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_majority_waits_or_is_opened() {
    let Some(three) = Servers::start(3) else { return };
    let url = three.url("max_lease=1500ms");
    let keeper = Keeper::connect(&url).await.unwrap();
    let lock = keeper.lock("a").unwrap().lease(secs(1)).no_renewal();
    let error = lock.try_acquire().await.expect_err("nobody votes yet").to_string();
    assert!(error.contains("0 of 3 servers vote") && error.contains("abstains for"), "{error}");
    // By itself, after max_lease. Real time: the servers' own word on how long they are up.
    until("it opens by itself", secs(10), async || lock.try_acquire().await.is_ok()).await;
    let store = keeper.quorum_store().unwrap();
    let error = store.init(false).await.unwrap_err().to_string();
    assert!(error.contains("votes already"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l74_a_server_that_was_restarted_empty_abstains_while_another_lease_may_run() {
    let Some(five) = Servers::start(5) else { return };
    let (a, b) = (five.keeper("max_lease=3s").await, five.keeper("max_lease=3s").await);
    // A gets 1 to 3, because B's try has 4 and 5 at that moment.
    for server in &five.servers[3..] {
        command(server, &["SET", "lock:k", "b", "PX", "60000"]);
    }
    let guard = a.lock("k").unwrap().lease(ms(2900)).try_acquire().await.unwrap().or_busy().unwrap();
    until("A has 1 to 3", SOON, async || five.holds("k") == [true; 5]).await;
    for server in &five.servers[3..] {
        command(server, &["DEL", "lock:k"]);
    }
    five.restart(2).await;
    stands(&b, 2, "abstains", |standing| matches!(standing, NodeStanding::Abstains(_))).await;
    assert!(!five.holds("k")[2], "it has forgotten");
    // B could have 3, 4 and 5, if 3 voted.
    assert!(try_take(&b, "k", secs(1)).await.is_none(), "B must not reach a majority while A is valid");
    // A's renewals take what is missing.
    until("A has topped up", SOON, async || {
        let holds = five.holds("k");
        holds[0] && holds[1] && holds[3] && holds[4]
    })
    .await;
    assert!(guard.is_valid());
    // And in time the third votes again, and is taken too.
    votes(&b, 2).await;
    until("all five", secs(10), async || five.holds("k") == [true; 5]).await;
    assert!(guard.is_valid() && try_take(&b, "k", secs(1)).await.is_none());
    guard.release().await.unwrap();
    five.nobody_holds("k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_of_the_others_goes_on_while_one_abstains() {
    let Some(three) = Servers::start(3) else { return };
    let keeper = three.keeper("").await;
    three.restart(0).await;
    stands(&keeper, 0, "abstains", |standing| matches!(standing, NodeStanding::Abstains(_))).await;
    let guard = try_take(&keeper, "a", secs(10)).await.unwrap();
    assert_eq!(three.holds("a"), [false, true, true], "nothing is asked of it");
    guard.release().await.unwrap();
    three.restart(1).await;
    let lock = keeper.lock("a").unwrap().lease(secs(10)).no_renewal();
    let error = lock.try_acquire().await.expect_err("one of three votes");
    assert!(error.is_transient(), "{error}");
    three.nobody_holds("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_every_write_is_kept_a_server_that_has_its_marker_votes_at_once() {
    let Some(three) = Servers::start(3) else { return };
    let keeper = three.keeper("persistent=yes").await;
    // A look alone would leave no marker.
    assert!(try_take(&keeper, "a", secs(10)).await.is_some());
    let marker = command(&three.servers[0], &["GET", "~quorum"]).as_str().unwrap().to_owned();
    three.restart(0).await;
    stands(&keeper, 0, "abstains", |standing| matches!(standing, NodeStanding::Abstains(_))).await;
    // What its disk would have given back.
    command(&three.servers[0], &["SET", "~quorum", &marker]);
    votes(&keeper, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_forward_at_one_server_costs_its_vote_and_a_renewal_takes_it_again() {
    if !available(ServerKind::Redis62) || !faketime_available() {
        return;
    }
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let start =
        |clock: &FakeClock| RedisServer::builder().kind(ServerKind::Redis62).faketime(clock).start().unwrap();
    let clocks: Vec<_> = (0..5).map(|_| FakeClock::new(wall.as_micros() as u64).unwrap()).collect();
    let servers: Vec<_> = clocks.iter().map(start).collect();
    let places: Vec<_> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let keeper = Keeper::connect(&format!("redis+quorum://{}", places.join(","))).await.unwrap();
    keeper.quorum_store().unwrap().init(false).await.unwrap();

    let guard = keeper.lock("a").unwrap().lease(secs(3)).try_acquire().await.unwrap().or_busy().unwrap();
    let token = |server: &RedisServer| command(server, &["GET", "lock:a"]).as_str().map(str::to_owned);
    until("all five have it", SOON, async || servers.iter().all(|server| token(server).is_some())).await;
    clocks[0].advance(secs(3600)).unwrap();
    assert_eq!(token(&servers[0]), None, "it has ended there");
    assert!(guard.is_valid() && try_take(&keeper, "a", secs(1)).await.is_none());
    until("a renewal has taken it again", SOON, async || token(&servers[0]) == token(&servers[1])).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    until("it is nowhere", SOON, async || servers.iter().all(|server| token(server).is_none())).await;
}
