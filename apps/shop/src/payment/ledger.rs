//! The fake provider's books. They lie in the database, so that several processes of a shop have one provider.

use crate::database::{Database, DatabaseError};
use crate::orders::{Cents, OrderNo};

const CHARGE: &str = "INSERT INTO charges (reference, amount_cents, charge, voided) VALUES ($1, $2, $3, 0) \
                      ON CONFLICT (reference) DO NOTHING";
const FIND: &str = "SELECT amount_cents, charge, voided FROM charges WHERE reference = $1";
const VOID: &str = "INSERT INTO charges (reference, amount_cents, charge, voided) VALUES ($1, 0, NULL, 1) \
                    ON CONFLICT (reference) DO UPDATE SET voided = 1";
const TAKEN: &str = "SELECT COUNT(*), CAST(COALESCE(SUM(amount_cents), 0) AS BIGINT) FROM charges \
                     WHERE charge IS NOT NULL AND voided = 0";

/// What a provider has written down.
#[derive(Clone, Debug)]
pub struct Ledger {
    database: Database,
}

/// The money that was taken and not given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// In how many charges.
    pub charges: u64,
    /// How much.
    pub cents: u64,
}

/// What is written under a reference.
pub(super) struct Entry {
    pub(super) amount: i64,
    /// None: voided before anything was charged.
    pub(super) charge: Option<String>,
    pub(super) is_void: bool,
}

impl Ledger {
    /// In this database.
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    /// What is taken now.
    ///
    /// # Errors
    /// The database is away.
    ///
    /// # Cancel safety
    /// It changes nothing.
    ///
    /// # Redis
    /// None.
    pub async fn taken(&self) -> Result<Taken, DatabaseError> {
        let taken = sqlx::query_as::<_, (i64, i64)>(TAKEN);
        let (charges, cents) = taken.fetch_one(self.database.reader()).await?;
        Ok(Taken { charges: charges.cast_unsigned(), cents: cents.cast_unsigned() })
    }

    /// Whether money is taken under this reference.
    ///
    /// # Errors
    /// The database is away.
    ///
    /// # Cancel safety
    /// It changes nothing.
    ///
    /// # Redis
    /// None.
    pub async fn has_taken(&self, reference: &OrderNo) -> Result<bool, DatabaseError> {
        let entry = self.find(reference).await?;
        Ok(entry.is_some_and(|entry| entry.charge.is_some() && !entry.is_void))
    }

    /// Writes the charge down unless something is there; answers what is there then.
    pub(super) async fn charge(
        &self,
        reference: &OrderNo,
        amount: Cents,
    ) -> Result<Option<Entry>, DatabaseError> {
        let name = format!("ch_{:016x}", rand::random::<u64>());
        let charge = sqlx::query(CHARGE).bind(reference.as_str()).bind(amount.as_i64()).bind(name);
        charge.execute(self.database.writer()).await?;
        self.find(reference).await
    }

    pub(super) async fn void(&self, reference: &OrderNo) -> Result<(), DatabaseError> {
        sqlx::query(VOID).bind(reference.as_str()).execute(self.database.writer()).await?;
        Ok(())
    }

    async fn find(&self, reference: &OrderNo) -> Result<Option<Entry>, DatabaseError> {
        let find = sqlx::query_as::<_, (i64, Option<String>, i64)>(FIND).bind(reference.as_str());
        let row = find.fetch_optional(self.database.reader()).await?;
        Ok(row.map(|(amount, charge, voided)| Entry { amount, charge, is_void: voided != 0 }))
    }
}
