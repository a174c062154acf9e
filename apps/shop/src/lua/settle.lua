-- settle: strikes out the note of a transfer, once; its units come back where they never will be received.
-- KEYS: main, lent, moved
-- ARGV: transfer, back
-- Reply: {now, 'wrongtype', index, side} | {now, 'unknown'} | {now, 'nothing'} | {now, 'settled'}
-- Invariants: 2, 3, 7.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local book = redis.pcall('HMGET', KEYS[1], 'until')
if book.err then
  if not string.find(book.err, 'WRONGTYPE', 1, true) then return book end
  return {now, 'wrongtype', 0, 0}
end
if not book[1] then return {now, 'unknown'} end
local lent = redis.call('HGET', KEYS[2], ARGV[1])
if not lent then return {now, 'nothing'} end

redis.call('SADD', KEYS[3], ARGV[1])
redis.call('PEXPIREAT', KEYS[3], book[1])
redis.call('HDEL', KEYS[2], ARGV[1])
if ARGV[2] == '1' then
  redis.call('HINCRBY', KEYS[1], 'left', string.match(lent, '^%d+:(%d+):'))
end
redis.call('HINCRBY', KEYS[1], 'moves', 1)
return {now, 'settled'}
