//! The sale that looks first and acts then sells too much; that is what it is for.

use futures_util::future::join_all;
use lockkeeper_shop::sale::{Bought, Mode};

use crate::support::{accepted, buyer, shops, sku};

#[tokio::test]
async fn looking_and_then_acting_oversells_under_a_crowd() {
    for shop in shops(Mode::Naive).await {
        shop.opened(10, 1).await;
        let answers = join_all((0..200).map(|n| {
            let sales = shop.sales.clone();
            async move { sales.buy(&sku(), &buyer(n)).await.unwrap() }
        }))
        .await;
        let sold = answers.iter().filter(|answer| accepted(answer).is_some()).count();
        assert!(sold > 10, "{sold}");
        let stock = shop.sales.stock(&sku()).await.unwrap();
        assert!(stock.remaining < 0 && stock.written > 10, "{stock:?}");
    }
}

#[tokio::test]
async fn looking_and_then_acting_sells_one_buyer_several() {
    for shop in shops(Mode::Naive).await {
        shop.opened(100, 1).await;
        let answers = join_all((0..20).map(|_| {
            let sales = shop.sales.clone();
            async move { sales.buy(&sku(), &buyer(1)).await.unwrap() }
        }))
        .await;
        assert!(answers.iter().filter(|answer| accepted(answer).is_some()).count() > 1);
    }
}

/// One after the other it is right, which is why it passes in development.
#[tokio::test]
async fn one_after_the_other_it_sells_exactly_what_there_is() {
    for shop in shops(Mode::Naive).await {
        shop.opened(3, 1).await;
        for n in 0..3 {
            assert!(accepted(&shop.buys(&buyer(n)).await).is_some());
        }
        assert!(matches!(shop.buys(&buyer(1)).await, Bought::AlreadyBought { .. } | Bought::SoldOut));
        assert_eq!(shop.buys(&buyer(4)).await, Bought::SoldOut);
        if let Some(server) = &shop.server {
            for key in server.command(&["KEYS", "*"]).unwrap().as_array().unwrap() {
                let left = server.command(&["PTTL", key.as_str().unwrap()]).unwrap();
                assert!(left.as_int().unwrap() > 0, "{key:?}");
            }
        }
    }
}
