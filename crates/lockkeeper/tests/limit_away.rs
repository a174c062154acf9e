//! Limiters whose store does not decide: what the policy is for, what it hides from nobody, and what opens the circuit.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use lockkeeper::{ErrorKind, Keeper, Source, Verdict, WhenAway};
use support::{PATIENT, command, keeper, ms, only_key, proxied, scripts, server};

/// A limit smaller than the number of instances leaves no share: nothing passes, and it says that this is no quota.
#[tokio::test]
async fn without_a_share_everything_is_refused_and_marked_as_degraded() {
    let keeper = Keeper::builder().url("redis://127.0.0.1:1").unwrap().lazy().connect().await.unwrap();
    let limiter = keeper.limiter("hot", "9/h").unwrap().when_away(WhenAway::Share { instances: 10 });
    let verdict = limiter.check("u").await.unwrap();
    assert!(matches!(verdict, Verdict::Denied { .. }) && verdict.is_degraded(), "{verdict:?}");
    assert_eq!(verdict.detail().source(), Source::Share);
    let open = keeper.limiter("open", "10/h").unwrap().when_away(WhenAway::Allow);
    let both = keeper.joint_in_sequence([open.clone(), open]).unwrap();
    let verdict = both.check(["a", "b"], 1).await.unwrap();
    assert!(verdict.is_allowed() && verdict.is_degraded(), "{verdict:?}");
}

/// What one limiter decided without the store is said of both, whichever stands first.
#[tokio::test]
async fn a_joint_of_which_a_part_was_not_checked_is_degraded() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = |name| keeper.limiter(name, "10/h").unwrap().decide_within(PATIENT);
    let allowing = limiter("foreign").when_away(WhenAway::Allow);
    assert!(allowing.check("u").await.unwrap().is_allowed());
    let key = only_key(&server, "limit:foreign:*");
    command(&server, &["SET", &key, "hello"]);
    for limiters in [[allowing.clone(), limiter("sound")], [limiter("sound"), allowing]] {
        let verdict = keeper.joint_in_sequence(limiters).unwrap().check(["u", "u"], 1).await.unwrap();
        assert!(verdict.is_allowed() && verdict.is_degraded(), "{verdict:?}");
    }
}

/// A later limiter that fails takes nothing, so what the earlier ones took goes back too.
#[tokio::test]
async fn a_joint_in_sequence_gives_back_when_a_later_limiter_fails() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let [user, org] = ["user", "org"].map(|name| keeper.limiter(name, "5/h").unwrap().decide_within(PATIENT));
    assert!(org.check("acme").await.unwrap().is_allowed());
    let key = only_key(&server, "limit:org:*");
    command(&server, &["SET", &key, "hello"]);
    let both = keeper.joint_in_sequence([user.clone(), org]).unwrap();
    assert_eq!(both.check(["a", "acme"], 3).await.unwrap_err().kind(), ErrorKind::WrongType);
    assert_eq!(user.peek("a", 1).await.unwrap().remaining(), 5);
}

/// Missing permissions are a mistake, which no policy hides: neither those for scripts nor those for what is in them.
#[tokio::test]
async fn missing_permissions_are_an_error_whatever_the_policy() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limits = ["5/h", "5/h; 9/d", "5/h sliding-log"];
    for (at, missing) in [&["-evalsha", "-eval"][..], &["-get", "-zrange"]].into_iter().enumerate() {
        command(&server, &[&["ACL", "SETUSER", "default"], missing].concat());
        for limit in limits {
            let limiter = keeper.limiter("hot", limit).unwrap().decide_within(PATIENT);
            for policy in [WhenAway::Allow, WhenAway::Share { instances: 2 }, WhenAway::Refuse] {
                let error = limiter.clone().when_away(policy).check(format!("u{at}")).await.unwrap_err();
                assert!(
                    !error.is_transient() && error.kind() != ErrorKind::WrongType,
                    "{missing:?}: {error}"
                );
            }
        }
        command(&server, &["ACL", "SETUSER", "default", "+@all"]);
        let limiter = keeper.limiter("hot", "5/h").unwrap().decide_within(PATIENT);
        assert_eq!(limiter.check("u").await.unwrap().detail().source(), Source::Store, "no circuit opened");
    }
}

/// Failures that were answered are no silence: a full server is asked each time.
#[tokio::test]
async fn a_server_that_answers_opens_no_circuit() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(PATIENT);
    command(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    let before = scripts(&server);
    for _ in 0..10 {
        let error = limiter.check("u").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Refused(_)), "{error}");
    }
    assert!(scripts(&server) - before >= 10);
}

/// Three silent calls *in a row* open the circuit: any answer between them, a refusal too, begins the count anew.
#[tokio::test]
async fn an_answer_between_silent_calls_keeps_the_circuit_closed() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    let patient = keeper.limiter("hot", "100/h").unwrap().decide_within(PATIENT).exact();
    let hasty = patient.clone().decide_within(ms(20));
    for maxmemory in ["0", "1", "0"] {
        command(&server, &["CONFIG", "SET", "maxmemory", maxmemory]);
        let answered = patient.check("u").await;
        match maxmemory {
            "0" => assert!(answered.unwrap().is_allowed()),
            _ => assert!(matches!(answered.unwrap_err().kind(), ErrorKind::Refused(_))),
        }
        proxy.hold_replies();
        for _ in 0..2 {
            assert!(hasty.check("u").await.unwrap_err().is_transient());
        }
        proxy.release();
    }
    command(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    assert!(patient.check("u").await.unwrap().is_allowed());
}
