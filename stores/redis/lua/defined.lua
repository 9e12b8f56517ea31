-- What has changed of an owner's definitions. KEYS are those of `define.lua`; ARGV: the
-- version that is known; '1' if keys alone are to be told. Answers the version, as text; 1 if
-- the known one is among the changes, and 0 if not; the server's clock, as text; then, if it
-- is, keys that have changed, their versions, their values (or nothing), and for how many
-- microseconds more they last, as text (or nothing).
local own, changes = KEYS[1], KEYS[2]
local known = number(tonumber(ARGV[1]))
local now = clock()
local is_noted = redis.call('ZCOUNT', changes, known, known) > 0

local keys, versions, values, lefts, seen = {}, {}, {}, {}, {}
if is_noted then
  local found = redis.call('ZRANGEBYSCORE', changes, '(' .. known, '+inf')
  for at = #found, 1, -1 do
    local _, last, version = string.find(found[at], '^(%d+) ')
    local key = string.sub(found[at], last + 1)
    if not seen[key] then
      local n = #keys + 1
      seen[key], keys[n], versions[n], values[n], lefts[n] = true, key, version, false, false
      if ARGV[2] ~= '1' then
        local _, ends, value = parts(redis.call('HGET', own, key), now)
        if value then values[n], lefts[n] = value, left(ends, now) end
      end
    end
  end
end
return { number(last_version(changes)), is_noted and 1 or 0, number(now), keys, versions, values, lefts }
