-- remember: marks buyers as served, where they have no mark yet.
-- KEYS: buyers
-- ARGV: until_ms, not_after_us; then: buyer, ticket, and so on
-- Reply: {now, 'late'} | {now, 'marked', how_many}
-- Invariants: 2, 3, 7.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[2]) then return {now, 'late'} end
if now >= ARGV[1] * 1000 then return {now, 'marked', 0} end

local marked = 0
for i = 3, #ARGV, 2 do
  marked = marked + redis.call('HSETNX', KEYS[1], ARGV[i], '+' .. ARGV[i + 1])
end
if #ARGV > 2 then redis.call('PEXPIREAT', KEYS[1], ARGV[1]) end
return {now, 'marked', marked}
