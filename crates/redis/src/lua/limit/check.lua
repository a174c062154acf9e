-- check: takes from all limits what each call asks for, or nothing; each key and its expiry in one command.
-- KEYS: main, and so on
-- ARGV: not_after_us; per key: kind, one, two, three, four; then: runs; per run: most, cost, bits; per bucket and bit: step_us, step_part
-- Reply: {now, 'late'} | {now, 'wrongtype', index, 0} | {now, 'checked', granted, repaired, kept, …} with what was kept before, see below
-- Invariants: 2, 3, 4, 7. Who takes nothing writes nothing, unless a key was damaged: no expiry, or a time that this clock
-- cannot have written. But a log is rid of what has left its window, always.
-- Kinds and their numbers: t: full_us, full_part, refill, 0 | w, f (from whole multiples, from the first call): count,
-- window_us, 0, 0 | l: likewise | c: count, window_us, unit_us, units.
-- A run is a number of calls of one cost, of which as many are granted as fit into every limit, up to `most`. That number
-- is found from its highest bit down: each bucket has a step for each bit, the lowest bit first, so that nothing is
-- multiplied that could pass 2^53.
-- Kept: a text, '' for none, after '!' where it had no expiry; of a log {used, newest_us or -1, damaged, rank, time_us, …},
-- with the ranks that a refusal waits for.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {now, 'late'} end

-- The common call, one bucket and one call, in short. Whatever is odd about it goes the long way.
if #KEYS == 1 and ARGV[2] == 't' and ARGV[7] == '1' and ARGV[8] == '1' then
  local text, at, part, sound = redis.pcall('GET', KEYS[1]), now, 0, true
  local most_at, most_part, refill = now + ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
  if text then
    local whole, rest
    if type(text) == 'string' then whole, rest = string.match(text, '^(%d+):?(%d*)$') end
    sound = whole and #whole <= 16 and #rest <= 16 and (rest ~= '' or #whole == #text)
    if sound then
      whole, rest = tonumber(whole), tonumber(rest) or 0
      sound = (whole < most_at or whole == most_at and rest <= most_part) and rest < refill and redis.call('PTTL', KEYS[1]) ~= -1
      if whole >= now then at, part = whole, rest end
    end
  end
  if sound then
    at, part = at + ARGV[11], part + ARGV[12]
    if part >= refill then at, part = at + 1, part - refill end
    if at > most_at or at == most_at and part > most_part then return {now, 'checked', 0, 0, text or ''} end
    local kept, ends = nil, at
    if part > 0 then
      kept, ends = string.format('%.0f:%.0f', at, part), at + 1
    else
      kept = string.format('%.0f', at)
    end
    ends = math.max(math.ceil(ends / 1000), math.floor(now / 1000) + 1)
    redis.call('SET', KEYS[1], kept, 'PXAT', string.format('%.0f', ends))
    return {now, 'checked', tonumber(ARGV[9]), 0, text or ''}
  end
end

