-- What has changed of an owner's definitions. KEYS are those of `define.lua`; ARGV: the
-- version that is known. Answers the version, as text; 1 if that says everything, which
-- the caller then walks through, and 0 if not; then keys, their values (or nothing), and
-- for how many microseconds more they last, as text (or nothing): those that have
-- changed, or, of everything, those that do not last for good.
local own, known, changes, ends = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local newer_than = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local marks = redis.call('HMGET', known, 'version', 'floor')
local version, floor = tonumber(marks[1]) or 0, tonumber(marks[2]) or 0
local last = tonumber(redis.call('ZRANGE', changes, -1, -1, 'WITHSCORES')[2] or nil) or 0
local is_whole = newer_than == 0 or newer_than < floor or newer_than > version or last ~= version

local keys, values, left = {}, {}, {}
local function add(key, value, at)
  keys[#keys + 1] = key
  left[#keys] = at and string.format('%.0f', math.max(at - now, 0))
  values[#keys] = value
end

if is_whole then
  local all = redis.call('HGETALL', ends)
  for at = 1, #all, 2 do
    add(all[at], false, tonumber(all[at + 1]))
  end
else
  local since = string.format('(%.0f', newer_than)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', changes, since, '+inf')) do
    local at = tonumber(redis.call('HGET', ends, key) or nil)
    add(key, redis.call('HGET', own, key), at or false)
  end
end
return { string.format('%.0f', version), is_whole and 1 or 0, keys, values, left }
