-- swap: hands every key from one token to another, with a full lease and a raised fence; or changes nothing.
-- KEYS: main, fence, and so on in pairs
-- ARGV: from, to, lease_ms, not_after_us, fence_seen, fence_block, fence_retention_ms, fence_lead_us
-- Reply: {now, 'late'} | {now, 'wrongtype', index, side} | {now, 'other', index, holder, length} | {now, 'expired', index} | {now, 'swapped', fence}
-- Invariants: 2, 3, 4, 7. Repeating it answers the same fence.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[4]) then return {now, 'late'} end

local holders, swapped = {}, 0
for i = 1, #KEYS, 2 do
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' then
    if not string.find(holder.err, 'WRONGTYPE', 1, true) then return holder end
    return {now, 'wrongtype', (i - 1) / 2, 0}
  end
  holders[i] = holder
  if holder == ARGV[2] then swapped = swapped + 2 end
end
if swapped ~= #KEYS then
  for i = 1, #KEYS, 2 do
    local holder = holders[i]
    if holder and holder ~= ARGV[1] then
      return {now, 'other', (i - 1) / 2, string.sub(holder, 1, 256), #holder}
    end
  end
  for i = 1, #KEYS, 2 do
    if not holders[i] then return {now, 'expired', (i - 1) / 2} end
  end
end

local previous = 0
for i = 2, #KEYS, 2 do
  local mark = redis.pcall('GET', KEYS[i])
  if type(mark) == 'table' then
    if not string.find(mark.err, 'WRONGTYPE', 1, true) then return mark end
    return {now, 'wrongtype', (i - 2) / 2, 1}
  elseif mark then
    if #mark > 16 or not string.match(mark, '^%d+$') or tonumber(mark) > 9007199254695904 then
      return {now, 'wrongtype', (i - 2) / 2, 1}
    end
    previous = math.max(previous, tonumber(mark))
  end
end

local lease, retention, block = tonumber(ARGV[3]), tonumber(ARGV[7]), tonumber(ARGV[6])
if swapped == #KEYS and previous >= block then
  for i = 1, #KEYS, 2 do
    local left = redis.call('PTTL', KEYS[i])
    if left < lease then
      left = lease
      redis.call('PEXPIRE', KEYS[i], ARGV[3])
    end
    redis.call('PEXPIRE', KEYS[i + 1], string.format('%.0f', left + retention))
  end
  return {now, 'swapped', previous - block + 1}
end

local seen = math.min(tonumber(ARGV[5]) + 1, now + tonumber(ARGV[8]))
local fence = math.max(previous + 1, now, seen)
local last = string.format('%.0f', fence + block - 1)
local kept = string.format('%.0f', lease + retention)
for i = 1, #KEYS, 2 do
  redis.call('SET', KEYS[i], ARGV[2], 'PX', ARGV[3])
  redis.call('SET', KEYS[i + 1], last, 'PX', kept)
end
return {now, 'swapped', fence}
