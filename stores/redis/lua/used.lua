-- Some of what was used under a root, in the order of its records, to which is added what its row has
-- counted. KEYS: the records, their order; the order of time of its leases; its row. ARGV: from where to
-- where, as `ZRANGEBYLEX` takes it; how many at most; for how long records are kept after their hour, or
-- '' if nothing is counted any more; the instant, or '' for the server's now. Answers the last field
-- looked at if there are more (or nothing); whether something of the leases is due; then each field and
-- what was used.
local NEVER = 9007199254740992
local USAGE, ORDER, ROW = KEYS[1], KEYS[2], KEYS[4]
local most, keep, now = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local is_callers = now ~= nil
if not is_callers then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- Adds to the records what the row has counted, if that is anything. The row then stays for as long as its
-- limits need it.
local function record_row(row)
  local numbers, last, rest_at = flat_row.read(row)
  local used, is_any = flat_row.used(row, numbers, last, rest_at), false
  for i, amount in ipairs(used.amounts) do
    is_any = is_any or amount ~= 0
    numbers[last - #used.amounts + i] = 0
  end
  if not is_any then return end
  -- Who lists may know an older plan: what it moves is kept for as long as the row was to be.
  local kept = math.max(struct.unpack('<d', used.retention_and_names), keep or 0)
  usage.record(USAGE, ORDER, used.retention_and_names, used.amounts, used.hour, now, is_callers, kept)
  -- A second longer, as every row: a batch goes on by an instant before its limits had recovered.
  local forget_at = used.forget_at + 1000000
  if forget_at <= now and not is_callers then
    redis.call('DEL', ROW)
    return
  end
  -- The next that writes it sets its TTL anew.
  numbers[5] = 0
  local rest = string.sub(row, numbers[last + 1])
  row = struct.pack(flat_row.format(numbers[2], true), unpack(numbers, 1, last)) .. rest
  redis.call('SET', ROW, row)
  if forget_at < NEVER and not is_callers then
    redis.call('PEXPIREAT', ROW, string.format('%.0f', math.ceil(forget_at / 1000)))
  end
end

local row = redis.call('GET', ROW)
if row and string.byte(row) == FLAT_COUNTED then record_row(row) end
local kept = redis.call('HGET', USAGE, '')
keep = keep or tonumber(kept)
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
  if not keep or usage.over_at(hour, keep) > now then
    reply[#reply + 1], reply[#reply + 2] = field, redis.call('HGET', USAGE, field)
  end
end
return reply
