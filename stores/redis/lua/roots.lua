-- Some of the roots under which something was used, in the order of their bytes. KEYS: as in
-- root.lua. ARGV: from where to where, as `ZRANGEBYLEX` takes it; how many at most; the instant,
-- or '' for the server's now.
local ROOTS, SINCE = KEYS[1], KEYS[2]
-- One of the two was evicted without the other, where a server is full.
if redis.call('ZCARD', ROOTS) ~= redis.call('ZCARD', SINCE) then
  local now = ARGV[4]
  if now == '' then
    local time = redis.call('TIME')
    now = string.format('%.0f', tonumber(time[1]) * 1000000 + tonumber(time[2]))
  end
  local left = math.max(redis.call('PTTL', ROOTS), redis.call('PTTL', SINCE))
  for _, root in ipairs(redis.call('ZRANGE', ROOTS, 0, -1)) do
    redis.call('ZADD', SINCE, 'NX', now, root)
  end
  for _, root in ipairs(redis.call('ZRANGE', SINCE, 0, -1)) do
    redis.call('ZADD', ROOTS, 0, root)
  end
  if left > 0 then
    redis.call('PEXPIRE', ROOTS, left)
    redis.call('PEXPIRE', SINCE, left)
  end
end
return redis.call('ZRANGEBYLEX', ROOTS, ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
