-- refund: gives back to every limit what was taken, as far as that much was used; no window moves.
-- KEYS: main, and so on
-- ARGV: not_after_us, cost; per key: kind, one, two, three, four, step_us, step_part
-- Reply: {now, 'late'} | {now, 'wrongtype', index, 0} | {now, 'refunded', repaired, kept, …} with what is kept afterwards, in the form of check
-- Invariants: 2, 3, 4, 7. Kinds and their numbers as in check; the step is what the cost is of a bucket, 0 and 0 for others.
-- Every key is written, so that one without expiry has one again; it counts as repaired. A log gives back its newest calls.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {now, 'late'} end

local cost, states = tonumber(ARGV[2]), {}
for i = 1, #KEYS do
  local a = 7 * i - 4
  local kind, state = ARGV[a], {}
  if kind == 'l' then
    local last = redis.pcall('ZRANGE', KEYS[i], -1, -1, 'WITHSCORES')
    if last.err then
      if not string.find(last.err, 'WRONGTYPE', 1, true) then return last end
      return {now, 'wrongtype', i - 1, 0}
    end
    if last[1] then
      if not (#last[1] == 16 and string.find(last[1], '^[0-8]%d+$') and #last[2] <= 16 and string.find(last[2], '^%d+$'))
        or tonumber(last[2]) >= 9007199254740992 then
        return {now, 'wrongtype', i - 1, 0}
      end
      state[1] = tonumber(last[2])
      state.bare = redis.call('PTTL', KEYS[i]) == -1
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
      if not first or #first > 16 or #second > 16 or #third > 16 or kind == 't' and tonumber(second) >= tonumber(ARGV[a + 3])
        or math.max(tonumber(first), tonumber(second), tonumber(third)) >= 9007199254740992 then
        return {now, 'wrongtype', i - 1, 0}
      end
      state = {tonumber(first), tonumber(second), tonumber(third)}
      state.bare = redis.call('PTTL', KEYS[i]) == -1
    end
  end
  states[i] = state
end

local reply, soonest, repaired = {now, 'refunded', 0}, math.floor(now / 1000) + 1, 0
for i = 1, #KEYS do
  local a = 7 * i - 4
  local kind, one, two = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local first, second, third = states[i][1], states[i][2], states[i][3]
  local text, ends, kept
  local damaged = states[i].bare
  if kind == 'l' then
    kept = {0, -1, 0}
    if first then
      damaged = damaged or first > now + two
      redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', string.format('%.0f', now - two))
      local used = redis.call('ZCARD', KEYS[i])
      local back = math.min(cost, used)
      if back > 0 then redis.call('ZREMRANGEBYRANK', KEYS[i], -back, -1) end
      if back < used then
        if first > now + two then
          local moved, stamp = redis.call('ZRANGE', KEYS[i], 0, -1), string.format('%.0f', now)
          for from = 1, #moved, 1000 do
            local chunk = {}
            for n = from, math.min(from + 999, #moved) do
              chunk[#chunk + 1] = stamp
              chunk[#chunk + 1] = moved[n]
            end
            redis.call('ZADD', KEYS[i], unpack(chunk))
          end
        end
        local newest = tonumber(redis.call('ZRANGE', KEYS[i], -1, -1, 'WITHSCORES')[2])
        kept = {used - back, newest, 0}
        ends = math.max(math.ceil((newest + two) / 1000), soonest)
        redis.call('PEXPIREAT', KEYS[i], string.format('%.0f', ends))
      end
    end
  elseif kind == 't' then
    local refill, most_at = tonumber(ARGV[a + 3]), now + one
    local at, part = now, 0
    if first and (first > most_at or first == most_at and second > two) then
      at, part, damaged = most_at, two, true
    elseif first and first >= now then
      at, part = first, second
    end
    at, part = at - tonumber(ARGV[a + 5]), part - tonumber(ARGV[a + 6])
    if part < 0 then at, part = at - 1, part + refill end
    if at >= now and part > 0 then
      text, ends = string.format('%.0f:%.0f', at, part), math.ceil((at + 1) / 1000)
    elseif at > now then
      text, ends = string.format('%.0f', at), math.ceil(at / 1000)
    end
  elseif kind == 'c' then
    local start, previous, current = now - now % two, 0, 0
    if first then
      second, third = math.min(second, one), math.min(third, one)
      if first > now + two then
        previous, current, damaged = second, third, true
      elseif first >= start then
        start, previous, current = first, second, third
      elseif first + two == start then
        previous = third
      end
    end
    current = math.max(current - cost, 0)
    if previous > 0 or current > 0 then
      text = string.format('%.0f:%.0f:%.0f', start, previous, current)
      -- In parts: the sum may pass 2^53 where two windows are two hundred years.
      local middle = start + two
      ends = math.floor(middle / 1000) + math.floor(two / 1000) + math.ceil((middle % 1000 + two % 1000) / 1000)
    end
  else
    local start, used, begun = now, 0, false
    if kind == 'w' then start = now - now % two end
    if first and first > now + two then
      used, begun, damaged = second, true, true
    elseif first and now < first + two then
      start, used, begun = first, second, true
    end
    used = math.max(used - cost, 0)
    if used > 0 or kind == 'f' and begun then
      text, ends = string.format('%.0f:%.0f', start, used), math.ceil((start + two) / 1000)
    end
  end
  if text then
    redis.call('SET', KEYS[i], text, 'PXAT', string.format('%.0f', math.max(ends, soonest)))
  elseif kind ~= 'l' then
    redis.call('DEL', KEYS[i])
  end
  if damaged then repaired = repaired + 1 end
  reply[3 + i] = kept or text or ''
end
reply[3] = repaired
return reply
