-- raise_fence: lifts the fence of every key that the token still holds to a number; changes none if one is lost.
-- KEYS: main, fence, and so on in pairs
-- ARGV: token, number, not_after_us, fence_retention_ms
-- Reply: {now, 'late'} | {now, 'wrongtype', index, side} | {now, 'other', index, holder, length} | {now, 'expired', index} | {now, 'raised'}
-- Invariants: 2, 3, 4, 7. It never lowers a fence and never touches a lease.
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

local number = tonumber(ARGV[2])
for i = 2, #KEYS, 2 do
  local mark = redis.pcall('GET', KEYS[i])
  if type(mark) == 'table' then
    if not string.find(mark.err, 'WRONGTYPE', 1, true) then return mark end
    return {now, 'wrongtype', (i - 2) / 2, 1}
  elseif mark then
    if #mark > 16 or not string.match(mark, '^%d+$') or tonumber(mark) > 9007199254695904 then
      return {now, 'wrongtype', (i - 2) / 2, 1}
    end
    number = math.max(number, tonumber(mark))
  end
end

local last, retention = string.format('%.0f', number), tonumber(ARGV[4])
for i = 1, #KEYS, 2 do
  local kept = math.max(redis.call('PTTL', KEYS[i]), 0) + retention
  redis.call('SET', KEYS[i + 1], last, 'PX', string.format('%.0f', kept))
end
return {now, 'raised'}
