-- One statement set for SQLite and PostgreSQL. Times are microseconds since the Unix epoch.
CREATE TABLE orders (
    order_no TEXT PRIMARY KEY NOT NULL,
    buyer TEXT NOT NULL,
    sku TEXT NOT NULL,
    amount_cents BIGINT NOT NULL,
    status TEXT NOT NULL DEFAULT 'placed' CHECK (status IN ('placed', 'paid', 'refused')),
    charge TEXT,
    fence BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL
);
