//! What the store loses is noticed, and rebuilt from the terms and the orders.

use lockkeeper_shop::sale::shard::Look;
use lockkeeper_shop::sale::{Bought, Mode, Outcome, STORE_WITHIN, SaleError};
use lockkeeper_testkit::wait::until;

use crate::support::{SOON, Shop, Working, accepted, buyer, buyers_of, shops, sku};

async fn sell_and_write(shop: &Shop, many: usize) {
    for n in 0..many {
        assert!(accepted(&shop.buys(&buyer(n)).await).is_some());
    }
    let worker = Working::start(shop.sales.worker("w"));
    shop.drained().await;
    worker.end().await;
}

#[tokio::test]
async fn a_flushed_store_sells_nothing_and_says_that_the_stock_is_unknown() {
    for shop in shops(Mode::Protected).await {
        shop.opened(10, 4).await;
        sell_and_write(&shop, 3).await;
        shop.flush();
        for n in [0, 7] {
            let error = shop.sales.buy(&sku(), &buyer(n)).await.unwrap_err();
            assert!(matches!(error, SaleError::StockUnknown(_)), "{error}");
            assert!(error.is_transient());
        }
        assert!(matches!(shop.sales.stock(&sku()).await, Err(SaleError::StockUnknown(_))));
        // The database still knows who has an order.
        assert!(matches!(shop.outcome(&buyer(0)).await, Outcome::Ordered(_)));
        assert!(matches!(shop.sales.outcome(&sku(), &buyer(7)).await, Err(SaleError::StockUnknown(_))));
    }
}

#[tokio::test]
async fn a_flushed_sale_is_rebuilt_with_what_is_no_order_and_with_who_was_served() {
    for shop in shops(Mode::Protected).await {
        shop.opened(10, 4).await;
        sell_and_write(&shop, 3).await;
        shop.flush();
        let reconciled = shop.another().reconcile(&sku()).await.unwrap();
        assert_eq!((reconciled.rebuilt_shards, reconciled.is_clean()), (4, true), "{reconciled:?}");
        assert_eq!((reconciled.stock.remaining, reconciled.stock.sold), (7, 3));
        for n in 0..3 {
            assert!(matches!(shop.buys(&buyer(n)).await, Bought::AlreadyBought { .. }));
        }
        for n in 3..10 {
            assert!(accepted(&shop.buys(&buyer(n)).await).is_some(), "{n}");
        }
        assert_eq!(shop.buys(&buyer(10)).await, Bought::SoldOut);
    }
}

/// Opening again repairs as well: every process does that when it starts.
#[tokio::test]
async fn opening_a_flushed_sale_again_rebuilds_it() {
    for shop in shops(Mode::Protected).await {
        let terms = shop.opened(10, 2).await;
        sell_and_write(&shop, 4).await;
        shop.flush();
        let (one, other) = (shop.another(), shop.another());
        let (one, other) = tokio::join!(one.open(terms.clone()), other.open(terms.clone()));
        one.and(other).unwrap();
        let stock = shop.sales.stock(&sku()).await.unwrap();
        assert_eq!((stock.remaining, stock.sold, stock.written), (6, 4, 4));
    }
}

/// Eviction takes single keys. What the other shards have, and what is queued there, stays.
#[tokio::test]
async fn one_lost_shard_is_rebuilt_from_what_the_others_do_not_account_for() {
    for shop in shops(Mode::Protected).await {
        let Some(server) = &shop.server else { continue };
        let terms = shop.opened(12, 3).await;
        sell_and_write(&shop, 4).await;
        // Two more that no worker has seen, in a shard that stays.
        for who in buyers_of(&terms, 1).skip(100).take(2) {
            assert!(accepted(&shop.buys(&who).await).is_some());
        }
        let key = shop.at(0).at(0).to_string();
        assert_eq!(server.command(&["DEL", &key]).unwrap().as_int(), Some(1));
        let somebody = buyers_of(&terms, 0).nth(50).unwrap();
        assert!(matches!(shop.sales.buy(&sku(), &somebody).await, Err(SaleError::StockUnknown(_))));
        let reconciled = shop.sales.reconcile(&sku()).await.unwrap();
        assert_eq!((reconciled.rebuilt_shards, reconciled.is_clean()), (1, true), "{reconciled:?}");
        assert_eq!((reconciled.stock.remaining, reconciled.stock.sold), (6, 6));
        assert!(accepted(&shop.buys(&somebody).await).is_some());
    }
}

