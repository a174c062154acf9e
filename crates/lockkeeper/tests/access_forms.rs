//! Each form of URL, durable steps and plain locks, with users who have the printed rule and nothing else, on the real thing.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use lockkeeper::redis::access::{Feature, Prefixes, Rule};
use lockkeeper::redis::slot_of;
use lockkeeper::{Durability, Error, ErrorKind, Keeper, Released, TakenOver};
use lockkeeper_faults::{ClusterServers, RedisServer, Replicated, SentinelGroup, ServerKind, available};
use lockkeeper_testkit::wait::until;
use support::{SOON, command, secs};

const LOCKS: [Feature; 2] = [Feature::Locks, Feature::Probing];

fn rule(features: &[Feature]) -> Vec<String> {
    let features = [&LOCKS, features].concat();
    Rule::of(&features, &Prefixes::default(), (7, 0)).words().to_vec()
}

/// A user of this name has these words on each of the servers: users are not replicated.
fn allow<'a>(servers: impl IntoIterator<Item = &'a RedisServer>, words: &[String]) {
    for server in servers {
        let start = ["ACL", "SETUSER", "app", "reset", "on", ">pw"];
        command(server, &start.into_iter().chain(words.iter().map(String::as_str)).collect::<Vec<_>>());
        command(server, &["ACL", "LOG", "RESET"]);
    }
}

/// Without this word.
fn but(words: &[String], missing: &str) -> Vec<String> {
    assert!(words.iter().any(|word| word == missing), "{missing} is not in {words:?}");
    words.iter().filter(|word| *word != missing).cloned().collect()
}

/// What was refused to anybody.
fn refused(server: &RedisServer) -> Vec<String> {
    let log = command(server, &["ACL", "LOG"]);
    let objects = log.as_array().unwrap().iter().map(|entry| {
        let fields = entry.as_array().unwrap();
        let at = fields.iter().position(|field| field.as_str() == Some("object")).unwrap();
        fields[at + 1].as_str().unwrap().to_owned()
    });
    // What connecting asks, and does without.
    objects
        .filter(|object| !["client", "select", "hello"].contains(&object.split('|').next().unwrap()))
        .collect()
}

#[track_caller]
fn nothing_refused<'a>(servers: impl IntoIterator<Item = &'a RedisServer>) {
    for server in servers {
        assert_eq!(refused(server), Vec::<String>::new());
    }
}

async fn keeper(url: &str) -> Keeper {
    Keeper::builder().url(url).unwrap().lazy().connect().await.unwrap()
}

/// Taken, extended, handed over and given back.
async fn locks(keeper: &Keeper, name: &str) -> Result<(), Error> {
    let lock = keeper.lock(name)?.lease(secs(20));
    let guard = lock.try_acquire().await?.or_busy()?;
    guard.extend(secs(30)).await?;
    assert!(lock.try_acquire().await?.or_busy().is_err(), "it is taken");
    let TakenOver::Held(guard) = lock.take_over(&guard.hand_over()?).await? else { panic!("not taken over") };
    assert_eq!(guard.release().await?, Released::Released);
    Ok(())
}

fn redis() -> Option<RedisServer> {
    available(ServerKind::Redis).then(|| RedisServer::builder().start().unwrap())
}

