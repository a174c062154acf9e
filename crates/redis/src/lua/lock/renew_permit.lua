-- renew_permit: lengthens the lease of the permit that the token still holds.
-- KEYS: permit
-- ARGV: token, lease_us, not_after_us, most_ahead_us
-- Reply: {now, 'late'} | {now, 'wrongtype', index, side} | {now, 'expired'} | {now, 'renewed'}
-- Invariants: 2, 3, 4, 7, 10. It never takes a permit and never shortens a lease.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {now, 'late'} end

local gone = redis.pcall('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
if type(gone) == 'table' then
  if not string.find(gone.err, 'WRONGTYPE', 1, true) then return gone end
  return {now, 'wrongtype', 0, 0}
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now + ARGV[4]), '+inf')

local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
local wanted = now + ARGV[2]
if ends and tonumber(ends) < wanted then
  redis.call('ZADD', KEYS[1], string.format('%.0f', wanted), ARGV[1])
end
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if last[2] then
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.ceil(last[2] / 1000)))
end
return {now, ends and 'renewed' or 'expired'}
