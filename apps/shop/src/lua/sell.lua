-- sell: sets one unit aside for a buyer, remembers them, and puts the ticket into the outbox, in one step.
-- KEYS: main, buyers, outbox
-- ARGV: buyer, ticket, not_after_us
-- Reply: {now, 'late'} | {now, 'wrongtype', index, side} | {now, 'unknown'} | {now, 'served', ticket} | {now, 'refused'} | {now, 'not_open', in_us} | {now, 'closed'} | {now, 'empty'} | {now, 'sold'}
-- Invariants: 2, 3, 4, 7. Repeating it with the same ticket answers the same and sells nothing more.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {now, 'late'} end

local book = redis.pcall('HMGET', KEYS[1], 'left', 'opens', 'closes', 'until')
if book.err then
  if not string.find(book.err, 'WRONGTYPE', 1, true) then return book end
  return {now, 'wrongtype', 0, 0}
end
if not book[1] then return {now, 'unknown'} end
local mark = redis.call('HGET', KEYS[2], ARGV[1])
if mark then
  local kind, ticket = string.sub(mark, 1, 1), string.sub(mark, 2)
  if ticket == ARGV[2] then return {now, kind == '+' and 'sold' or 'refused'} end
  if kind == '+' then return {now, 'served', ticket} end
end
if now < tonumber(book[2]) then return {now, 'not_open', book[2] - now} end
if now >= tonumber(book[3]) then return {now, 'closed'} end
if tonumber(book[1]) <= 0 then return {now, 'empty'} end

-- First what may fail, if somebody put something else there.
redis.call('XADD', KEYS[3], '*', 'ticket', ARGV[2], 'buyer', ARGV[1], 'at', string.format('%.0f', now))
redis.call('HSET', KEYS[2], ARGV[1], '+' .. ARGV[2])
redis.call('HINCRBY', KEYS[1], 'left', -1)
redis.call('HINCRBY', KEYS[1], 'sold', 1)
redis.call('PEXPIREAT', KEYS[2], book[4])
redis.call('PEXPIREAT', KEYS[3], book[4])
return {now, 'sold'}
