//! Who gets a unit, who does not, and what each is told.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lockkeeper_core::{ErrorKind, ManualClock};
use lockkeeper_shop::sale::{Bought, Mode, Outcome, SOLD_OUT_FOR, SaleError, SaleStore, Terms};

use crate::support::{HOUR, SOON, Shop, Working, accepted, buyer, shops, sku, stepped};

/// One unit per buyer, however often and however fast they click.
#[tokio::test]
async fn c50_a_buyer_who_clicks_a_hundred_times_at_once_gets_one_and_nine_others_get_the_rest() {
    for shop in shops(Mode::Protected).await {
        shop.opened(10, 1).await;
        let first = buyer(0);
        let clicks = join_all((0..100).map(|_| shop.buys(&first))).await;
        let tickets: HashSet<_> = clicks.iter().filter_map(accepted).collect();
        assert_eq!(tickets.len(), 1);
        let ticket = tickets.into_iter().next().unwrap();
        let told = clicks.iter().filter(|click| **click == Bought::AlreadyBought { ticket: ticket.clone() });
        assert_eq!(told.count(), 99);
        for other in 1..10 {
            assert!(accepted(&shop.buys(&buyer(other)).await).is_some());
        }
        assert_eq!(shop.buys(&buyer(10)).await, Bought::SoldOut);
        assert_eq!(shop.buys(&first).await, Bought::AlreadyBought { ticket });
        let stock = shop.sales.stock(&sku()).await.unwrap();
        assert_eq!((stock.remaining, stock.sold, stock.queued), (0, 10, 10));
    }
}

#[tokio::test]
async fn a_crowd_buys_exactly_what_there_is_and_everybody_gets_an_answer() {
    for shop in shops(Mode::Protected).await {
        shop.opened(100, 1).await;
        let answers = join_all((0..1000).map(|n| {
            let sales = shop.sales.clone();
            async move { sales.buy(&sku(), &buyer(n)).await.unwrap() }
        }))
        .await;
        let tickets: HashSet<_> = answers.iter().filter_map(accepted).collect();
        assert_eq!(tickets.len(), 100);
        assert_eq!(answers.iter().filter(|answer| **answer == Bought::SoldOut).count(), 900);
    }
}

#[tokio::test]
async fn a_sale_opens_and_closes_by_the_clock_of_the_store() {
    let clock = Arc::new(ManualClock::default());
    let shop = stepped(SaleStore::memory(clock.clone())).await;
    let opens_at = shop.store.now().after(Duration::from_secs(60));
    let terms = Terms { sku: sku(), initial: 9, opens_at, closes_at: opens_at.after(HOUR), shards: 2 };
    assert_eq!(shop.buys(&buyer(1)).await, Bought::Unknown);
    shop.sales.open(terms).await.unwrap();
    clock.advance(Duration::from_secs(20));
    assert_eq!(shop.buys(&buyer(1)).await, Bought::NotOpen { opens_in: Duration::from_secs(40) });
    clock.advance(Duration::from_secs(40));
    let ticket = accepted(&shop.buys(&buyer(1)).await).unwrap();
    clock.advance(HOUR);
    assert_eq!(shop.buys(&buyer(2)).await, Bought::Closed);
    assert_eq!(shop.buys(&buyer(1)).await, Bought::AlreadyBought { ticket });
    // When the store has forgotten it, it is still over, and not unknown.
    clock.advance(Duration::from_secs(4 * 86_400));
    assert_eq!(shop.buys(&buyer(2)).await, Bought::Closed);
    assert_eq!(shop.outcome(&buyer(2)).await, Outcome::None);
    let stock = shop.sales.reconcile(&sku()).await.unwrap().stock;
    assert_eq!((stock.initial, stock.remaining, stock.sold), (9, 9, 0));
    assert_eq!(shop.sales.stock(&sku()).await.unwrap(), stock);
}

