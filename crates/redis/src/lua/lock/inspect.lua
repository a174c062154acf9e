-- inspect: who holds each key, for how long, its last fence, and who waits. Changes nothing; runs as a read-only script.
-- KEYS: main, fence, presence, and so on in threes
-- ARGV: presence_ms, most_present
-- Reply: {now, 'seen', {kind, holder, length, pttl, fence, {keeper, waiting, …}}, …} with kind 'free', 'held' or 'wrongtype', and fence -1 if unknown
-- Invariants: 2, 3.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
local reply = {now, 'seen'}
for i = 1, #KEYS, 3 do
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
  local many, notes, waiters = redis.pcall('HLEN', KEYS[i + 2]), {}, {}
  if type(many) == 'number' and many > 0 and many <= 2 * tonumber(ARGV[2]) then
    notes = redis.pcall('HGETALL', KEYS[i + 2])
  end
  for n = 1, #notes, 2 do
    local expires, waiting = string.match(notes[n + 1], '^(%d+):(%d+)$')
    if expires and now_ms <= tonumber(expires) and tonumber(expires) <= now_ms + tonumber(ARGV[1]) then
      waiters[#waiters + 1] = notes[n]
      waiters[#waiters + 1] = math.min(tonumber(waiting), 4294967295)
    end
  end
  reply[#reply + 1] = {kind, string.sub(holder or '', 1, 256), length, left, fence, waiters}
end
return reply
