-- open: makes a shard of a sale with so many units where there is none, with its expiry in the same step.
-- KEYS: main, outbox, lent
-- ARGV: opens_us, closes_us, until_ms, epoch, left, sold, not_after_us
-- Reply: {now, 'late'} | {now, 'wrongtype', index, side} | {now, 'kept'} | {now, 'over'} | {now, 'created'}
-- Invariants: 2, 3, 4, 7. What is there keeps its numbers; only its epoch is raised. What one that was lost had lent is counted in `left`.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[7]) then return {now, 'late'} end

local epoch = redis.pcall('HGET', KEYS[1], 'epoch')
if type(epoch) == 'table' then
  if not string.find(epoch.err, 'WRONGTYPE', 1, true) then return epoch end
  return {now, 'wrongtype', 0, 0}
end
if epoch then
  if tonumber(epoch) < tonumber(ARGV[4]) then redis.call('HSET', KEYS[1], 'epoch', ARGV[4]) end
  return {now, 'kept'}
end
if now >= ARGV[3] * 1000 then return {now, 'over'} end

local group = redis.pcall('XGROUP', 'CREATE', KEYS[2], 'workers', '0', 'MKSTREAM')
if group.err and not string.find(group.err, 'BUSYGROUP', 1, true) then return group end
redis.call('PEXPIREAT', KEYS[2], ARGV[3])
redis.call('DEL', KEYS[3])
redis.call('HSET', KEYS[1], 'epoch', ARGV[4], 'opens', ARGV[1], 'closes', ARGV[2], 'until', ARGV[3],
  'left', ARGV[5], 'sold', ARGV[6], 'withheld', 0, 'moves', 0)
redis.call('PEXPIREAT', KEYS[1], ARGV[3])
return {now, 'created'}
