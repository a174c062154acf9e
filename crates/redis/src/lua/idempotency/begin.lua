-- begin: claims the key for a token, unless somebody runs it, its outcome is unknown, or it has a result.
-- KEYS: main
-- ARGV: token, lease_us, not_after_us, hold_us, retain_us, fingerprint, fence_seen, fence_lead_us
-- Reply: {now, 'late'} | {now, 'wrongtype', index, side} | {now, 'claimed', fence, attempt, takeover} | {now, 'running', holder, length, attempt, left_us} | {now, 'completed', result, whole, fence, left_us} | {now, 'different'} | {now, 'unknown', holder, length, fence, left_us}
-- Invariants: 2, 3, 4, 7. Repeating it with the same token restarts the lease and answers the same fence and takeover. A refusal changes
-- nothing, but a record that lost its expiry gets one.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {now, 'late'} end

local previous, number, takeover, ends_at = 0, 1, 0, math.min(now + ARGV[2], 8940000000000000)
local text = redis.pcall('GET', KEYS[1])
if type(text) == 'table' then
  if not string.find(text.err, 'WRONGTYPE', 1, true) then return text end
  return {now, 'wrongtype', 0, 0}
end
if text then
  local size = #text
  local state, fence, attempt, ends, hold, retain, print, whole, length, start =
    string.match(text, '^once1 ([rtco]) (%d+) (%d+) (%d+) (%d+) (%d+) ([0-9a-f]+) ([01]) (%d+) ()')
  local sound = state and #fence <= 16 and #attempt <= 16 and #ends <= 16 and #hold <= 16 and #retain <= 16 and #print == 64 and #length <= 16
  if sound then
    fence, attempt, ends = tonumber(fence), tonumber(attempt), tonumber(ends)
    hold, retain, length = tonumber(hold), tonumber(retain), tonumber(length)
    local rest = size - start + 1 - length
    sound = fence <= 9007199254695904 and attempt <= 1000000000 and ends <= 8940000000000000
      and hold <= 31536000000000 and retain <= 31536000000000 and length >= 1 and length <= 256
      and rest >= 0 and rest <= 16777216 and (state == 'c' or whole == '0' and rest == 0)
  end
  if not sound then return {now, 'wrongtype', 0, 0} end
  local token = string.sub(text, start, start + length - 1)
  local kept_until = ends
  if state == 'r' or state == 't' then kept_until = ends + hold + retain end

  previous = fence
  if now < kept_until then
    local left, status = ends - now, 'lapsed'
    if state == 'c' then
      status = 'completed'
    elseif state == 'o' then
      status = 'open'
    elseif now < ends then
      status = 'running'
    elseif now < ends + hold then
      status, left = 'unknown', ends + hold - now
    end
    if status == 'running' and print == ARGV[6] and token == ARGV[1] then
      ends = math.max(ends, ends_at)
      local again = string.format('once1 %s %.0f %.0f %.0f %.0f %.0f %s 0 %.0f ', state, fence, attempt, ends, hold, retain, print, length) .. token
      redis.call('SET', KEYS[1], again, 'PXAT', string.format('%.0f', math.ceil((ends + hold + retain) / 1000)))
      return {now, 'claimed', fence, attempt, state == 't' and 1 or 0}
    end
    if status ~= 'open' and (status ~= 'lapsed' or print ~= ARGV[6]) then
      if redis.call('PTTL', KEYS[1]) == -1 then
        redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.ceil(kept_until / 1000)))
      end
      if print ~= ARGV[6] then return {now, 'different'} end
      if status == 'completed' then return {now, status, string.sub(text, start + length), tonumber(whole), fence, left} end
      if status == 'running' then return {now, status, token, length, attempt, left} end
      return {now, status, token, length, fence, left}
    end
    number = math.min(attempt + 1, 1000000000)
    if status == 'lapsed' then takeover = 1 end
  end
end

local fence = math.max(previous + 1, now, math.min(ARGV[7] + 1, now + ARGV[8]))
local claim = string.format('once1 %s %.0f %.0f %.0f %s %s %s 0 %.0f ', takeover == 1 and 't' or 'r', fence, number, ends_at, ARGV[4], ARGV[5], ARGV[6], #ARGV[1]) .. ARGV[1]
redis.call('SET', KEYS[1], claim, 'PXAT', string.format('%.0f', math.ceil((ends_at + ARGV[4] + ARGV[5]) / 1000)))
return {now, 'claimed', fence, number, takeover}
