-- Some of what was used under a root, in the order of its records. KEYS: the records, their
-- order; the order of time of its leases. ARGV: from where to where, as `ZRANGEBYLEX` takes it; how many at most; for how long
-- records are kept after their hour, or '' if nothing is counted any more; the instant, or '' for the
-- server's now. Answers the last field looked at if there are more (or nothing); whether something of
-- the leases is due; then each field and what was used.
local USAGE, ORDER = KEYS[1], KEYS[2]
local most, keep, now = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local kept = redis.call('HGET', USAGE, '')
keep = keep or tonumber(kept)
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
-- One of the two was evicted without the other, where a server is full.
if redis.call('ZCARD', ORDER) + (kept and 1 or 0) ~= redis.call('HLEN', USAGE) then
  redis.call('DEL', ORDER)
  for _, field in ipairs(redis.call('HKEYS', USAGE)) do
    if field ~= '' then redis.call('ZADD', ORDER, 0, field) end
  end
  local left = redis.call('PTTL', USAGE)
  if left > 0 then redis.call('PEXPIRE', ORDER, left) end
end
local found = redis.call('ZRANGEBYLEX', ORDER, ARGV[1], ARGV[2], 'LIMIT', 0, most)
local due = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now), 'LIMIT', 0, 1)
local reply = { #found == most and found[most], #due }
for _, field in ipairs(found) do
  local hour = struct.unpack('>I4', field)
  if not keep or (hour + 1) * 3600000000 + keep > now then
    reply[#reply + 1], reply[#reply + 2] = field, redis.call('HGET', USAGE, field)
  end
end
return reply
