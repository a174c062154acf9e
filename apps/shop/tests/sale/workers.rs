//! From tickets to orders: written once, refused once, and lost never.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::ManualClock;
use lockkeeper_shop::sale::shard::{GiveBack, Take};
use lockkeeper_shop::sale::{Bought, Mode, Outcome, STORE_WITHIN, SaleStore, Tally, Terms, Ticket};
use lockkeeper_testkit::wait::until;

use crate::support::{SOON, Shop, Working, accepted, buyer, shops, sku, stepped};

async fn orders(shop: &Shop) -> i64 {
    sqlx::query_scalar("SELECT COUNT(*) FROM tickets").fetch_one(shop.database.reader()).await.unwrap()
}

/// Takes all messages of shard 0, as a worker that dies then.
async fn taken_and_died(shop: &Shop, idle: Duration) -> usize {
    let take = Take { worker: "dead".to_owned(), most: 100, idle };
    shop.store.apply(&shop.at(0), take, STORE_WITHIN).await.unwrap().reply.messages.len()
}

/// The database's own stock is the last line: here the store believes in six units more.
#[tokio::test]
async fn c52_sixteen_messages_for_ten_units_of_the_database_end_as_ten_orders_and_six_refusals() {
    for shop in shops(Mode::Protected).await {
        shop.opened(16, 1).await;
        shop.sql("UPDATE sales SET initial = 10").await;
        for n in 0..16 {
            assert!(accepted(&shop.buys(&buyer(n)).await).is_some());
        }
        let worker = Working::start(shop.sales.worker("w"));
        shop.drained().await;
        let seen = worker.seen.clone();
        worker.end().await;
        assert_eq!((seen.tally().written, seen.tally().refused), (10, 6));
        let sold: i64 =
            sqlx::query_scalar("SELECT sold FROM sales").fetch_one(shop.database.reader()).await.unwrap();
        assert_eq!((orders(&shop).await, sold), (10, 10));
        // Units that the database has not got are not sold a second time.
        let stock = shop.sales.stock(&sku()).await.unwrap();
        assert_eq!((stock.remaining, stock.refused, stock.withheld), (0, 6, 6));
        let Outcome::Refused { reason } = shop.outcome(&buyer(15)).await else { panic!("16 of 10") };
        assert_eq!(reason, "the database has no unit left for it");
    }
}

#[tokio::test]
async fn c56_after_a_restart_who_has_an_order_is_told_so_and_duplicate_messages_end() {
    for shop in shops(Mode::Protected).await {
        shop.opened(10, 1).await;
        let mut tickets = Vec::new();
        for n in 0..5 {
            tickets.push(accepted(&shop.buys(&buyer(n)).await).unwrap());
        }
        // A worker wrote them all and died before it said so: the messages are delivered again.
        for (n, ticket) in tickets.iter().enumerate() {
            sqlx::query("INSERT INTO tickets (ticket, sku, buyer, sold_at) VALUES ($1, $2, $3, 0)")
                .bind(ticket.as_str())
                .bind(sku().as_str())
                .bind(buyer(n).as_str())
                .execute(shop.database.writer())
                .await
                .unwrap();
        }
        shop.sql("UPDATE sales SET sold = 5").await;
        let node = shop.another();
        for (n, ticket) in tickets.iter().enumerate() {
            let again = node.buy(&sku(), &buyer(n)).await.unwrap();
            assert_eq!(again, Bought::AlreadyBought { ticket: ticket.clone() });
        }
        let worker = Working::start(node.worker("w"));
        shop.drained().await;
        let expected = Tally { duplicates: 5, ..Tally::default() };
        until("they are counted", SOON, async || worker.seen.tally() == expected).await;
        worker.end().await;
        assert_eq!(orders(&shop).await, 5);
        assert!(shop.sales.reconcile(&sku()).await.unwrap().is_clean());
    }
}

