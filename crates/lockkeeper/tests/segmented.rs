//! Locks in shards: what excludes what, and where the shards lie.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use lockkeeper::core::{Key, Prefix};
use lockkeeper::redis::{fence_key, slot_of};
use lockkeeper::{Acquired, ErrorKind, Keeper, Lock, LockGuard, shard_name};
use support::{exists, keeper, secs, server};

async fn held(lock: Lock) -> LockGuard {
    lock.lease(secs(30)).no_renewal().try_acquire().await.unwrap().or_busy().unwrap()
}

async fn is_busy(lock: Lock) -> bool {
    matches!(lock.try_acquire().await.unwrap(), Acquired::Busy(_))
}

/// The scenario, on any store.
async fn shards_exclude_themselves_and_all_of_them(keeper: &Keeper) {
    let stock = keeper.segmented("stock:sku-9", 16).unwrap();
    let (one, other) = ("warehouse-2", "warehouse-3");
    assert_ne!(stock.shard_of(one), stock.shard_of(other));

    let first = held(stock.shard(one)).await;
    let second = held(stock.shard(other)).await;
    assert!(is_busy(stock.shard(one)).await && is_busy(stock.all_shards()).await);
    first.release().await.unwrap();
    assert!(is_busy(stock.all_shards()).await, "the other shard is held");
    let before = second.fence().unwrap();
    second.release().await.unwrap();

    let all = held(stock.all_shards()).await;
    assert!(all.fence().unwrap() > before);
    for number in 0..100 {
        assert!(is_busy(stock.shard(format!("{number}"))).await, "{number}");
    }
    let before = all.fence().unwrap();
    all.release().await.unwrap();
    assert!(held(stock.shard(one)).await.fence().unwrap() > before);
}

#[tokio::test]
async fn on_memory() {
    shards_exclude_themselves_and_all_of_them(&Keeper::connect("memory://").await.unwrap()).await;
}

#[tokio::test]
async fn on_a_server() {
    let Some(server) = server() else { return };
    shards_exclude_themselves_and_all_of_them(&keeper(&server).await).await;
    let keeper = keeper(&server).await;
    let _held = held(keeper.segmented("hot", 16).unwrap().shard("warehouse-3")).await;
    assert!(exists(&server, "lock:{hot}:shard-10-of-16"));
}

#[tokio::test]
async fn l95_shards_and_their_side_keys_lie_in_one_slot() {
    for (prefix, name) in
        [("lock:", "stock:sku-9"), ("lock:", "x{sku-9}:stock"), ("{app}:", "stock"), ("", "s")]
    {
        let prefix = Prefix::new(prefix).unwrap();
        let slot = |sub_key: u32| {
            let key = Key::new(&prefix, shard_name(name, 128, sub_key.to_be_bytes()).unwrap()).unwrap();
            assert_eq!(slot_of(key.as_bytes()), slot_of(&fence_key(&key)));
            slot_of(key.as_bytes())
        };
        assert!((1..500).all(|sub_key| slot(sub_key) == slot(0)), "{name}");
    }
}

#[tokio::test]
async fn another_number_of_shards_is_refused_with_both_numbers() {
    let keeper = Keeper::connect("memory://").await.unwrap();
    keeper.segmented("stock", 16).unwrap();
    keeper.segmented("stock", 16).unwrap();
    let class = keeper.clone().lock_class("stock").unwrap();
    let error = class.segmented("stock", 32).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadArgument);
    assert!(error.to_string().contains("16") && error.to_string().contains("32"), "{error}");
    for bad in ["", "~fence:a", "a{b"] {
        assert!(keeper.segmented(bad, 4).is_err(), "{bad}");
    }
    assert!(keeper.segmented("x".repeat(4096), 4).is_err(), "with the number it is too long");
}

/// The way to another number while the work goes on: both, in one decision.
#[tokio::test]
async fn two_numbers_can_be_taken_together() {
    let keeper = Keeper::connect("memory://").await.unwrap();
    let names = [16, 32].map(|shards| shard_name("stock", shards, "warehouse-3").unwrap());
    let both = held(keeper.lock_all(&names).unwrap()).await;
    assert!(is_busy(keeper.segmented("stock", 16).unwrap().shard("warehouse-3")).await);
    drop(both);
}
