-- leave: a keeper for which nobody waits any more takes its note of presence away.
-- KEYS: presence, and so on
-- ARGV: keeper
-- Reply: {now, 'left'}
-- Invariants: 2, 3. What holds another type is left alone.
local time = redis.call('TIME')
for i = 1, #KEYS do
  redis.pcall('HDEL', KEYS[i], ARGV[1])
end
return {time[1] * 1000000 + time[2], 'left'}
