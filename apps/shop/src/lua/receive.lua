-- receive: adds the units of a transfer, once, unless the shard was rebuilt since they were lent.
-- KEYS: main, moved
-- ARGV: transfer, units, epoch
-- Reply: {now, 'wrongtype', index, side} | {now, 'unknown'} | {now, 'stale'} | {now, 'early'} | {now, 'received'}
-- Invariants: 2, 3, 7.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local book = redis.pcall('HMGET', KEYS[1], 'epoch', 'until')
if book.err then
  if not string.find(book.err, 'WRONGTYPE', 1, true) then return book end
  return {now, 'wrongtype', 0, 0}
end
-- Also where the numbers were lost since: the units were here, and are counted as what the others do not have.
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return {now, 'received'} end
if not book[1] then return {now, 'unknown'} end
local epoch = tonumber(book[1])
if tonumber(ARGV[3]) < epoch then return {now, 'stale'} end
if tonumber(ARGV[3]) > epoch then return {now, 'early'} end

redis.call('SADD', KEYS[2], ARGV[1])
redis.call('PEXPIREAT', KEYS[2], book[2])
redis.call('HINCRBY', KEYS[1], 'left', ARGV[2])
redis.call('HINCRBY', KEYS[1], 'moves', 1)
return {now, 'received'}