fn majority(servers: &[RedisServer]) -> String {
    let places: Vec<_> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    format!("redis+quorum://app:pw@{}?max_lease=60s", places.join(","))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l94_a_majority_works_with_its_rule_and_not_without_its_marker() {
    let Some(first) = redis() else { return };
    let servers = [first, redis().unwrap(), redis().unwrap()];
    let words = rule(&[Feature::Quorum]);
    for missing in ["~~quorum", "+info"] {
        allow(&servers, &but(&words, missing));
        let keeper = keeper(&majority(&servers)).await;
        let store = keeper.quorum_store().unwrap();
        let opened = store.init(true).await;
        let votes = locks(&keeper, "a").await;
        assert!(opened.is_err() && votes.is_err(), "{missing}: it is opened without");
        keeper.close(secs(1)).await;
    }
    allow(&servers, &words);
    let keeper = keeper(&majority(&servers)).await;
    keeper.quorum_store().unwrap().init(false).await.unwrap();
    locks(&keeper, "a").await.unwrap();
    // Numbers that differ, so that the greatest is written back.
    for (server, fence) in servers.iter().zip(["9007199254600000", "1", "2"]) {
        command(server, &["SET", "lock:~fence:{lock:f}", fence]);
    }
    let guard = keeper.lock("f").unwrap().try_acquire().await.unwrap().or_busy().unwrap();
    assert!(guard.fence().is_ok(), "{:?}", guard.fence());
    guard.release().await.unwrap();
    nothing_refused(&servers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l94_sentinels_are_followed_by_users_who_have_the_rules_and_tell_of_failovers() {
    if !available(ServerKind::Redis) {
        return;
    }
    let group = tokio::task::block_in_place(|| SentinelGroup::builder().replicas(1).start().unwrap());
    allow(group.servers(), &rule(&[Feature::Sentinel]));
    let words = Rule::of(&[Feature::Sentinels], &Prefixes::default(), (7, 0)).words().to_vec();
    allow(group.sentinels(), &words);
    let url = group.url().replace("redis+sentinel://", "redis+sentinel://app:pw@");
    let url = format!("{url}?sentinel_user=app&sentinel_password=pw");
    let keeper = keeper(&url).await;
    locks(&keeper, "a").await.unwrap();
    let heard = |server: &RedisServer| {
        let list = command(server, &["CLIENT", "LIST"]);
        list.as_str().unwrap().lines().any(|line| line.contains(" user=app ") && line.contains(" sub=5 "))
    };
    until("it listens to all", SOON, async || group.sentinels().iter().all(heard)).await;
    let views = keeper.redis_store().unwrap().sentinels().await.unwrap();
    for view in views {
        assert!(
            view.primary.is_ok() && view.quorum == Some(Ok(())) && view.events == Some(Ok(())),
            "{view:?}"
        );
        assert_eq!(view.refused, None);
    }
    nothing_refused(group.sentinels());

    // Followed, with the same user on the new primary.
    let next = tokio::task::block_in_place(|| group.failover().unwrap());
    until("it follows", secs(20), async || locks(&keeper, "b").await.is_ok()).await;
    assert_eq!(next, 1);
    nothing_refused(group.servers());

    // Without the events it is asked, and that is seen; without the rest there is no primary.
    let unheard = words.iter().filter(|word| !word.starts_with('&')).cloned().collect::<Vec<_>>();
    allow(group.sentinels(), &unheard);
    let asking = self::keeper(&url).await;
    locks(&asking, "c").await.unwrap();
    let views = asking.redis_store().unwrap().sentinels().await.unwrap();
    assert!(views.iter().all(|view| view.primary.is_ok() && view.refused.is_some()), "{views:?}");
    for missing in ["+sentinel|master", "+sentinel|get-master-addr-by-name"] {
        allow(group.sentinels(), &but(&words, missing));
        let blind = self::keeper(&url).await;
        assert!(blind.lock("d").unwrap().try_acquire().await.is_err(), "{missing} is idle");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l94_a_cluster_works_with_its_rule_also_while_slots_move() {
    if !available(ServerKind::Redis) {
        return;
    }
    let start = || ClusterServers::minimal(&RedisServer::builder()).unwrap();
    let cluster = tokio::task::block_in_place(start);
    let url = cluster.url().replace("redis+cluster://", "redis+cluster://app:pw@");
    let words = rule(&[Feature::Cluster]);
    allow(cluster.nodes(), &but(&words, "+cluster|slots"));
    assert!(locks(&keeper(&url).await, "a").await.is_err(), "+cluster|slots is idle");
    allow(cluster.nodes(), &words);
    let keeper = keeper(&url).await;
    for name in ["a", "b", "c", "d", "e", "f"] {
        locks(&keeper, name).await.unwrap();
    }
    // A lock whose keys are at the next server already is found there by asking (ASKING).
    let (slot, kept) = (slot_of(b"lock:a"), ["lock:a", "lock:~fence:{lock:a}"]);
    for (user, works) in [(&words, true), (&but(&words, "+asking"), false)] {
        let guard = keeper.lock("a").unwrap().lease(secs(20)).try_acquire().await.unwrap().or_busy().unwrap();
        let to = (cluster.owner_of(slot).unwrap() + 1) % 3;
        allow(cluster.nodes(), user);
        tokio::task::block_in_place(|| {
            let moving = cluster.begin_move(slot, to).unwrap();
            kept.iter().for_each(|key| moving.carry(key.as_bytes()).unwrap());
        });
        let extended = guard.extend(secs(30)).await;
        assert_eq!(extended.is_ok(), works, "{extended:?}");
        if works {
            nothing_refused(cluster.nodes());
        }
        allow(cluster.nodes(), &words);
        tokio::task::block_in_place(|| cluster.move_slot(slot, to).unwrap());
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l94_durable_steps_work_with_their_rule() {
    if !available(ServerKind::Redis) {
        return;
    }
    let start = || Replicated::start(&RedisServer::builder(), 1).unwrap();
    let group = tokio::task::block_in_place(start);
    let url = group.primary().url().replace("redis://", "redis://app:pw@");
    let words = rule(&[Feature::Durability]);
    let levels = [("+wait", Durability::replicas(1).unwrap()), ("+role", Durability::AllReplicas)];
    for (needed, level) in levels {
        for (allowed, works) in [(words.clone(), true), (but(&words, needed), false)] {
            allow([group.primary()], &allowed);
            let keeper = keeper(&url).await;
            let taken = keeper.lock("a").unwrap().durability(level).try_acquire().await;
            assert_eq!(taken.is_ok(), works, "{needed}: {taken:?}");
            match taken {
                Ok(taken) => drop(taken.or_busy().unwrap().release().await.unwrap()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
            }
            if works {
                nothing_refused([group.primary()]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l94_l103_plain_locks_work_with_their_rule() {
    if !available(ServerKind::Valkey) {
        return;
    }
    let server = RedisServer::builder().kind(ServerKind::Valkey).start().unwrap();
    let url = server.url().replace("redis://", "redis://app:pw@");
    let words = Rule::of(&[Feature::Plain], &Prefixes::default(), (7, 2)).words().to_vec();
    let plain =
        async || Keeper::builder().url(&url).unwrap().without_scripts().lazy().connect().await.unwrap();
    allow([&server], &words);
    let keeper = plain().await;
    locks(&keeper, "a").await.unwrap();
    assert!(keeper.inspect("a").await.unwrap().holder.is_none());
    let guard = keeper.lock("a").unwrap().lease(secs(2)).acquire().await.unwrap().or_busy().unwrap();
    let left = guard.remaining();
    until("it is renewed", SOON, async || guard.remaining() > left).await;
    guard.release().await.unwrap();
    for missing in ["+get", "+set", "+pttl", "~lock:*"] {
        allow([&server], &but(&words, missing));
        let keeper = plain().await;
        let seen = match locks(&keeper, "b").await {
            Ok(()) => keeper.inspect("b").await.map(drop),
            Err(error) => Err(error),
        };
        assert!(seen.is_err(), "{missing} is idle");
        command(&server, &["FLUSHALL"]);
    }
}
