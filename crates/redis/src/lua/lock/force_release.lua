-- force_release: removes exactly the holder that an operator was shown, and raises the fence.
-- KEYS: main, fence
-- ARGV: shown_token, shown_length, not_after_us, fence_seen, fence_retention_ms, fence_lead_us
-- Reply: {now, 'late'} | {now, 'wrongtype', index, side} | {now, 'free'} | {now, 'other', index, holder, length} | {now, 'released', fence}
-- Invariants: 2, 3, 7. The shown token is its first 256 bytes and its length.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {now, 'late'} end

local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' then
  if not string.find(holder.err, 'WRONGTYPE', 1, true) then return holder end
  return {now, 'wrongtype', 0, 0}
end
if not holder then return {now, 'free'} end
if string.sub(holder, 1, 256) ~= ARGV[1] or #holder ~= tonumber(ARGV[2]) then
  return {now, 'other', 0, string.sub(holder, 1, 256), #holder}
end

local previous = 0
local mark = redis.pcall('GET', KEYS[2])
if type(mark) == 'table' then
  if not string.find(mark.err, 'WRONGTYPE', 1, true) then return mark end
  return {now, 'wrongtype', 0, 1}
elseif mark then
  if #mark > 16 or not string.match(mark, '^%d+$') or tonumber(mark) > 9007199254695904 then
    return {now, 'wrongtype', 0, 1}
  end
  previous = tonumber(mark)
end

local seen = math.min(tonumber(ARGV[4]) + 1, now + tonumber(ARGV[6]))
local fence = math.max(previous + 1, now, seen)
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', ARGV[5])
return {now, 'released', fence}
