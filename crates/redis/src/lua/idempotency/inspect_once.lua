-- inspect_once: what is kept of one key. Changes nothing; runs as a read-only script.
-- KEYS: main
-- ARGV: none
-- Reply: {now, 'wrongtype', index, side} | {now, 'none'} | {now, 'seen', phase, holder, length, fence, attempt, left_us, result_bytes, whole} with phase 'running', 'lapsed', 'unknown', 'completed' or 'open', and result_bytes -1 for no result
-- Invariants: 2, 3. A result is not read.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- A record without its result has at most 433 bytes.
local text = redis.pcall('GETRANGE', KEYS[1], 0, 511)
if type(text) == 'table' then
  if not string.find(text.err, 'WRONGTYPE', 1, true) then return text end
  return {now, 'wrongtype', 0, 0}
end
local size = #text
if size == 0 and not redis.call('GET', KEYS[1]) then return {now, 'none'} end
if size == 512 then size = redis.call('STRLEN', KEYS[1]) end

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
local runs, kept_until = state == 'r' or state == 't', ends
if runs then kept_until = ends + hold + retain end

if now >= kept_until then return {now, 'none'} end
local phase, till, bytes = 'lapsed', kept_until, -1
if state == 'c' then
  phase, bytes = 'completed', size - start + 1 - length
elseif state == 'o' then
  phase = 'open'
elseif now < ends then
  phase, till = 'running', ends
elseif now < ends + hold then
  phase, till = 'unknown', ends + hold
end
return {now, 'seen', phase, token, length, fence, attempt, till - now, bytes, tonumber(whole)}