/// Units that were on their way when their receiver was lost stay with the lender, once.
#[tokio::test]
async fn a_transfer_to_a_lost_shard_comes_back_to_its_lender() {
    use lockkeeper_core::Timestamp;
    use lockkeeper_shop::sale::shard::Lend;
    for shop in shops(Mode::Protected).await {
        let Some(server) = &shop.server else { continue };
        shop.opened(8, 2).await;
        let lend = Lend { transfer: "on-its-way".parse().unwrap(), to: 1, not_after: Timestamp::MAX };
        shop.store.apply(&shop.at(0), lend, STORE_WITHIN).await.unwrap();
        server.command(&["DEL", &shop.at(1).at(0).to_string()]).unwrap();
        let reconciled = shop.sales.reconcile(&sku()).await.unwrap();
        assert!(reconciled.is_clean(), "{reconciled:?}");
        let mut left = Vec::new();
        for shard in 0..2 {
            let looked = shop.store.apply(&shop.at(shard), Look, STORE_WITHIN).await.unwrap().reply.unwrap();
            assert!(looked.lent.is_empty());
            left.push(looked.left);
        }
        assert_eq!(left, [4, 4]);
    }
}

#[tokio::test]
async fn a_difference_is_reported_and_not_hidden() {
    for shop in shops(Mode::Protected).await {
        shop.opened(10, 2).await;
        sell_and_write(&shop, 3).await;
        shop.sql("DELETE FROM tickets WHERE buyer = 'buyer-1'").await;
        let reconciled = shop.sales.reconcile(&sku()).await.unwrap();
        assert_eq!((reconciled.missing_units, reconciled.missing_orders), (0, 1));
        if let Some(server) = &shop.server {
            server.command(&["HINCRBY", &shop.at(0).at(0).to_string(), "left", "-2"]).unwrap();
            assert_eq!(shop.sales.reconcile(&sku()).await.unwrap().missing_units, 2);
        }
    }
}

/// Who was overtaken writes nothing.
#[tokio::test]
async fn a_rebuilding_with_an_older_fence_is_refused() {
    for shop in shops(Mode::Protected).await {
        shop.opened(10, 1).await;
        shop.flush();
        shop.sql("UPDATE sales SET fence = 9223372036854775806").await;
        let error = shop.sales.reconcile(&sku()).await.unwrap_err();
        assert!(error.to_string().contains("the lease was lost"), "{error}");
        assert!(matches!(shop.sales.stock(&sku()).await, Err(SaleError::StockUnknown(_))));
    }
}

/// What was sold there and is not written yet is not left: first the workers, then the counting.
#[tokio::test]
async fn a_lost_shard_is_rebuilt_after_its_tickets_are_written() {
    for shop in shops(Mode::Protected).await {
        let Some(server) = &shop.server else { continue };
        shop.opened(5, 1).await;
        for n in 0..3 {
            assert!(accepted(&shop.buys(&buyer(n)).await).is_some());
        }
        server.command(&["DEL", &shop.at(0).at(0).to_string()]).unwrap();
        let error = shop.sales.reconcile(&sku()).await.unwrap_err();
        assert!(matches!(error, SaleError::TicketsUnderWay(_, 3)) && error.is_transient(), "{error}");
        let worker = Working::start(shop.sales.worker("w"));
        until("it is rebuilt", SOON, async || shop.sales.reconcile(&sku()).await.is_ok()).await;
        worker.end().await;
        let reconciled = shop.sales.reconcile(&sku()).await.unwrap();
        assert!(reconciled.is_clean(), "{reconciled:?}");
        assert_eq!((reconciled.stock.remaining, reconciled.stock.written), (2, 3));
        let expires = server.command(&["KEYS", "shop:*"]).unwrap();
        for key in expires.as_array().unwrap() {
            let left = server.command(&["PTTL", key.as_str().unwrap()]).unwrap();
            assert!(left.as_int().unwrap() > 0, "{key:?} has no expiry");
        }
    }
}

