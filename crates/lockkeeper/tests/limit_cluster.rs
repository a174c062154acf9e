//! Limits on a server that is a cluster of one node: what lies in one slot works, what does not is refused at once.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use lockkeeper::{ErrorKind, Keeper, WhenAway};
use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_testkit::wait::until;
use support::{SOON, command, secs};

async fn node() -> Option<RedisServer> {
    if !available(ServerKind::Redis) {
        return None;
    }
    let server = RedisServer::builder().config("cluster-enabled", "yes").start().unwrap();
    command(&server, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    until("the cluster is up", SOON, async || {
        command(&server, &["CLUSTER", "INFO"]).as_str().unwrap().contains("cluster_state:ok")
    })
    .await;
    Some(server)
}

/// R118, R140: keys of one call lie in one slot whatever the subject has in it, or the caller is told before anything is
/// asked.
#[tokio::test]
async fn r118_limits_of_one_call_lie_in_one_slot_or_are_refused_when_the_handle_is_made() {
    let Some(server) = node().await else { return };
    let keeper = Keeper::connect(&server.url()).await.unwrap();
    let several = keeper.limiter("api", "10/h; 1000/d sliding-log").unwrap().decide_within(secs(10));
    for subject in ["user:42", "a}{b", "{x}", "{}", "}"] {
        assert!(several.check(subject).await.unwrap().is_allowed(), "{subject}");
        assert_eq!(several.peek(subject, 1).await.unwrap().remaining(), 9, "{subject}");
    }

    let limiters = |keeper: &Keeper| {
        ["user", "org"].map(|name| keeper.limiter(name, "2/h").unwrap().decide_within(secs(10)))
    };
    let error = keeper.joint("both", limiters(&keeper)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("joint_in_sequence"), "{error}");
    let in_turn = keeper.joint_in_sequence(limiters(&keeper)).unwrap();
    assert!(in_turn.check(["a", "acme"], 2).await.unwrap().is_allowed());
    assert!(!in_turn.check(["b", "acme"], 1).await.unwrap().is_allowed());
    let [user, _] = limiters(&keeper);
    assert_eq!(user.peek("b", 1).await.unwrap().remaining(), 2, "given back");

    let tagged = Keeper::builder().url(&server.url()).unwrap().limit_prefix("{app}:limit:").unwrap();
    let tagged = tagged.connect().await.unwrap();
    let both = tagged.joint("both", limiters(&tagged)).unwrap();
    assert!(both.check(["a", "acme"], 2).await.unwrap().is_allowed());
    assert!(!both.check(["b", "acme"], 1).await.unwrap().is_allowed());
}

/// R161: a cluster that is down is a store that is away; what would be wrong for ever stays an error.
#[tokio::test]
async fn r161_a_cluster_that_is_down_is_left_to_the_policy() {
    if !available(ServerKind::Redis) {
        return;
    }
    // Nobody serves its slots.
    let server = RedisServer::builder().config("cluster-enabled", "yes").start().unwrap();
    let keeper = Keeper::connect(&server.url()).await.unwrap();
    let limiter = keeper.limiter("api", "10/h").unwrap().decide_within(secs(10));
    let error = limiter.check("u").await.unwrap_err();
    assert!(error.to_string().contains("CLUSTERDOWN"), "{error}");
    assert!(limiter.when_away(WhenAway::Allow).check("u").await.unwrap().is_degraded());
}
