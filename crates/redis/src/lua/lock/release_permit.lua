-- release_permit: gives back the permit that the token holds.
-- KEYS: permit
-- ARGV: token, most_ahead_us
-- Reply: {now, 'wrongtype', index, side} | {now, 'expired'} | {now, 'released'}
-- Invariants: 2, 3, 7.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local gone = redis.pcall('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
if type(gone) == 'table' then
  if not string.find(gone.err, 'WRONGTYPE', 1, true) then return gone end
  return {now, 'wrongtype', 0, 0}
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now + ARGV[2]), '+inf')

local removed = redis.call('ZREM', KEYS[1], ARGV[1])
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if last[2] then
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.ceil(last[2] / 1000)))
end
return {now, removed == 1 and 'released' or 'expired'}