#[tokio::test]
async fn terms_are_checked_and_never_change_and_opening_again_changes_nothing() {
    for shop in shops(Mode::Protected).await {
        let terms = shop.opened(2, 2).await;
        shop.buys(&buyer(1)).await;
        shop.another().open(terms.clone()).await.unwrap();
        let stock = shop.sales.stock(&sku()).await.unwrap();
        assert_eq!((stock.remaining, stock.sold), (1, 1));
        let more = Terms { initial: 3, ..terms.clone() };
        assert!(matches!(shop.sales.open(more).await, Err(SaleError::OtherTerms(_))));
        let none = Terms { initial: 0, ..terms };
        let Err(SaleError::Store(error)) = shop.sales.open(none).await else { panic!("no unit") };
        assert_eq!(error.kind(), ErrorKind::BadArgument);
    }
}

/// Two processes; the second has just told somebody "sold out", and believes it for a moment.
#[tokio::test]
async fn c59_a_unit_that_comes_back_is_sold_by_every_process_within_the_time_that_it_believes_sold_out() {
    for shop in shops(Mode::Protected).await {
        let terms = shop.opened(2, 2).await;
        let (node, other) = (&shop.sales, shop.another());
        shop.sql(
            "CREATE TRIGGER refuse BEFORE INSERT ON tickets WHEN NEW.buyer = 'unlucky' BEGIN SELECT RAISE(ABORT, 'address unknown'); END",
        )
        .await;
        let unlucky = "unlucky".parse().unwrap();
        assert!(accepted(&shop.buys(&unlucky).await).is_some());
        assert!(accepted(&shop.buys(&buyer(1)).await).is_some());
        // Somebody who lives elsewhere than the unlucky one, so that the unit has to come to them.
        let home = terms.home(&unlucky);
        let far = crate::support::buyers_of(&terms, 1 - home).nth(3).unwrap();
        assert_eq!(node.buy(&sku(), &far).await.unwrap(), Bought::SoldOut);
        assert_eq!(other.buy(&sku(), &far).await.unwrap(), Bought::SoldOut);
        let worker = Working::start(shop.sales.worker("w"));
        shop.drained().await;
        let returned = tokio::time::Instant::now();
        let sold = lockkeeper_testkit::wait::until("the unit is sold again", SOON, async || {
            accepted(&other.buy(&sku(), &far).await.unwrap()).is_some()
        });
        sold.await;
        // Real time: the flag, and the time that the calls take on a busy machine.
        assert!(returned.elapsed() < SOLD_OUT_FOR + Duration::from_secs(2));
        assert_eq!(shop.outcome(&unlucky).await, Outcome::Refused { reason: "address unknown".to_owned() });
        worker.end().await;
    }
}

#[tokio::test]
async fn an_order_is_pending_until_it_is_in_the_database() {
    for shop in shops(Mode::Protected).await {
        shop.opened(2, 1).await;
        assert_eq!(shop.outcome(&buyer(1)).await, Outcome::None);
        let ticket = accepted(&shop.buys(&buyer(1)).await).unwrap();
        assert_eq!(shop.outcome(&buyer(1)).await, Outcome::Pending(ticket.clone()));
        let worker = Working::start(shop.sales.worker("w"));
        shop.drained().await;
        worker.end().await;
        assert_eq!(shop.outcome(&buyer(1)).await, Outcome::Ordered(ticket));
        assert_eq!(shop.outcome(&buyer(2)).await, Outcome::None);
    }
}

#[tokio::test]
async fn what_nobody_sells_is_unknown() {
    for shop in shops(Mode::Protected).await {
        let shop: Shop = shop;
        assert_eq!(shop.buys(&buyer(1)).await, Bought::Unknown);
        assert!(matches!(shop.sales.stock(&sku()).await, Err(SaleError::NoSale(_))));
        assert_eq!(shop.outcome(&buyer(1)).await, Outcome::None);
    }
}
