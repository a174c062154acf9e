-- take: hands messages of the outbox to a worker: first those that another took long ago and did not finish, then new ones.
-- KEYS: main, outbox
-- ARGV: worker, most, idle_ms
-- Reply: {now, 'wrongtype', index, side} | {now, 'unknown'} | {now, 'taken', taken_over, {id, ticket, buyer, sold_at_us}, …}
-- Invariants: 2, 3, 7.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local book = redis.pcall('HMGET', KEYS[1], 'until')
if book.err then
  if not string.find(book.err, 'WRONGTYPE', 1, true) then return book end
  return {now, 'wrongtype', 0, 0}
end
-- Tickets outlive the numbers of their shard; where there are neither, nothing is made.
if not book[1] and redis.call('EXISTS', KEYS[2]) == 0 then return {now, 'unknown'} end
-- Whoever removed the outbox removed its group of workers with it.
local group = redis.pcall('XGROUP', 'CREATE', KEYS[2], 'workers', '0', 'MKSTREAM')
if group.err and not string.find(group.err, 'BUSYGROUP', 1, true) then return group end
if book[1] then redis.call('PEXPIREAT', KEYS[2], book[1]) end

local reply = {now, 'taken', 0}
local function hand(entries)
  for i = 1, #entries do
    local entry = entries[i]
    reply[#reply + 1] = {entry[1], entry[2][2], entry[2][4], entry[2][6]}
  end
end
local most = tonumber(ARGV[2])
hand(redis.call('XAUTOCLAIM', KEYS[2], 'workers', ARGV[1], ARGV[3], '0-0', 'COUNT', ARGV[2])[2])
reply[3] = #reply - 3
if reply[3] < most then
  local fresh = redis.call('XREADGROUP', 'GROUP', 'workers', ARGV[1], 'COUNT', most - reply[3], 'STREAMS', KEYS[2], '>')
  if fresh then hand(fresh[1][2]) end
end
return reply
