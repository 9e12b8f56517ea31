-- The records of what was used, hour by hour (usage.lua says what they are, and has the rest of this).
-- What others call of it: a server's function has 200 local names at most.
local usage = {
  -- The marks of what a lease has taken that is counted, on the only level that there is: twice that.
  ON_FIRST_LEVEL = 2,
}

do
local HOUR = 3600000000
local MOST_USED = '9223372036854775807'
local MOST_DROPPED = 32

function usage.hour_of(at)
  return math.max(math.floor(at / HOUR), 0)
end

-- When the records of an hour are over.
function usage.over_at(hour, keep)
  return math.min((hour + 1) * HOUR + keep, NEVER)
end

-- Adds to a record, or takes from it; notes it in the order if it is new, and says whether it is.
function usage.add(records, order, field, amount)
  local used = redis.pcall('HINCRBY', records, field, string.format('%.0f', amount))
  if type(used) ~= 'number' then
    redis.call('HSET', records, field, MOST_USED)
  elseif used < 0 then
    redis.call('HSET', records, field, '0')
  end
  if used ~= amount and used ~= 0 then return false end
  redis.call('ZADD', order, '0', field)
  return true
end

-- Has them kept until those of this hour are over.
local function expire(records, order, hour, keep, is_callers)
  if is_callers then return end
  local until_ms = string.format('%.0f', math.ceil(usage.over_at(hour, keep) / 1000))
  redis.call('PEXPIREAT', records, until_ms)
  redis.call('PEXPIREAT', order, until_ms)
end

-- There are new records, the latest of that hour: drops some of what is over, and has the others
-- kept for as long as the last of them.
function usage.keep(records, order, hour, keep, now, is_callers)
  if redis.call('HSET', records, '', string.format('%.0f', keep)) == 1 then
    -- They are the first: nothing is over, and the last is the only one.
    return expire(records, order, hour, keep, is_callers)
  end
  local oldest = math.max(math.floor((now - keep) / HOUR), 0)
  local before = '(' .. struct.pack('>I4', oldest)
  local over = redis.call('ZRANGEBYLEX', order, '-', before, 'LIMIT', '0', MOST_DROPPED)
  if over[1] then
    redis.call('HDEL', records, unpack(over))
    redis.call('ZREM', order, unpack(over))
  end
  local last = redis.call('ZREVRANGEBYLEX', order, '+', '-', 'LIMIT', '0', '1')
  if last[1] then expire(records, order, struct.unpack('>I4', last[1]), keep, is_callers) end
end

-- Counts what the short ways have changed, by the position of the limit: so much more, or less, in the
-- hour of `at`. What is over is not counted again. `counted` is for how long records are kept after
-- their hour, a double, and for each limit what its field has behind the hour, after its length.
function usage.count(records, order, counted, changes, at, now, is_callers)
  local keep, from = struct.unpack('<d', counted)
  local hour, has_new = usage.hour_of(at), false
  if usage.over_at(hour, keep) <= now then return end
  local bytes
  for i = 1, #changes do
    bytes, from = struct.unpack('<I4', counted, from)
    if changes[i] ~= 0 then
      local field = struct.pack('>I4', hour) .. string.sub(counted, from, from + bytes - 1)
      if usage.add(records, order, field, changes[i]) then has_new = true end
    end
    from = from + bytes
  end
  if has_new then usage.keep(records, order, hour, keep, now, is_callers) end
end
end
