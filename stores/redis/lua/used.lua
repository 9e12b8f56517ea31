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
-- They are in no order, or one of the two was evicted without the other, where a server is full.
local count = redis.call('HLEN', USAGE) - (kept and 1 or 0)
local is_ordered = redis.call('ZCARD', ORDER) == count
if not is_ordered then
  redis.call('DEL', ORDER)
  usage.order_all(USAGE, ORDER)
end
local found = redis.call('ZRANGEBYLEX', ORDER, ARGV[1], ARGV[2], 'LIMIT', 0, most)
if not is_ordered and count <= usage.MOST_UNORDERED then redis.call('DEL', ORDER) end
local due = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now), 'LIMIT', 0, 1)
local reply = { #found == most and found[most], #due }
for _, field in ipairs(found) do
  local hour = struct.unpack('>I4', field)
  if not keep or (hour + 1) * 3600000000 + keep > now then
    reply[#reply + 1], reply[#reply + 2] = field, redis.call('HGET', USAGE, field)
  end
end
return reply
