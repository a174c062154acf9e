//! Listing operations that run once, and reading what is kept of their results: for operators.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::collections::BTreeSet;

use lockkeeper::{Begun, ErrorKind, Fingerprint, Keeper, OncePhase, OnceView, Stored};
use lockkeeper_faults::{RedisServer, ServerKind, available};

/// More than two pages.
const MANY: usize = 250;

fn server() -> Option<RedisServer> {
    available(ServerKind::Redis).then(|| RedisServer::builder().start().unwrap())
}

async fn complete(keeper: &Keeper, name: &str, key: &[u8], stored: Stored) {
    match keeper.once(name).unwrap().begin(key, Fingerprint::new([1; 32])).await.unwrap() {
        Begun::Claimed(attempt) => _ = attempt.complete(stored).await.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn whole(text: &str) -> Stored {
    Stored::whole(text.as_bytes()).unwrap()
}

async fn listed(keeper: &Keeper, name: Option<&str>) -> Vec<OnceView> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = keeper.list_once(name, cursor).await.unwrap();
        found.extend(page.records);
        assert!(found.len() <= 4 * MANY, "pages come again and again");
        match page.next {
            Some(next) => cursor = Some(next),
            None => return found,
        }
    }
}

fn names(views: &[OnceView]) -> BTreeSet<(String, Vec<u8>)> {
    views.iter().map(|view| (view.name.clone(), view.key.clone())).collect()
}

/// All of them, page by page, and of one name no other's.
async fn everything_is_listed(keeper: &Keeper) {
    let mut expected = BTreeSet::new();
    for number in 0..MANY {
        let key = format!("user:{number}").into_bytes();
        complete(keeper, "pay", &key, whole("x")).await;
        expected.insert(("pay".to_owned(), key));
    }
    complete(keeper, "pay2", b"\xff~fence:", whole("x")).await;
    // A lock is none of them.
    let lock = keeper.lock("pay:lock").unwrap().acquire().await.unwrap().or_busy().unwrap();
    assert_eq!(names(&listed(keeper, Some("pay")).await), expected);
    expected.insert(("pay2".to_owned(), b"\xff~fence:".to_vec()));
    let all = listed(keeper, None).await;
    assert_eq!(names(&all), expected);
    assert!(all.iter().all(|view| view.seen.phase == OncePhase::Completed));
    let odd = all.iter().find(|view| view.name == "pay2").unwrap();
    assert_eq!(odd.full_key.as_bytes(), b"once:pay2:\xff~fence:");
    assert!(listed(keeper, Some("pa")).await.is_empty());
    let error = keeper.list_once(Some("pay*"), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadArgument, "{error}");
    lock.release().await.unwrap();
}

#[tokio::test]
async fn everything_that_is_remembered_is_listed() {
    everything_is_listed(&Keeper::connect("memory://").await.unwrap()).await;
    if let Some(server) = server() {
        everything_is_listed(&Keeper::connect(&server.url()).await.unwrap()).await;
    }
}

async fn results_are_read_without_a_claim(keeper: &Keeper) {
    let pay = keeper.once("pay").unwrap();
    assert_eq!(pay.stored("k").await.unwrap(), None);
    let begun = pay.begin("k", Fingerprint::new([1; 32])).await.unwrap();
    assert_eq!(pay.stored("k").await.unwrap(), None, "it runs");
    let Begun::Claimed(attempt) = begun else { panic!("{begun:?}") };
    let about = Stored::not_kept(&b"201\0"[..]).unwrap();
    attempt.complete(about.clone()).await.unwrap();
    assert_eq!(pay.stored("k").await.unwrap(), Some(about));
}

#[tokio::test]
async fn a_result_is_read_without_a_claim() {
    results_are_read_without_a_claim(&Keeper::connect("memory://").await.unwrap()).await;
    if let Some(server) = server() {
        results_are_read_without_a_claim(&Keeper::connect(&server.url()).await.unwrap()).await;
    }
}
