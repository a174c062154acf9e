-- reset: forgets everything that was taken.
-- KEYS: main, and so on
-- ARGV: per key: kind, refill
-- Reply: {now, 'wrongtype', index, 0} | {now, 'reset', number}
-- Invariants: 2, 3. Kinds as in check; only what is ours is deleted, and the refill says what is ours of a bucket.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for i = 1, #KEYS do
  local kind, refill = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  if kind == 'l' then
    local last = redis.pcall('ZRANGE', KEYS[i], -1, -1, 'WITHSCORES')
    if last.err then
      if not string.find(last.err, 'WRONGTYPE', 1, true) then return last end
      return {now, 'wrongtype', i - 1, 0}
    end
    if last[1] and (not (#last[1] == 16 and string.find(last[1], '^[0-8]%d+$') and #last[2] <= 16 and string.find(last[2], '^%d+$'))
      or tonumber(last[2]) >= 9007199254740992) then
      return {now, 'wrongtype', i - 1, 0}
    end
  else
    local text = redis.pcall('GET', KEYS[i])
    if type(text) == 'table' then
      if not string.find(text.err, 'WRONGTYPE', 1, true) then return text end
      return {now, 'wrongtype', i - 1, 0}
    elseif text then
      if kind == 't' and string.find(text, '^%d+$') then text = text .. ':0' end
      local form = kind == 'c' and '^(%d+):(%d+):(%d+)$' or '^(%d+):(%d+)$'
      local first, second, third = string.match(text, form)
      third = third or '0'
      if not first or #first > 16 or #second > 16 or #third > 16 or kind == 't' and tonumber(second) >= refill
        or math.max(tonumber(first), tonumber(second), tonumber(third)) >= 9007199254740992 then
        return {now, 'wrongtype', i - 1, 0}
      end
    end
  end
end

local number = 0
for i = 1, #KEYS do
  number = number + redis.call('DEL', KEYS[i])
end
return {now, 'reset', number}