/// The units are in what is left of the lender; its notes went with it.
#[tokio::test]
async fn what_a_lost_shard_had_lent_is_not_there_twice() {
    use lockkeeper_core::Timestamp;
    use lockkeeper_shop::sale::shard::Lend;
    for shop in shops(Mode::Protected).await {
        let Some(server) = &shop.server else { continue };
        shop.opened(8, 2).await;
        let lend = Lend { transfer: "on-its-way".parse().unwrap(), to: 1, not_after: Timestamp::MAX };
        shop.store.apply(&shop.at(0), lend, STORE_WITHIN).await.unwrap();
        server.command(&["DEL", &shop.at(0).at(0).to_string()]).unwrap();
        let reconciled = shop.sales.reconcile(&sku()).await.unwrap();
        assert!(reconciled.is_clean(), "{reconciled:?}");
        assert_eq!((reconciled.stock.remaining, reconciled.stock.in_transit), (8, 0));
    }
}

/// The units had arrived, and their transfer was not settled when the receiver's numbers went.
#[tokio::test]
async fn what_a_lost_shard_had_received_is_not_lost_with_it() {
    use lockkeeper_core::Timestamp;
    use lockkeeper_shop::sale::shard::{Lend, Lending, Receive};
    for shop in shops(Mode::Protected).await {
        let Some(server) = &shop.server else { continue };
        shop.opened(8, 2).await;
        let lend = Lend { transfer: "arrived".parse().unwrap(), to: 1, not_after: Timestamp::MAX };
        let lent = shop.store.apply(&shop.at(0), lend, STORE_WITHIN).await.unwrap().reply;
        let Lending::Lent(loan) = lent else { panic!("{lent:?}") };
        let receive = Receive { transfer: "arrived".parse().unwrap(), units: loan.units, epoch: loan.epoch };
        shop.store.apply(&shop.at(1), receive, STORE_WITHIN).await.unwrap();
        server.command(&["DEL", &shop.at(1).at(0).to_string()]).unwrap();
        let reconciled = shop.sales.reconcile(&sku()).await.unwrap();
        assert!(reconciled.is_clean(), "{reconciled:?}");
        assert_eq!((reconciled.stock.remaining, reconciled.stock.in_transit), (8, 0));
    }
}

#[tokio::test]
async fn buyers_whom_the_store_alone_forgot_are_remembered_again() {
    for shop in shops(Mode::Protected).await {
        let Some(server) = &shop.server else { continue };
        shop.opened(9, 1).await;
        sell_and_write(&shop, 3).await;
        server.command(&["DEL", "shop:~buyers::{sku-9:0}"]).unwrap();
        let reconciled = shop.sales.reconcile(&sku()).await.unwrap();
        assert_eq!((reconciled.forgotten_buyers, reconciled.is_clean()), (3, true), "{reconciled:?}");
        for n in 0..3 {
            assert!(matches!(shop.buys(&buyer(n)).await, Bought::AlreadyBought { .. }));
        }
        assert_eq!(shop.sales.reconcile(&sku()).await.unwrap().forgotten_buyers, 0);
    }
}

/// Tickets that are gone with their outbox cannot be brought back. They are reported.
#[tokio::test]
async fn a_lost_outbox_is_reported() {
    for shop in shops(Mode::Protected).await {
        let Some(server) = &shop.server else { continue };
        shop.opened(9, 1).await;
        sell_and_write(&shop, 1).await;
        shop.buys(&buyer(7)).await;
        server.command(&["DEL", "shop:~outbox::{sku-9:0}"]).unwrap();
        let reconciled = shop.sales.reconcile(&sku()).await.unwrap();
        assert_eq!((reconciled.missing_orders, reconciled.is_clean()), (1, false), "{reconciled:?}");
    }
}
