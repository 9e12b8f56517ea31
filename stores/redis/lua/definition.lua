-- What is defined under a key of an owner's, and its ancestors' definitions, the nearest first.
-- KEYS: the definitions; ARGV: the key; how many ancestors at most; where a value has its parent's
-- key (`Definition::parent_key`; what is no whole key is found out there). Answers keys, their
-- versions, values, and for how many microseconds more they last (or nothing).
local now, most, parent_offset = clock(), tonumber(ARGV[2]), tonumber(ARGV[3])
local keys, versions, values, lefts = {}, {}, {}, {}
local key = ARGV[1]
while key and #keys <= most do
  local version, ends, value = parts(redis.call('HGET', KEYS[1], key), now)
  if not version then break end
  local n = #keys + 1
  keys[n], versions[n], values[n], lefts[n] = key, number(version), value, left(ends, now)
  key = false
  if #value >= parent_offset + 5 and string.byte(value, parent_offset + 1) == 1 then
    local length, at = struct.unpack('<I4', value, parent_offset + 2)
    key = string.sub(value, at, at + length - 1)
  end
end
return { keys, versions, values, lefts }
