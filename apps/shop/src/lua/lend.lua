-- lend: takes half of what is left, and notes in the same step that it is on its way to another shard.
-- KEYS: main, lent, moved
-- ARGV: transfer, to, not_after_us
-- Reply: {now, 'late'} | {now, 'wrongtype', index, side} | {now, 'unknown'} | {now, 'settled'} | {now, 'nothing'} | {now, 'lent', to:units:epoch}
-- Invariants: 2, 3, 7. Repeating it with the same transfer lends nothing more.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {now, 'late'} end

local book = redis.pcall('HMGET', KEYS[1], 'left', 'epoch', 'until')
if book.err then
  if not string.find(book.err, 'WRONGTYPE', 1, true) then return book end
  return {now, 'wrongtype', 0, 0}
end
if not book[1] then return {now, 'unknown'} end
local lent = redis.call('HGET', KEYS[2], ARGV[1])
if lent then return {now, 'lent', lent} end
if redis.call('SISMEMBER', KEYS[3], ARGV[1]) == 1 then return {now, 'settled'} end
local left = tonumber(book[1])
if left <= 0 then return {now, 'nothing'} end

local units = math.ceil(left / 2)
lent = string.format('%s:%.0f:%s', ARGV[2], units, book[2])
redis.call('HSET', KEYS[2], ARGV[1], lent)
redis.call('PEXPIREAT', KEYS[2], book[3])
redis.call('HINCRBY', KEYS[1], 'left', string.format('%.0f', -units))
redis.call('HINCRBY', KEYS[1], 'moves', 1)
return {now, 'lent', lent}