/// Delivered three times: by workers that died after recording it, after giving back, and by one that lives.
#[tokio::test]
async fn c58_a_ticket_whose_order_fails_for_good_gives_its_unit_back_exactly_once() {
    for shop in shops(Mode::Protected).await {
        shop.opened(3, 1).await;
        shop.sql(
            "CREATE TRIGGER refuse BEFORE INSERT ON tickets WHEN NEW.buyer = 'unlucky' BEGIN SELECT RAISE(ABORT, 'address unknown'); END",
        )
        .await;
        let unlucky = "unlucky".parse().unwrap();
        let ticket = accepted(&shop.buys(&unlucky).await).unwrap();
        assert!(accepted(&shop.buys(&buyer(1)).await).is_some());
        sqlx::query("INSERT INTO refused_tickets (ticket, sku, buyer, reason, sold_at) VALUES ($1, 'sku-9', 'unlucky', 'address unknown', 0)")
            .bind(ticket.as_str())
            .execute(shop.database.writer())
            .await
            .unwrap();
        let give_back = GiveBack { buyer: unlucky.clone(), ticket, withhold: false, order: None };
        shop.store.apply(&shop.at(0), give_back, STORE_WITHIN).await.unwrap();
        assert_eq!(taken_and_died(&shop, Duration::ZERO).await, 2);
        let worker = Working::start(shop.sales.worker("w").claim_after(Duration::ZERO));
        shop.drained().await;
        until("it is counted", SOON, async || worker.seen.tally().refused == 1).await;
        let tally = worker.seen.tally();
        assert_eq!((tally.written, tally.returned, tally.taken_over), (1, 0, 2));
        let stock = shop.sales.stock(&sku()).await.unwrap();
        assert_eq!((stock.remaining, stock.sold, stock.written, stock.refused), (2, 1, 1, 1));
        // Only this buyer sees it, and may try again.
        assert!(matches!(shop.outcome(&unlucky).await, Outcome::Refused { .. }));
        assert!(matches!(shop.outcome(&buyer(1)).await, Outcome::Ordered(_)));
        shop.sql("DROP TRIGGER refuse").await;
        let again = accepted(&shop.buys(&unlucky).await).unwrap();
        shop.drained().await;
        worker.end().await;
        assert_eq!(shop.outcome(&unlucky).await, Outcome::Ordered(again));
        assert!(shop.sales.reconcile(&sku()).await.unwrap().is_clean());
    }
}

/// C58 without anybody dying: one failure, one unit back, and the other buyers of the same batch are not disturbed.
#[tokio::test]
async fn one_order_that_fails_for_good_disturbs_no_other_of_its_batch() {
    for shop in shops(Mode::Protected).await {
        shop.opened(20, 1).await;
        shop.sql(
            "CREATE TRIGGER refuse BEFORE INSERT ON tickets WHEN NEW.buyer = 'unlucky' BEGIN SELECT RAISE(ABORT, 'address unknown'); END",
        )
        .await;
        for n in 0..9 {
            assert!(accepted(&shop.buys(&buyer(n)).await).is_some());
        }
        shop.buys(&"unlucky".parse().unwrap()).await;
        let worker = Working::start(shop.sales.worker("w"));
        shop.drained().await;
        until("all are counted", SOON, async || worker.seen.tally().written == 9).await;
        let tally = worker.seen.tally();
        worker.end().await;
        assert_eq!(tally, Tally { written: 9, refused: 1, returned: 1, ..Tally::default() });
        let stock = shop.sales.stock(&sku()).await.unwrap();
        assert_eq!((stock.remaining, stock.sold, stock.written), (11, 9, 9));
    }
}

#[tokio::test]
async fn a_database_that_fails_for_a_while_delays_orders_and_loses_none() {
    for shop in shops(Mode::Protected).await {
        shop.opened(5, 1).await;
        shop.sql("ALTER TABLE tickets RENAME TO away").await;
        for n in 0..5 {
            assert!(accepted(&shop.buys(&buyer(n)).await).is_some());
        }
        let worker = Working::start(shop.sales.worker("w").claim_after(Duration::from_millis(50)));
        until("it was tried", SOON, async || worker.seen.tally().retried >= 2).await;
        shop.sql("ALTER TABLE away RENAME TO tickets").await;
        until("all are written", SOON, async || worker.seen.tally().written == 5).await;
        worker.end().await;
        let stock = shop.sales.stock(&sku()).await.unwrap();
        assert_eq!((stock.written, stock.refused, stock.queued), (5, 0, 0));
    }
}

