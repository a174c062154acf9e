-- give_back: returns the unit of a ticket that became no order, once, and remembers the refusal, or the order that the buyer has.
-- KEYS: main, buyers
-- ARGV: buyer, ticket, withhold, order
-- Reply: {now, 'wrongtype', index, side} | {now, 'unknown'} | {now, 'nothing'} | {now, 'returned'}
-- Invariants: 2, 3. Only while the buyer is marked as served by this very ticket.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local book = redis.pcall('HMGET', KEYS[1], 'left', 'sold')
if book.err then
  if not string.find(book.err, 'WRONGTYPE', 1, true) then return book end
  return {now, 'wrongtype', 0, 0}
end
if redis.call('HGET', KEYS[2], ARGV[1]) ~= '+' .. ARGV[2] then
  return {now, book[1] and 'nothing' or 'unknown'}
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4] == '' and '-' .. ARGV[2] or '+' .. ARGV[4])
-- The numbers were lost: what is no order is left when they are rebuilt.
if not book[1] then return {now, 'unknown'} end
if ARGV[3] == '1' then
  redis.call('HINCRBY', KEYS[1], 'withheld', 1)
else
  redis.call('HINCRBY', KEYS[1], 'left', 1)
  if tonumber(book[2]) > 0 then redis.call('HINCRBY', KEYS[1], 'sold', -1) end
  redis.call('HINCRBY', KEYS[1], 'moves', 1)
end
return {now, 'returned'}
