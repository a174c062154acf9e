-- look: how a shard stands, all at one moment. Changes nothing; runs as a read-only script.
-- KEYS: main, lent, outbox, buyers
-- ARGV: none
-- Reply: {now, 'wrongtype', index, side} | {now, 'unknown'} | {now, 'seen', left, sold, withheld, moves, epoch, queued, marks, {transfer, to:units:epoch, …}}
-- Invariants: 2, 3.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local book = redis.pcall('HMGET', KEYS[1], 'left', 'sold', 'withheld', 'moves', 'epoch')
if book.err then
  if not string.find(book.err, 'WRONGTYPE', 1, true) then return book end
  return {now, 'wrongtype', 0, 0}
end
if not book[1] then return {now, 'unknown'} end
local reply = {now, 'seen'}
for i = 1, 5 do reply[2 + i] = tonumber(book[i]) end
reply[8] = redis.call('XLEN', KEYS[3])
reply[9] = redis.call('HLEN', KEYS[4])
reply[10] = redis.call('HGETALL', KEYS[2])
return reply
