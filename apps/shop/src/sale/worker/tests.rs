use lockkeeper::{Keeper, SystemClock};
use lockkeeper_core::Clock;

use super::*;
use crate::database::Database;
use crate::sale::{Bought, Outcome, Terms};

const HOUR: Duration = Duration::from_secs(3600);

/// Two units in one shard; the first is sold, and its ticket in the hands of a worker.
async fn in_hand() -> (Sales, Worker, Batch) {
    let (keeper, database) =
        (Keeper::connect("memory://").await.unwrap(), Database::open("sqlite::memory:").await.unwrap());
    let sales = Sales::new(keeper, database, Mode::Protected);
    let opens_at = SystemClock.wall();
    let closes_at = opens_at.after(HOUR);
    let terms = Terms { sku: "sku".parse().unwrap(), initial: 2, opens_at, closes_at, shards: 1 };
    sales.open(terms).await.unwrap();
    let bought = sales.buy(&"sku".parse().unwrap(), &"ann".parse().unwrap()).await.unwrap();
    assert!(matches!(bought, Bought::Accepted { .. }));
    let mut worker = sales.worker("w").claim_after(Duration::ZERO);
    worker.look_for_sales().await.unwrap();
    let batch = worker.take(&worker.open[0].clone(), 0).await.unwrap().unwrap();
    (sales, worker, batch)
}

/// Its unit was counted as left and is sold to somebody else: nobody gets it a second time.
#[tokio::test]
async fn a_ticket_that_was_in_a_workers_hands_while_the_sale_was_lost_and_rebuilt_becomes_no_order() {
    let (sales, worker, batch) = in_hand().await;
    sales.shared.store.forget();
    let reconciled = sales.reconcile(&batch.sale.terms.sku).await.unwrap();
    assert_eq!((reconciled.rebuilt_shards, reconciled.stock.remaining), (1, 2));
    assert_eq!(worker.deal_with(&batch).await.unwrap(), 0);
    assert_eq!((worker.seen.tally().written, worker.seen.tally().too_late), (0, 1));
    let reconciled = sales.reconcile(&batch.sale.terms.sku).await.unwrap();
    assert!(reconciled.is_clean(), "{reconciled:?}");
    assert_eq!((reconciled.stock.remaining, reconciled.stock.written), (2, 0));
    let outcome = sales.outcome(&batch.sale.terms.sku, &"ann".parse().unwrap()).await.unwrap();
    assert_eq!(outcome, Outcome::None);
}

#[tokio::test]
async fn a_ticket_that_is_written_before_the_sale_is_rebuilt_is_counted() {
    let (sales, worker, batch) = in_hand().await;
    sales.shared.store.forget();
    assert_eq!(worker.deal_with(&batch).await.unwrap(), 1);
    let reconciled = sales.reconcile(&batch.sale.terms.sku).await.unwrap();
    assert!(reconciled.is_clean(), "{reconciled:?}");
    assert_eq!((reconciled.stock.remaining, reconciled.stock.sold, reconciled.stock.written), (1, 1, 1));
}

/// Another shard was rebuilt meanwhile: what this one still has is taken again, and written.
#[tokio::test]
async fn what_a_worker_could_not_write_because_of_a_rebuilding_is_taken_again() {
    let (sales, worker, batch) = in_hand().await;
    books::raise_fence(&sales.shared.database, &batch.sale.terms.sku, u64::from(u32::MAX) << 30)
        .await
        .unwrap();
    assert_eq!(worker.deal_with(&batch).await.unwrap(), 0);
    assert_eq!(worker.serve(&batch.sale, 0).await.unwrap(), 1);
    assert_eq!(worker.seen.tally().written, 1);
}

/// A sale whose keys are gone costs nothing any more, and no sale is left out because there are many.
#[tokio::test]
async fn a_worker_looks_at_every_sale_that_is_kept_and_at_no_other() {
    let (sales, mut worker, batch) = in_hand().await;
    let many = "INSERT INTO sales (sku, initial, opens_at, closes_at, shards) WITH RECURSIVE n(i) AS \
                (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200) SELECT 'other-' || i, 1, $1, $2, 1 FROM n";
    let (opens_at, over) = (batch.sale.terms.opens_at, batch.sale.terms.opens_at.before(KEPT_AFTER_CLOSING));
    for (statement, closes_at) in
        [(many.to_owned(), batch.sale.terms.closes_at), (many.replace("other", "over"), over)]
    {
        sqlx::query(&statement)
            .bind(books::number(opens_at.before(HOUR * 100).as_micros()))
            .bind(books::number(closes_at.as_micros()))
            .execute(sales.shared.database.writer())
            .await
            .unwrap();
    }
    worker.looked_for_sales = None;
    worker.look_for_sales().await.unwrap();
    assert_eq!(worker.open.len(), 1201);
}
