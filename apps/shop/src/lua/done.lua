-- done: removes messages from the outbox that have been dealt with.
-- KEYS: outbox
-- ARGV: id, and so on
-- Reply: {now, 'removed', how_many}
-- Invariants: 2, 3.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('XACK', KEYS[1], 'workers', unpack(ARGV))
return {now, 'removed', redis.call('XDEL', KEYS[1], unpack(ARGV))}