/// Not before its time, by the clock of the store.
#[tokio::test]
async fn what_a_dead_worker_had_is_taken_over_after_a_while() {
    let clock = Arc::new(ManualClock::default());
    let shop = stepped(SaleStore::memory(clock.clone())).await;
    shop.opened(5, 1).await;
    shop.buys(&buyer(1)).await;
    assert_eq!(taken_and_died(&shop, Duration::from_secs(5)).await, 1);
    let worker = Working::start(shop.sales.worker("w"));
    assert!(accepted(&shop.buys(&buyer(2)).await).is_some());
    until("the other one is written", SOON, async || worker.seen.tally().written == 1).await;
    assert_eq!((worker.seen.tally().taken_over, orders(&shop).await), (0, 1));
    clock.advance(Duration::from_secs(5));
    until("it is taken over", SOON, async || worker.seen.tally().written == 2).await;
    assert_eq!(worker.seen.tally().taken_over, 1);
    worker.end().await;
    assert_eq!(orders(&shop).await, 2);
}

/// The unique index, without the store: a buyer of whom the store forgot that they were served.
#[tokio::test]
async fn a_second_order_of_a_buyer_is_refused_by_the_database_and_its_unit_comes_back() {
    for shop in shops(Mode::Protected).await {
        shop.opened(5, 1).await;
        shop.sql("INSERT INTO tickets (ticket, sku, buyer, sold_at) VALUES ('first', 'sku-9', 'buyer-1', 0)")
            .await;
        let twice = sqlx::query(
            "INSERT INTO tickets (ticket, sku, buyer, sold_at) VALUES ('x', 'sku-9', 'buyer-1', 0)",
        );
        let error = twice.execute(shop.database.writer()).await.unwrap_err();
        assert!(lockkeeper_shop::database::DatabaseError::from(error).is_duplicate());
        assert!(accepted(&shop.buys(&buyer(1)).await).is_some());
        let worker = Working::start(shop.sales.worker("w"));
        shop.drained().await;
        until("it is counted", SOON, async || worker.seen.tally().refused == 1).await;
        worker.end().await;
        assert_eq!(shop.sales.stock(&sku()).await.unwrap().remaining, 5);
        assert_eq!(orders(&shop).await, 1);
        // From now on the store knows; nobody is sent round in circles.
        let first = "first".parse::<Ticket>().unwrap();
        assert_eq!(shop.outcome(&buyer(1)).await, Outcome::Ordered(first.clone()));
        assert_eq!(shop.buys(&buyer(1)).await, Bought::AlreadyBought { ticket: first });
    }
}

/// Somebody put something else where the numbers of one sale were.
#[tokio::test]
async fn a_sale_that_is_broken_does_not_stop_the_orders_of_another() {
    for shop in shops(Mode::Protected).await {
        let Some(server) = &shop.server else { continue };
        let terms = shop.opened(5, 2).await;
        let other = Terms { sku: "zebra".parse().unwrap(), ..terms.clone() };
        let before = Terms { sku: "apple".parse().unwrap(), ..terms.clone() };
        for terms in [&other, &before] {
            shop.sales.open(terms.clone()).await.unwrap();
            shop.sales.buy(&terms.sku, &buyer(1)).await.unwrap();
        }
        let healthy = crate::support::buyers_of(&terms, 1).next().unwrap();
        shop.buys(&healthy).await;
        let key = shop.at(0).at(0).to_string();
        server.command(&["SET", &key, "something else"]).unwrap();
        let worker = Working::start(shop.sales.worker("w"));
        until("the others are written", SOON, async || orders(&shop).await == 3).await;
        assert!(worker.seen.tally().retried > 0);
        worker.end().await;
    }
}

/// Many workers on one outbox write each order once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_take_each_others_messages_write_each_order_once() {
    for shop in shops(Mode::Protected).await {
        shop.opened(300, 4).await;
        let workers: Vec<Working> = (0..3)
            .map(|n| {
                Working::start(shop.another().worker(&format!("w{n}")).claim_after(Duration::from_millis(1)))
            })
            .collect();
        for n in 0..300 {
            assert!(accepted(&shop.buys(&buyer(n)).await).is_some());
        }
        shop.drained().await;
        let mut written = 0;
        for worker in workers {
            let seen = worker.seen.clone();
            worker.end().await;
            written += seen.tally().written;
        }
        assert_eq!((written, orders(&shop).await), (300, 300));
        let reconciled = shop.sales.reconcile(&sku()).await.unwrap();
        assert!(reconciled.is_clean(), "{reconciled:?}");
    }
}
