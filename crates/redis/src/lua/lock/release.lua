-- release: removes every key that the token holds; the fence stays.
-- KEYS: main, and so on
-- ARGV: token
-- Reply: {now, 'wrongtype', index, side} | {now, 'other', index, holder, length} | {now, 'expired', index} | {now, 'released'}
-- Invariants: 2, 3. With several keys the worst finding is answered, and those held are removed all the same.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local holders = {}
for i = 1, #KEYS do
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' then
    if not string.find(holder.err, 'WRONGTYPE', 1, true) then return holder end
    return {now, 'wrongtype', i - 1, 0}
  end
  holders[i] = holder
end

local other, expired
for i = 1, #KEYS do
  local holder = holders[i]
  if holder == ARGV[1] then
    redis.call('DEL', KEYS[i])
  elseif holder then
    other = other or {now, 'other', i - 1, string.sub(holder, 1, 256), #holder}
  else
    expired = expired or {now, 'expired', i - 1}
  end
end
return other or expired or {now, 'released'}
