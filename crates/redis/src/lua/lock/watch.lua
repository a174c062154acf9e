-- watch: takes every key for one token, or none; where none, notes who waits and says how long is left.
-- KEYS: main, fence, presence, and so on in threes
-- ARGV: token, lease_ms, not_after_us, fence_seen, fence_block, fence_retention_ms, fence_lead_us, keeper, waiting, presence_ms, most_present
-- Reply: {now, 'late'} | {now, 'wrongtype', index, side} | {now, 'busy', others, index, holder, length, pttl} | {now, 'granted', others, fence}
-- Invariants: 2, 3, 4, 7. All reads come first, and every side key that is there is written afterwards, also where
-- nothing is to be changed: a write uses up the registration that the first read made for all declared keys (Redis up
-- to 7.0). So on a connection with client tracking the main keys stay registered, and after a grant none.
-- Notes of presence are a hint: what hinders them (another type, a full memory, too many of them) hinders nothing else.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {now, 'late'} end

local holders, mine, busy = {}, 0, nil
for i = 1, #KEYS, 3 do
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' then
    if not string.find(holder.err, 'WRONGTYPE', 1, true) then return holder end
    return {now, 'wrongtype', (i - 1) / 3, 0}
  end
  holders[i] = holder
end
for i = 1, #KEYS, 3 do
  if holders[i] == ARGV[1] then
    mine = mine + 3
  elseif holders[i] then
    busy = busy or i
  end
end

local previous = 0
if not busy then
  for i = 2, #KEYS, 3 do
    local mark = redis.pcall('GET', KEYS[i])
    if type(mark) == 'table' then
      if not string.find(mark.err, 'WRONGTYPE', 1, true) then return mark end
      return {now, 'wrongtype', (i - 2) / 3, 1}
    elseif mark then
      if #mark > 16 or not string.match(mark, '^%d+$') or tonumber(mark) > 9007199254695904 then
        return {now, 'wrongtype', (i - 2) / 3, 1}
      end
      previous = math.max(previous, tonumber(mark))
    end
  end
end

local left, kept, notes, others = {}, {}, {}, 0
for i = 1, #KEYS, 3 do
  left[i] = redis.call('PTTL', KEYS[i])
  kept[i] = redis.call('PTTL', KEYS[i + 1])
  local many = redis.pcall('HLEN', KEYS[i + 2])
  if type(many) == 'number' and many > 2 * tonumber(ARGV[11]) then
    redis.pcall('UNLINK', KEYS[i + 2])
    many = 0
  end
  notes[i] = many ~= 0 and redis.pcall('HGETALL', KEYS[i + 2]) or {}
end

local lease, retention, block = tonumber(ARGV[2]), tonumber(ARGV[6]), tonumber(ARGV[5])
local waiting, fence = tonumber(ARGV[9]), nil
if busy then
  for i = 1, #KEYS, 3 do
    if kept[i] > 0 then
      redis.call('PEXPIRE', KEYS[i + 1], string.format('%.0f', math.max(left[i], 0) + retention))
    end
  end
elseif mine == #KEYS and previous >= block then
  fence = previous - block + 1
  for i = 1, #KEYS, 3 do
    if left[i] < lease then redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
    redis.call('PEXPIRE', KEYS[i + 1], string.format('%.0f', math.max(left[i], lease) + retention))
  end
else
  fence = math.max(previous + 1, now, math.min(tonumber(ARGV[4]) + 1, now + tonumber(ARGV[7])))
  for i = 1, #KEYS, 3 do
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
    redis.call('SET', KEYS[i + 1], string.format('%.0f', fence + block - 1), 'PX', string.format('%.0f', lease + retention))
  end
end
if fence then waiting = math.max(waiting - 1, 0) end

local now_ms = math.floor(now / 1000)
local note = string.format('%.0f:%.0f', now_ms + tonumber(ARGV[10]), waiting)
for i = 1, #KEYS, 3 do
  local room, known = tonumber(ARGV[11]), false
  for n = 1, #notes[i], 2 do
    local name = notes[i][n]
    local expires = tonumber(string.match(notes[i][n + 1], '^(%d+):%d+$')) or 0
    if now_ms > expires or expires > now_ms + tonumber(ARGV[10]) then
      redis.pcall('HDEL', KEYS[i + 2], name)
    else
      room = room - 1
      if name == ARGV[8] then known = true else others = 1 end
    end
  end
  if known or room > 0 then
    redis.pcall('HSET', KEYS[i + 2], ARGV[8], note)
    redis.pcall('PEXPIRE', KEYS[i + 2], ARGV[10])
  end
  if waiting == 0 then redis.pcall('HDEL', KEYS[i + 2], ARGV[8]) end
end

if fence then return {now, 'granted', others, fence} end
local holder = holders[busy]
return {now, 'busy', others, (busy - 1) / 3, string.sub(holder, 1, 256), #holder, left[busy]}
