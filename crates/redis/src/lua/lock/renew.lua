-- renew: lengthens the lease of every key that the token still holds; changes none if one is lost.
-- KEYS: main, fence, and so on in pairs
-- ARGV: token, lease_ms, not_after_us, fence_retention_ms
-- Reply: {now, 'late'} | {now, 'wrongtype', index, side} | {now, 'other', index, holder, length} | {now, 'expired', index} | {now, 'renewed'}
-- Invariants: 2, 3, 4, 10. It never creates a key and never shortens a lease.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {now, 'late'} end

local holders = {}
for i = 1, #KEYS, 2 do
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' then
    if not string.find(holder.err, 'WRONGTYPE', 1, true) then return holder end
    return {now, 'wrongtype', (i - 1) / 2, 0}
  end
  holders[i] = holder
end
for i = 1, #KEYS, 2 do
  local holder = holders[i]
  if holder and holder ~= ARGV[1] then
    return {now, 'other', (i - 1) / 2, string.sub(holder, 1, 256), #holder}
  end
end
for i = 1, #KEYS, 2 do
  if not holders[i] then return {now, 'expired', (i - 1) / 2} end
end

local lease, retention = tonumber(ARGV[2]), tonumber(ARGV[4])
for i = 1, #KEYS, 2 do
  -- Written in any case: who waits until a renewal lasts waits for what this connection wrote.
  local left = math.max(redis.call('PTTL', KEYS[i]), lease)
  redis.call('PEXPIRE', KEYS[i], string.format('%.0f', left))
  -- What has no expiry is not ours.
  if redis.call('PTTL', KEYS[i + 1]) > 0 then
    redis.call('PEXPIRE', KEYS[i + 1], string.format('%.0f', left + retention))
  end
end
return {now, 'renewed'}
