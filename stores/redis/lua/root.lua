-- Enters a root in the order of those under which something was used, before it is. KEYS: the
-- order; until when each stays there. ARGV: the root; for how long records are kept after their
-- hour; the instant, or '' for the server's now; '1' if what is over is to be dropped, too, or '' if only
-- where the keys are to be kept for longer. Who goes on using a root
-- enters it again within a day (`src/roots.rs`), and others may keep records for longer: so a root
-- stays for two days more than the longest that it was entered for, and then has no record.
local ROOTS, UNTIL = KEYS[1], KEYS[2]
local TWO_DAYS, MOST_DROPPED = 172800000000, 32
local root, keep, now = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local is_callers = now
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local stays_until = now + keep + TWO_DAYS
redis.call('ZADD', ROOTS, '0', root)
redis.call('ZADD', UNTIL, 'GT', string.format('%.0f', stays_until), root)
-- A day more, so that not each of them has to say so.
local left_ms, more_ms = math.ceil((keep + TWO_DAYS) / 1000), 86400000
if ARGV[4] == '' and redis.call('PTTL', UNTIL) >= left_ms then return 1 end
local over = redis.call('ZRANGEBYSCORE', UNTIL, '-inf', string.format('(%.0f', now), 'LIMIT', '0', MOST_DROPPED)
if over[1] then
  redis.call('ZREM', ROOTS, unpack(over))
  redis.call('ZREM', UNTIL, unpack(over))
end
if is_callers then return 1 end
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) < left_ms then
    redis.call('PEXPIRE', key, string.format('%.0f', left_ms + more_ms))
  end
end
return 1
