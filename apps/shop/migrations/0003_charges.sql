-- The books of the payment provider that takes no real money. The reference is its idempotency.
CREATE TABLE charges (
    reference TEXT PRIMARY KEY NOT NULL,
    amount_cents BIGINT NOT NULL,
    charge TEXT,
    voided BIGINT NOT NULL DEFAULT 0
);
