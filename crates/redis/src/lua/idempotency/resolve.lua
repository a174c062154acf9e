-- resolve: an operator says what became of exactly the attempt that was shown, if its lease has ended.
-- KEYS: main
-- ARGV: fence, token, not_after_us, retain_us, state, whole, result
-- Reply: {now, 'late'} | {now, 'wrongtype', index, side} | {now, 'gone'} | {now, 'changed', fence} | {now, 'running', holder, length, left_us} | {now, 'settled'} | {now, 'resolved'}
-- Invariants: 2, 3, 4, 7. Repeating it with the same token is harmless. It shortens no retention.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {now, 'late'} end

-- A record without its result has at most 433 bytes.
local text = redis.pcall('GETRANGE', KEYS[1], 0, 511)
if type(text) == 'table' then
  if not string.find(text.err, 'WRONGTYPE', 1, true) then return text end
  return {now, 'wrongtype', 0, 0}
end
local size = #text
if size == 0 and not redis.call('GET', KEYS[1]) then return {now, 'gone'} end
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

if now >= kept_until then return {now, 'gone'} end
if fence ~= tonumber(ARGV[1]) then return {now, 'changed', fence} end
if not runs then return {now, token == ARGV[2] and 'resolved' or 'settled'} end
if now < ends then return {now, 'running', token, length, ends - now} end
ends = math.max(math.min(now + ARGV[4], 8940000000000000), math.min(kept_until, 8940000000000000))
local record = string.format('once1 %s %.0f %.0f %.0f %.0f %.0f %s %s %.0f ', ARGV[5], fence, attempt, ends, hold, retain, print, ARGV[6], #ARGV[2])
  .. ARGV[2] .. ARGV[7]
redis.call('SET', KEYS[1], record, 'PXAT', string.format('%.0f', math.ceil(ends / 1000)))
return {now, 'resolved'}
