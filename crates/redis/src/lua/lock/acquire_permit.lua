-- acquire_permit: takes one of so many permits for a token, with the end of its lease in the same step.
-- KEYS: permit
-- ARGV: token, lease_us, not_after_us, limit, most_ahead_us
-- Reply: {now, 'late'} | {now, 'wrongtype', index, side} | {now, 'full', held, first_end_us} | {now, 'granted', held}
-- Invariants: 2, 3, 4, 7. Repeating it with the same token restarts the lease and takes no second permit.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {now, 'late'} end

-- What has ended goes, and what nobody can have asked for.
local gone = redis.pcall('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
if type(gone) == 'table' then
  if not string.find(gone.err, 'WRONGTYPE', 1, true) then return gone end
  return {now, 'wrongtype', 0, 0}
end
gone = gone + redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now + ARGV[5]), '+inf')

local held = redis.call('ZCARD', KEYS[1])
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
local is_full = not ends and held >= tonumber(ARGV[4])
if not is_full then
  local wanted = now + ARGV[2]
  if not ends or tonumber(ends) < wanted then
    held = held + redis.call('ZADD', KEYS[1], string.format('%.0f', wanted), ARGV[1])
  end
end

-- The key goes with its last lease; one without an expiry is repaired.
if not is_full or gone > 0 or redis.call('PTTL', KEYS[1]) < 0 then
  local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.ceil(last[2] / 1000)))
end
if is_full then
  local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  return {now, 'full', held, first[2] - now}
end
return {now, 'granted', held}
