-- Some of the roots under which something was used, in the order of their bytes. KEYS: as in
-- root.lua. ARGV: from where to where, as `ZRANGEBYLEX` takes it; how many at most; the instant,
-- or '' for the server's now.
local ROOTS, UNTIL = KEYS[1], KEYS[2]
local NEVER = 9007199254740992
-- One of the two was evicted without the other, where a server is full.
if redis.call('ZCARD', ROOTS) ~= redis.call('ZCARD', UNTIL) then
  local now = tonumber(ARGV[4])
  if not now then
    local time = redis.call('TIME')
    now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  end
  local left = math.max(redis.call('PTTL', ROOTS), redis.call('PTTL', UNTIL))
  -- Until the last of them goes.
  local last = string.format('%.0f', left > 0 and now + 1000 * left or NEVER)
  for _, root in ipairs(redis.call('ZRANGE', ROOTS, 0, -1)) do
    redis.call('ZADD', UNTIL, 'NX', last, root)
  end
  for _, root in ipairs(redis.call('ZRANGE', UNTIL, 0, -1)) do
    redis.call('ZADD', ROOTS, 0, root)
  end
  if left > 0 then
    redis.call('PEXPIRE', ROOTS, left)
    redis.call('PEXPIRE', UNTIL, left)
  end
end
return redis.call('ZRANGEBYLEX', ROOTS, ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
