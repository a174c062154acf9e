-- waiting: how many tickets are in the outbox, with those that a worker has. Changes nothing; runs as a read-only script.
-- KEYS: outbox
-- ARGV: none
-- Reply: {now, 'waiting', how_many}
-- Invariants: 2, 3.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
return {now, 'waiting', redis.call('XLEN', KEYS[1])}
