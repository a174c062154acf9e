-- What the expiry goes through, the oldest first: orders that are placed, and refused ones whose charge is not settled.
CREATE INDEX orders_unsettled ON orders (created_at, order_no) WHERE charge IS NULL;
