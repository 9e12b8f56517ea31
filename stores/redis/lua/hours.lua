-- The records of what was used, hour by hour (usage.lua says what they are, and has the rest of this).
-- What others call of it: a server's function has 200 local names at most.
local usage = {
  -- The marks of what a lease has taken that is counted, on the only level that there is: twice that.
  ON_FIRST_LEVEL = 2,
  -- Up to so many records of a root are in no order: it takes as much memory as they do, and is soon made.
  MOST_UNORDERED = 64,
}

do
local NEVER = 9007199254740992
local HOUR = 3600000000
local MOST_USED = '9223372036854775807'
local MOST_DROPPED = 32
-- Of so many records without an order one looks for what is over.
local SWEEP = 8

function usage.hour_of(at)
  return at > 0 and (at - at % HOUR) / HOUR or 0
end

-- When the records of an hour are over.
function usage.over_at(hour, keep)
  return math.min((hour + 1) * HOUR + keep, NEVER)
end

-- Adds to a record, or takes from it, and says whether it is new. Less than nothing was used by no name:
-- where it takes, all of that hour is in the records.
function usage.add(records, field, amount)
  local used = redis.pcall('HINCRBY', records, field, string.format('%.0f', amount))
  if type(used) ~= 'number' then
    redis.call('HSET', records, field, MOST_USED)
  elseif used < 0 then
    redis.call('HSET', records, field, '0')
  end
  return used == amount or used == 0
end

-- Puts all records of a root in order, which goes when they do.
function usage.order_all(records, order)
  for _, field in ipairs(redis.call('HKEYS', records)) do
    if field ~= '' then redis.call('ZADD', order, '0', field) end
  end
  local left = redis.call('PTTL', records)
  if left > 0 then redis.call('PEXPIRE', order, string.format('%.0f', left)) end
end

-- Drops what is over of records without an order, one of which is of `hour`, and answers the latest hour
-- of the others.
local function sweep(records, hour, keep, now)
  local over = {}
  for _, field in ipairs(redis.call('HKEYS', records)) do
    local its = field ~= '' and struct.unpack('>I4', field) or hour
    if usage.over_at(its, keep) > now then
      hour = math.max(hour, its)
    else
      over[#over + 1] = field
    end
  end
  if over[1] then redis.call('HDEL', records, unpack(over)) end
  return hour
end

-- Has them kept until those of this hour are over.
local function expire(keys, hour, keep, is_callers)
  if is_callers then return end
  local until_ms = string.format('%.0f', math.ceil(usage.over_at(hour, keep) / 1000))
  for _, key in ipairs(keys) do redis.call('PEXPIREAT', key, until_ms) end
end

-- There are new records, of these fields, the latest of that hour: has all of them kept for as long as
-- the last, and drops some of what is over.
function usage.keep(records, order, new, hour, keep, now, is_callers)
  -- None is new: it is all said, unless they were to be kept for another time.
  if not new[1] and redis.call('HGET', records, '') == string.format('%.0f', keep) then return end
  if redis.call('HSET', records, '', string.format('%.0f', keep)) == 1 then
    -- They are the first: nothing is over, the last is the only one, and an order is of those before.
    redis.call('DEL', order)
    return expire({ records }, hour, keep, is_callers)
  end
  local count, ordered = redis.call('HLEN', records) - 1, redis.call('ZCARD', order)
  if ordered > 0 then
    for _, field in ipairs(new) do ordered = ordered + redis.call('ZADD', order, '0', field) end
    -- The two keys differ: an older program wrote, or the server was full and dropped one.
    if ordered ~= count then
      redis.call('DEL', order)
      ordered = 0
    end
  end
  if ordered == 0 and count <= usage.MOST_UNORDERED then
    -- One of the present hour is the latest.
    if count % SWEEP == 0 or hour < usage.hour_of(now) then hour = sweep(records, hour, keep, now) end
    return expire({ records }, hour, keep, is_callers)
  elseif ordered == 0 then
    usage.order_all(records, order)
  end
  local oldest = math.max(math.floor((now - keep) / HOUR), 0)
  local before = '(' .. struct.pack('>I4', oldest)
  local over = redis.call('ZRANGEBYLEX', order, '-', before, 'LIMIT', '0', MOST_DROPPED)
  if over[1] then
    redis.call('HDEL', records, unpack(over))
    redis.call('ZREM', order, unpack(over))
  end
  local last = redis.call('ZREVRANGEBYLEX', order, '+', '-', 'LIMIT', '0', '1')
  if last[1] then expire({ records, order }, struct.unpack('>I4', last[1]), keep, is_callers) end
end

-- Adds to the records what was used, by the position of the limit: so much more, or less, in that hour.
-- What is over is not counted again. `retention_and_names` is for how long records are kept after their
-- hour, a double, and for each limit what its field has behind the hour, after its length; `retention`
-- is for how long instead, if that is said.
function usage.record(records, order, retention_and_names, changes, hour, now, is_callers, retention)
  local keep, from = struct.unpack('<d', retention_and_names)
  local new, is_any = {}, false
  keep = retention or keep
  if usage.over_at(hour, keep) <= now then return end
  local bytes
  for i = 1, #changes do
    bytes, from = struct.unpack('<I4', retention_and_names, from)
    if changes[i] ~= 0 then
      is_any = true
      local field = struct.pack('>I4', hour) .. string.sub(retention_and_names, from, from + bytes - 1)
      if usage.add(records, field, changes[i]) then new[#new + 1] = field end
    end
    from = from + bytes
  end
  if is_any then usage.keep(records, order, new, hour, keep, now, is_callers) end
end
end
