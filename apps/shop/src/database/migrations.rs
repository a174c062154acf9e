//! The tables, in the order in which they came. The same SQL runs on both databases.

use std::borrow::Cow;
use std::future::{Future, ready};
use std::pin::Pin;

use sqlx::error::BoxDynError;
use sqlx::migrate::{Migration, MigrationSource, MigrationType};

const FILES: [(i64, &str, &str); 4] = [
    (1, "orders", include_str!("../../migrations/0001_orders.sql")),
    (2, "sales", include_str!("../../migrations/0002_sales.sql")),
    (3, "charges", include_str!("../../migrations/0003_charges.sql")),
    (4, "unsettled_orders", include_str!("../../migrations/0004_unsettled_orders.sql")),
];

/// The files that were compiled in.
#[derive(Debug)]
pub(super) struct Embedded;

impl MigrationSource<'static> for Embedded {
    fn resolve(self) -> Pin<Box<dyn Future<Output = Result<Vec<Migration>, BoxDynError>> + Send + 'static>> {
        Box::pin(ready(Ok(FILES.into_iter().map(migration).collect())))
    }
}

fn migration((version, name, sql): (i64, &'static str, &'static str)) -> Migration {
    Migration::new(version, Cow::Borrowed(name), MigrationType::Simple, Cow::Borrowed(sql), false)
}
