-- Keeps a definition of an owner, or nothing any more. KEYS: the definitions, a hash;
-- the owner's version and floor, a hash; the keys that were changed last, in order of
-- their versions; until when those last that do not for good, a hash. ARGV: the key; '1'
-- if there is a value; the value; for how many microseconds, or ''; the channel on which
-- others are told.
--
-- A version is the server's clock in microseconds, and one more where that stands: it
-- grows also after a failover that has lost the last ones. Either of the two that have it
-- may be lost without the other, where a full server evicts keys: then the last version of
-- one is not that of the other, and whoever knows less than the next is given everything.
local MOST_CHANGES = 4096
local own, known, changes, ends = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local key, lasts = ARGV[1], tonumber(ARGV[4])

local function number(n)
  return string.format('%.0f', n)
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if ARGV[2] == '0' then
  if redis.call('HDEL', own, key) == 0 then
    return 0
  end
  redis.call('HDEL', ends, key)
else
  redis.call('HSET', own, key, ARGV[3])
  redis.call('HDEL', ends, key)
end
if lasts then
  -- Those that are over are over everywhere: nobody needs to be told.
  local all = redis.call('HGETALL', ends)
  for at = 1, #all, 2 do
    if tonumber(all[at + 1]) <= now then
      redis.call('HDEL', own, all[at])
      redis.call('HDEL', ends, all[at])
    end
  end
  redis.call('HSET', ends, key, number(math.min(now + lasts, 9007199254740992)))
end

local before = tonumber(redis.call('HGET', known, 'version'))
local version = math.max(now, (before or 0) + 1)
if tonumber(redis.call('ZRANGE', changes, -1, -1, 'WITHSCORES')[2] or nil) ~= before or not before then
  redis.call('DEL', changes)
  redis.call('HSET', known, 'floor', number(version - 1))
end
redis.call('ZADD', changes, number(version), key)
redis.call('HSET', known, 'version', number(version))
local surplus = redis.call('ZCARD', changes) - MOST_CHANGES
if surplus > 0 then
  local last = redis.call('ZRANGE', changes, surplus - 1, surplus - 1, 'WITHSCORES')
  redis.call('HSET', known, 'floor', number(tonumber(last[2])))
  redis.call('ZREMRANGEBYRANK', changes, 0, surplus - 1)
end
-- Who is not told looks.
redis.pcall('PUBLISH', ARGV[5], number(version))
return 1
