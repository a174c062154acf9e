-- inspect: who holds each key, for how long, and its last fence. Changes nothing; runs as a read-only script.
-- KEYS: main, fence, and so on in pairs
-- ARGV: none
-- Reply: {now, 'seen', {kind, holder, length, pttl, fence}, …} with kind 'free', 'held' or 'wrongtype', and fence -1 if unknown
-- Invariants: 2, 3.
local time = redis.call('TIME')
local reply = {time[1] * 1000000 + time[2], 'seen'}
for i = 1, #KEYS, 2 do
  local kind, length, left = 'free', 0, -2
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' then
    if not string.find(holder.err, 'WRONGTYPE', 1, true) then return holder end
    kind, holder = 'wrongtype', ''
  elseif holder then
    kind, length, left = 'held', #holder, redis.call('PTTL', KEYS[i])
  end
  local fence = -1
  local mark = redis.pcall('GET', KEYS[i + 1])
  if type(mark) == 'string' and #mark <= 16 and string.match(mark, '^%d+$') and tonumber(mark) <= 9007199254700000 then
    fence = tonumber(mark)
  end
  reply[#reply + 1] = {kind, string.sub(holder or '', 1, 256), length, left, fence}
end
return reply
