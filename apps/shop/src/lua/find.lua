-- find: what is remembered of a buyer. Changes nothing; runs as a read-only script.
-- KEYS: main, buyers
-- ARGV: buyer
-- Reply: {now, 'wrongtype', index, side} | {now, 'unknown'} | {now, 'nothing'} | {now, 'served', ticket} | {now, 'refused', ticket}
-- Invariants: 2, 3.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local book = redis.pcall('HMGET', KEYS[1], 'left')
if book.err then
  if not string.find(book.err, 'WRONGTYPE', 1, true) then return book end
  return {now, 'wrongtype', 0, 0}
end
if not book[1] then return {now, 'unknown'} end
local mark = redis.call('HGET', KEYS[2], ARGV[1])
if not mark then return {now, 'nothing'} end
return {now, string.sub(mark, 1, 1) == '+' and 'served' or 'refused', string.sub(mark, 2)}
