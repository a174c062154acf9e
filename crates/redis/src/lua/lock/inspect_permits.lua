-- inspect_permits: who holds a permit, and for how long. Changes nothing; runs as a read-only script.
-- KEYS: permit
-- ARGV: most_ahead_us, most
-- Reply: {now, 'wrongtype', index, side} | {now, 'seen', {holder, length, left_us}, …}
-- Invariants: 2, 3.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local from, to = string.format('(%.0f', now), string.format('%.0f', now + ARGV[1])
local seen = redis.pcall('ZRANGEBYSCORE', KEYS[1], from, to, 'WITHSCORES', 'LIMIT', 0, ARGV[2])
if seen.err then
  if not string.find(seen.err, 'WRONGTYPE', 1, true) then return seen end
  return {now, 'wrongtype', 0, 0}
end
local reply = {now, 'seen'}
for i = 1, #seen, 2 do
  reply[#reply + 1] = {string.sub(seen[i], 1, 256), #seen[i], seen[i + 1] - now}
end
return reply
