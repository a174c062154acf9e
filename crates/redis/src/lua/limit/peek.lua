-- peek: what is kept of each limit. Changes nothing; runs as a read-only script.
-- KEYS: main, and so on
-- ARGV: cost; per key: kind, one, two, three, four
-- Reply: {now, 'wrongtype', index, 0} | {now, 'peeked', kept, …} with kept as in check
-- Invariants: 2, 3. Kinds and their numbers as in check. The cost says which rank of a log a refusal would wait for.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local cost, reply = tonumber(ARGV[1]), {now, 'peeked'}
for i = 1, #KEYS do
  local a = 5 * i - 3
  local kind = ARGV[a]
  if kind == 'l' then
    local count, window = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
    local last = redis.pcall('ZRANGE', KEYS[i], -1, -1, 'WITHSCORES')
    if last.err then
      if not string.find(last.err, 'WRONGTYPE', 1, true) then return last end
      return {now, 'wrongtype', i - 1, 0}
    end
    local used, newest, kept = 0, -1, {0, -1, 0}
    if last[1] then
      if not (#last[1] == 16 and string.find(last[1], '^[0-8]%d+$') and #last[2] <= 16 and string.find(last[2], '^%d+$'))
        or tonumber(last[2]) >= 9007199254740992 then
        return {now, 'wrongtype', i - 1, 0}
      end
      local stale = redis.call('ZCOUNT', KEYS[i], '-inf', string.format('%.0f', now - window))
      used, newest = redis.call('ZCARD', KEYS[i]) - stale, tonumber(last[2])
      local ahead = newest > now + window
      if used == 0 then newest = -1 elseif ahead then newest = now end
      kept = {used, newest, ahead and 1 or 0}
      local rank = used + cost - count - 1
      if cost <= count and rank >= 0 and rank < used then
        kept[4], kept[5] = rank, now
        if not ahead then
          kept[5] = tonumber(redis.call('ZRANGE', KEYS[i], stale + rank, stale + rank, 'WITHSCORES')[2])
        end
      end
    end
    reply[2 + i] = kept
  else
    local text = redis.pcall('GET', KEYS[i])
    if type(text) == 'table' then
      if not string.find(text.err, 'WRONGTYPE', 1, true) then return text end
      return {now, 'wrongtype', i - 1, 0}
    end
    reply[2 + i] = text or ''
    if text then
      if kind == 't' and string.find(text, '^%d+$') then text = text .. ':0' end
      local form = kind == 'c' and '^(%d+):(%d+):(%d+)$' or '^(%d+):(%d+)$'
      local first, second, third = string.match(text, form)
      third = third or '0'
      if not first or #first > 16 or #second > 16 or #third > 16 or kind == 't' and tonumber(second) >= tonumber(ARGV[a + 3])
        or math.max(tonumber(first), tonumber(second), tonumber(third)) >= 9007199254740992 then
        return {now, 'wrongtype', i - 1, 0}
      end
    end
  end
end
return reply
