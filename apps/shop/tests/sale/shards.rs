//! A sale in many parts sells everything, whoever comes.

use std::collections::HashSet;

use futures_util::future::join_all;
use lockkeeper_core::Timestamp;
use lockkeeper_shop::sale::shard::{Lend, Lending, Look, Receive, Received};
use lockkeeper_shop::sale::{Bought, Mode, STORE_WITHIN, Transfer};

use crate::support::{Shop, accepted, buyer, buyers_of, shops, sku};

/// All buyers live in one shard of eight, and units come to them from all others.
#[tokio::test]
async fn a_sale_whose_buyers_all_live_in_one_shard_sells_exactly_everything() {
    for shop in shops(Mode::Protected).await {
        let terms = shop.opened(80, 8).await;
        let crowd: Vec<_> = buyers_of(&terms, 3).take(240).collect();
        let answers = join_all(crowd.iter().map(|who| shop.buys(who))).await;
        let tickets: HashSet<_> = answers.iter().filter_map(accepted).collect();
        assert_eq!(tickets.len(), 80);
        assert!(answers.iter().all(|answer| accepted(answer).is_some() || *answer == Bought::SoldOut));
        let stock = shop.sales.stock(&sku()).await.unwrap();
        assert_eq!((stock.remaining, stock.sold, stock.in_transit), (0, 80, 0));
    }
}

/// Two processes and every home at once: no phantom "sold out", and no unit twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_and_eight_shards_sell_exactly_everything() {
    for shop in shops(Mode::Protected).await {
        shop.opened(150, 8).await;
        let nodes = [shop.sales.clone(), shop.another()];
        let clicks = (0..600).map(|n| {
            let node = nodes[n % 2].clone();
            tokio::spawn(async move { node.buy(&sku(), &buyer(n)).await.unwrap() })
        });
        let answers: Vec<Bought> = join_all(clicks).await.into_iter().map(Result::unwrap).collect();
        let tickets: HashSet<_> = answers.iter().filter_map(accepted).collect();
        let stock = shop.sales.stock(&sku()).await.unwrap();
        assert_eq!((tickets.len(), stock.remaining, stock.in_transit), (150, 0, 0));
        // Who was told "sold out" was told so rightly: whoever asks now hears the same.
        assert_eq!(shop.buys(&buyer(9999)).await, Bought::SoldOut);
    }
}

/// No phantom: while a unit is anywhere, on its way included, nobody hears "sold out".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_are_as_many_units_as_buyers_nobody_is_told_sold_out() {
    for shop in shops(Mode::Protected).await {
        shop.opened(120, 8).await;
        let nodes = [shop.sales.clone(), shop.another(), shop.another()];
        let clicks = (0..120).map(|n| {
            let node = nodes[n % 3].clone();
            tokio::spawn(async move { node.buy(&sku(), &buyer(n)).await.unwrap() })
        });
        let answers: Vec<Bought> = join_all(clicks).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(answers.iter().filter_map(accepted).count(), 120, "{answers:?}");
    }
}

/// A process that dies after lending, before anybody received anything.
async fn lent_and_died(shop: &Shop) -> (Transfer, u64) {
    let transfer: Transfer = "left-behind".parse().unwrap();
    let lend = Lend { transfer: transfer.clone(), to: 1, not_after: Timestamp::MAX };
    match shop.store.apply(&shop.at(0), lend, STORE_WITHIN).await.unwrap().reply {
        Lending::Lent(lent) => (transfer, lent.units),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn units_of_a_process_that_died_between_two_shards_are_counted_and_a_buyer_finishes_the_move() {
    for shop in shops(Mode::Protected).await {
        let terms = shop.opened(2, 2).await;
        let (_, units) = lent_and_died(&shop).await;
        let stock = shop.sales.stock(&sku()).await.unwrap();
        assert_eq!((stock.remaining, stock.in_transit, units), (1, 1, 1));
        // The first unit is in shard 1; the second on its way there.
        let buyers: Vec<_> = buyers_of(&terms, 1).take(3).collect();
        for who in &buyers[..2] {
            assert!(accepted(&shop.buys(who).await).is_some());
        }
        assert_eq!(shop.buys(&buyers[2]).await, Bought::SoldOut);
        let stock = shop.sales.stock(&sku()).await.unwrap();
        assert_eq!((stock.remaining, stock.in_transit, stock.sold), (0, 0, 2));
    }
}

#[tokio::test]
async fn reconciling_finishes_what_was_left_half_done_on_either_side() {
    for shop in shops(Mode::Protected).await {
        shop.opened(8, 2).await;
        // Once before, and once after the receiver had it.
        let (transfer, units) = lent_and_died(&shop).await;
        let looked = shop.store.apply(&shop.at(0), Look, STORE_WITHIN).await.unwrap().reply.unwrap();
        let receive = Receive { transfer, units, epoch: looked.epoch };
        let received = shop.store.apply(&shop.at(1), receive, STORE_WITHIN).await.unwrap().reply;
        assert_eq!(received, Received::Received);
        let lend = Lend { transfer: "another".parse().unwrap(), to: 1, not_after: Timestamp::MAX };
        shop.store.apply(&shop.at(0), lend, STORE_WITHIN).await.unwrap();
        let reconciled = shop.another().reconcile(&sku()).await.unwrap();
        assert_eq!((reconciled.finished_transfers, reconciled.is_clean()), (2, true));
        assert_eq!((reconciled.stock.remaining, reconciled.stock.in_transit), (8, 0));
    }
}
