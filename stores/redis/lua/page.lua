-- Definitions of an owner in the order of their keys. KEYS: the definitions; the keys in order
-- of their bytes. ARGV: from where to where, as `ZRANGEBYLEX` takes it; how many at most.
-- Answers the last key looked at if there are more (or nothing); then keys, their versions,
-- values, and for how many microseconds more they last (or nothing).
local own, index, most = KEYS[1], KEYS[2], tonumber(ARGV[3])
local now = clock()
-- One of the two was evicted without the other, where a server is full.
if redis.call('ZCARD', index) ~= redis.call('HLEN', own) then
  redis.call('DEL', index)
  for _, key in ipairs(redis.call('HKEYS', own)) do redis.call('ZADD', index, 0, key) end
end
local found = redis.call('ZRANGEBYLEX', index, ARGV[1], ARGV[2], 'LIMIT', 0, most + 1)
local keys, versions, values, lefts = {}, {}, {}, {}
for at = 1, math.min(#found, most) do
  local version, ends, value = parts(redis.call('HGET', own, found[at]), now)
  if version then
    local n = #keys + 1
    keys[n], versions[n], values[n], lefts[n] = found[at], number(version), value, left(ends, now)
  end
end
return { #found > most and found[most], keys, versions, values, lefts }