-- A bucket is two moments, of being full and of being full if empty now; all others are room for have + cost * unit.
local limits, repaired, granted, trims, reply = {}, 0, 0, false, {now, 'checked', 0, 0}
for i = 1, #KEYS do
  local a = 5 * i - 3
  local kind, one, two = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local limit
  if kind == 'l' then
    local last = redis.pcall('ZRANGE', KEYS[i], -1, -1, 'WITHSCORES')
    if last.err then
      if not string.find(last.err, 'WRONGTYPE', 1, true) then return last end
      return {now, 'wrongtype', i - 1, 0}
    end
    local used, stale, newest, number, damaged = 0, 0, -1, 0, false
    if last[1] then
      if not (#last[1] == 16 and string.find(last[1], '^[0-8]%d+$') and #last[2] <= 16 and string.find(last[2], '^%d+$'))
        or tonumber(last[2]) >= 9007199254740992 then
        return {now, 'wrongtype', i - 1, 0}
      end
      number, newest = tonumber(last[1]), tonumber(last[2])
      stale = redis.call('ZCOUNT', KEYS[i], '-inf', string.format('%.0f', now - two))
      used = redis.call('ZCARD', KEYS[i]) - stale
      damaged = redis.call('PTTL', KEYS[i]) == -1
    end
    trims = trims or stale > 0
    local ahead = newest > now + two
    if used == 0 then newest = -1 elseif ahead then newest, damaged = now, true end
    limit = {kind = 'l', have = used, unit = 1, room = one, used = used, window = two, stale = stale, newest = newest,
      number = number, ahead = ahead, damaged = damaged}
    reply[4 + i] = {used, newest, damaged and 1 or 0}
  else
    local text, bare = redis.pcall('GET', KEYS[i]), false
    if type(text) == 'table' then
      if not string.find(text.err, 'WRONGTYPE', 1, true) then return text end
      return {now, 'wrongtype', i - 1, 0}
    end
    if text then bare = redis.call('PTTL', KEYS[i]) == -1 end
    local damaged, foreign = bare, false
    if kind == 't' then
      local at, part, most_at, refill = now, 0, now + one, tonumber(ARGV[a + 3])
      if text then
        local whole, rest = text, '0'
        if not string.find(text, '^%d+$') then whole, rest = string.match(text, '^(%d+):(%d+)$') end
        foreign = not whole or #whole > 16 or #rest > 16
        if not foreign then
          whole, rest = tonumber(whole), tonumber(rest)
          foreign = whole >= 9007199254740992 or rest >= refill
          if whole > most_at or whole == most_at and rest > two then
            at, part, damaged = most_at, two, true
          elseif whole >= now then
            at, part = whole, rest
          end
        end
      end
      limit = {kind = 't', at = at, part = part, refill = refill, most_at = most_at, most_part = two, next_at = 0, next_part = 0,
        damaged = damaged}
    elseif kind == 'c' then
      local start, previous, current, unit, units = now - now % two, 0, 0, tonumber(ARGV[a + 3]), tonumber(ARGV[a + 4])
      if text then
        local from, before, here = string.match(text, '^(%d+):(%d+):(%d+)$')
        foreign = not from or #from > 16 or #before > 16 or #here > 16
        if not foreign then
          from, before, here = tonumber(from), tonumber(before), tonumber(here)
          foreign = from >= 9007199254740992 or before >= 9007199254740992 or here >= 9007199254740992
          before, here = math.min(before, one), math.min(here, one)
          if from > now + two then
            previous, current, damaged = before, here, true
          elseif from >= start then
            start, previous, current = from, before, here
          elseif from + two == start then
            previous = here
          end
        end
      end
      local passed = math.floor(math.max(now - start, 0) / unit)
      limit = {kind = 'c', have = previous * (units - passed) + current * units, unit = units, room = one * units,
        window = two, start = start, previous = previous, current = current, damaged = damaged}
    else
      local start, used, begun = now, 0, false
      if kind == 'w' then start = now - now % two end
      if text then
        local from, before = string.match(text, '^(%d+):(%d+)$')
        foreign = not from or #from > 16 or #before > 16
        if not foreign then
          from, before = tonumber(from), tonumber(before)
          foreign = from >= 9007199254740992 or before >= 9007199254740992
          if from > now + two then
            used, damaged, begun = before, true, true
          elseif now < from + two then
            start, used, begun = from, before, true
          end
        end
      end
      limit = {kind = kind, have = used, unit = 1, room = one, window = two, start = start, begun = begun, damaged = damaged}
    end
    if foreign then return {now, 'wrongtype', i - 1, 0} end
    if bare then text = '!' .. text end
    reply[4 + i] = text or ''
  end
  if limit.damaged then repaired = repaired + 1 end
  limits[i] = limit
end

local p = 5 * #KEYS + 3
for _ = 1, tonumber(ARGV[p - 1]) do
  local most, cost, bits = tonumber(ARGV[p]), tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2])
  local many, size = 0, 2 ^ (bits - 1)
  for bit = bits - 1, 0, -1 do
    local fits, step = many + size <= most, p + 3 + 2 * bit
    for i = 1, #limits do
      local limit = limits[i]
      if not fits then break end
      if limit.kind == 't' then
        local at, part = limit.at + tonumber(ARGV[step]), limit.part + tonumber(ARGV[step + 1])
        if part >= limit.refill then at, part = at + 1, part - limit.refill end
        limit.next_at, limit.next_part, step = at, part, step + 2 * bits
        fits = at < limit.most_at or at == limit.most_at and part <= limit.most_part
      else
        fits = limit.have + size * cost * limit.unit <= limit.room
      end
    end
    if fits then
      many = many + size
      for i = 1, #limits do
        local limit = limits[i]
        if limit.kind == 't' then
          limit.at, limit.part = limit.next_at, limit.next_part
        else
          limit.have = limit.have + size * cost * limit.unit
        end
      end
    end
    size = size / 2
  end
  granted = granted + many * cost
  p = p + 3
  for i = 1, #limits do
    local limit = limits[i]
    if limit.kind == 't' then p = p + 2 * bits end
    if limit.kind == 'l' and many < most and cost <= limit.room and limit.have + cost > limit.room then
      local rank, kept = limit.have + cost - limit.room - 1, reply[4 + i]
      if rank < limit.used then
        local at = limit.newest
        if not limit.ahead then
          local place = limit.stale + rank
          at = tonumber(redis.call('ZRANGE', KEYS[i], place, place, 'WITHSCORES')[2])
        end
        kept[#kept + 1] = rank
        kept[#kept + 1] = at
      end
    end
  end
end

reply[3], reply[4] = granted, repaired
if trims then
  for i = 1, #KEYS do
    if limits[i].kind == 'l' and limits[i].stale > 0 then redis.call('ZREMRANGEBYRANK', KEYS[i], 0, limits[i].stale - 1) end
  end
end
if granted == 0 and repaired == 0 then return reply end
local soonest = math.floor(now / 1000) + 1
for i = 1, #KEYS do
  local limit = limits[i]
  local kind = limit.kind
  if granted > 0 or limit.damaged then
    if kind == 'l' then
      local stamp, moved = string.format('%.0f', math.max(now, limit.newest)), {}
      if limit.ahead then moved = redis.call('ZRANGE', KEYS[i], 0, -1) end
      for n = 1, granted do moved[#moved + 1] = string.format('%016.0f', limit.number + n) end
      for first = 1, #moved, 1000 do
        local chunk = {}
        for n = first, math.min(first + 999, #moved) do
          chunk[#chunk + 1] = stamp
          chunk[#chunk + 1] = moved[n]
        end
        redis.call('ZADD', KEYS[i], unpack(chunk))
      end
      local ends = math.max(math.ceil((math.max(limit.newest, granted > 0 and now or 0) + limit.window) / 1000), soonest)
      redis.call('PEXPIREAT', KEYS[i], string.format('%.0f', ends))
    else
      local text, ends
      if kind == 't' then
        if limit.part > 0 then
          text, ends = string.format('%.0f:%.0f', limit.at, limit.part), limit.at + 1
        elseif limit.at > now then
          text, ends = string.format('%.0f', limit.at), limit.at
        end
        if text then ends = math.ceil(ends / 1000) end
      elseif kind == 'c' then
        if limit.previous > 0 or limit.current + granted > 0 then
          text = string.format('%.0f:%.0f:%.0f', limit.start, limit.previous, limit.current + granted)
          -- In parts: the sum may pass 2^53 where two windows are two hundred years.
          local middle = limit.start + limit.window
          ends = math.floor(middle / 1000) + math.floor(limit.window / 1000) + math.ceil((middle % 1000 + limit.window % 1000) / 1000)
        end
      elseif limit.have > 0 or kind == 'f' and limit.begun then
        text = string.format('%.0f:%.0f', limit.start, limit.have)
        ends = math.ceil((limit.start + limit.window) / 1000)
      end
      if text then
        redis.call('SET', KEYS[i], text, 'PXAT', string.format('%.0f', math.max(ends, soonest)))
      else
        redis.call('DEL', KEYS[i])
      end
    end
  end
end
return reply
