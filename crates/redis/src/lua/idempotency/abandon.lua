-- abandon: ends a claim without a result: undone, the key is open, or lapsed after a takeover; crashed, its lease ends now.
-- KEYS: main
-- ARGV: token, how
-- Reply: {now, 'wrongtype', index, side} | {now, 'gone'} | {now, 'settled'} | {now, 'taken', holder, length} | {now, 'abandoned'}
-- Invariants: 2, 3, 4, 7. Repeating it is harmless.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

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
if token ~= ARGV[1] then return {now, 'taken', token, length} end
if state == 'c' then return {now, 'settled'} end
if runs then
  if ARGV[2] == 'crashed' or state == 't' then
    ends = math.min(ends, ARGV[2] == 'crashed' and now or math.max(now - hold, 0))
    kept_until = ends + hold + retain
  else
    state, ends = 'o', math.min(now + retain, 8940000000000000)
    kept_until = ends
  end
  local record = string.format('once1 %s %.0f %.0f %.0f %.0f %.0f %s 0 %.0f ', state, fence, attempt, ends, hold, retain, print, length) .. token
  redis.call('SET', KEYS[1], record, 'PXAT', string.format('%.0f', math.ceil(kept_until / 1000)))
end
return {now, 'abandoned'}
