-- Enters a root in the order of those under which something was used, before it is. KEYS: the
-- order; when each was entered. ARGV: the root; for how long records are kept after their hour;
-- the instant, or '' for the server's now. Who goes on using a root enters it again within a
-- day (`src/roots.rs`). So one that was entered two days before all that is kept has no
-- record, and goes.
local ROOTS, SINCE = KEYS[1], KEYS[2]
local TWO_DAYS, MOST_DROPPED = 172800000000, 32
local root, keep, now = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local is_callers = now
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
redis.call('ZADD', ROOTS, '0', root)
redis.call('ZADD', SINCE, string.format('%.0f', now), root)
local before = string.format('(%.0f', now - keep - TWO_DAYS)
local over = redis.call('ZRANGEBYSCORE', SINCE, '-inf', before, 'LIMIT', '0', MOST_DROPPED)
if over[1] then
  redis.call('ZREM', ROOTS, unpack(over))
  redis.call('ZREM', SINCE, unpack(over))
end
if is_callers then return 1 end
local until_ms = string.format('%.0f', (now + keep + TWO_DAYS) / 1000)
redis.call('PEXPIREAT', ROOTS, until_ms)
redis.call('PEXPIREAT', SINCE, until_ms)
return 1
