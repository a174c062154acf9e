-- The terms of a sale, and its stock as the last line: `sold` never passes `initial`.
CREATE TABLE sales (
    sku TEXT PRIMARY KEY NOT NULL,
    initial BIGINT NOT NULL,
    opens_at BIGINT NOT NULL,
    closes_at BIGINT NOT NULL,
    shards BIGINT NOT NULL,
    sold BIGINT NOT NULL DEFAULT 0,
    fence BIGINT NOT NULL DEFAULT 0,
    CHECK (sold >= 0 AND sold <= initial)
);

-- The orders of flash sales: one per ticket, and one per buyer.
CREATE TABLE tickets (
    ticket TEXT PRIMARY KEY NOT NULL,
    sku TEXT NOT NULL,
    buyer TEXT NOT NULL,
    sold_at BIGINT NOT NULL,
    UNIQUE (sku, buyer)
);

-- Tickets that became no order for good, recorded before their unit goes back. A ticket is here or above, never both.
CREATE TABLE refused_tickets (
    ticket TEXT PRIMARY KEY NOT NULL,
    sku TEXT NOT NULL,
    buyer TEXT NOT NULL,
    reason TEXT NOT NULL,
    sold_at BIGINT NOT NULL
);
CREATE INDEX refused_tickets_by_buyer ON refused_tickets (sku, buyer);

-- What the naive mode writes. On purpose without a unique index.
CREATE TABLE naive_tickets (
    ticket TEXT NOT NULL,
    sku TEXT NOT NULL,
    buyer TEXT NOT NULL,
    sold_at BIGINT NOT NULL
);
CREATE INDEX naive_tickets_by_buyer ON naive_tickets (sku, buyer);
