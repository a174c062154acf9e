//! Keeping the sales of a process in order, for whoever does that now and then.

use super::error::SaleError;
use super::names::Sku;
use super::sales::{Mode, Sales};

impl Sales {
    /// Waits until somebody finds that the store has lost a part of a sale. Found while nobody waited, it is ready at once.
    ///
    /// # Cancel safety
    /// What was found is found again with the next click.
    pub async fn lost(&self) {
        self.shared.lost.notified().await;
    }

    /// [Reconciles](Self::reconcile) every sale that this process knows and that the store still keeps. Answers which could
    /// not be, and why; none is left out because of another.
    ///
    /// # Cancel safety
    /// As [`reconcile`](Self::reconcile).
    ///
    /// # Redis
    /// As [`reconcile`](Self::reconcile), for each.
    pub async fn reconcile_all(&self) -> Vec<(Sku, SaleError)> {
        let mut failed = Vec::new();
        for sale in self.kept() {
            if let Err(error) = self.reconcile(&sale.terms.sku).await {
                failed.push((sale.terms.sku.clone(), error));
            }
        }
        failed
    }

    /// As [`reconcile_all`](Self::reconcile_all), where the store has lost a shard; others are left alone.
    ///
    /// # Cancel safety
    /// As [`reconcile`](Self::reconcile).
    ///
    /// # Redis
    /// One read-only script per shard; where one is missing, as [`reconcile`](Self::reconcile).
    pub async fn restore_all(&self) -> Vec<(Sku, SaleError)> {
        let mut failed = Vec::new();
        if self.mode() == Mode::Naive {
            return failed;
        }
        for sale in self.kept() {
            if let Err(error) = self.warm(&sale).await {
                failed.push((sale.terms.sku.clone(), error));
            }
        }
        failed
    }
}
