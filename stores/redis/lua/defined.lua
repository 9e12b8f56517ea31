-- What has changed of an owner's definitions. KEYS are those of `define.lua`; ARGV: the
-- version that is known; '1' if keys alone are to be told. Answers the version, as text; 1 if
-- all that was known is to be forgotten, where the caller walks through what there is, and 0
-- if not; the server's clock, as text; then keys that have changed, their versions, their
-- values (or nothing), and for how many microseconds more they last, as text (or nothing).
local own, known, changes = KEYS[1], KEYS[2], KEYS[3]
local newer_than = tonumber(ARGV[1])
local now = clock()
local marks = redis.call('HMGET', known, 'version', 'floor')
local version, floor = tonumber(marks[1] or nil) or 0, tonumber(marks[2] or nil) or 0
local last = tonumber(redis.call('ZRANGE', changes, -1, -1, 'WITHSCORES')[2] or nil) or 0
local is_whole = newer_than == 0 or newer_than < floor or newer_than > version or last ~= version

local keys, versions, values, lefts = {}, {}, {}, {}
if not is_whole then
  local since = string.format('(%.0f', newer_than)
  local found = redis.call('ZRANGEBYSCORE', changes, since, '+inf', 'WITHSCORES')
  for at = 1, #found, 2 do
    local n = #keys + 1
    keys[n], versions[n], values[n], lefts[n] = found[at], number(tonumber(found[at + 1])), false, false
    if ARGV[2] ~= '1' then
      local _, ends, value = parts(redis.call('HGET', own, found[at]), now)
      if value then values[n], lefts[n] = value, left(ends, now) end
    end
  end
end
return { number(version), is_whole and 1 or 0, number(now), keys, versions, values, lefts }
