-- What was used, hour by hour (`store/src/usage.rs`, and `decide/used.rs` there). One hash of a
-- root has the records, by field: the hour and the length of the row's name, each as four bytes,
-- the name, and the limit's. One sorted set has the fields in order, by which records are
-- listed, and go when they are over: field by field what came in is there in both. The field ''
-- of the hash is no record: it has for how long they were kept after their hour when one was made
-- last, for who does not count any more.
-- What others call of it: a server's function has 200 local names at most.
local usage = {}

do
local HOUR = 3600000000
local MOST_USED = '9223372036854775807'
local MOST_DROPPED = 32

-- The records and their order, if the plan counts; and what this call has noted, in its order:
-- fields, hours, amounts.
local USAGE, ORDER, used

-- A call begins. Answers where its rows do among the keys.
function usage.begin()
  used = {}
  if not plan.usage then
    USAGE, ORDER = nil, nil
    return 5
  end
  USAGE, ORDER = keys[5], keys[6]
  return 7
end

-- When the records of an hour are over.
local function over_at(hour)
  return later((hour + 1) * HOUR, plan.usage[1])
end

-- Notes that so much more, or less, was used of a limit, the plan's at `position`, in the hour
-- of an instant. Nothing is, where it is held.
function usage.more(revision, owner, position, at, amount)
  local limit = (revision.common or revision.limits)[position]
  if amount == 0 or limit.kind == SLOTS then return end
  local name = row_name(owner, limit.level, revision.levels)
  local hour = max(math.floor(at / HOUR), 0)
  if not name then return end
  local field = struct.pack('>I4I4', hour, #name) .. name .. revision.usage[position + 1]
  used[#used + 1] = { field, hour, amount }
end

-- A take, a debit or a lease has charged those of its parts that are admitted.
function usage.of_parts(parts, now)
  if not plan.usage then return end
  for i, part in ipairs(parts) do
    if part.verdict == ADMIT then usage.more(plan, request.key, i, now, part.amount) end
  end
end

-- Whether what a lease uses is counted: it was granted by a plan that does.
function usage.is_counted(revision, record)
  return revision.usage and record.counted
end

-- A lease has ended with these uses. What its limits gave back when it expired was taken out
-- then.
function usage.at_end(record, uses)
  for _, use in ipairs(uses) do
    local limit, position = limit_of(plan.limits, use[1])
    if limit then
      local is_back = limit.refund and record.stage == EXPIRED
      local more = use[3] - (is_back and 0 or use[2])
      usage.more(plan, record.owner, position, record.granted_at, more)
    end
  end
end

-- Adds one of them; whether there is a new record.
local function add(field, amount)
  local now_used = redis.pcall('HINCRBY', USAGE, field, whole(amount))
  if type(now_used) ~= 'number' then
    redis.call('HSET', USAGE, field, MOST_USED)
  elseif now_used < 0 then
    redis.call('HSET', USAGE, field, '0')
  end
  return now_used == amount or now_used == 0
end

-- Keeps what was used, in the step in which it was; drops some of what is over.
function usage.save(now)
  if not used[1] or not USAGE then return end
  local has_new = false
  for _, more in ipairs(used) do
    local field, hour, amount = unpack(more)
    -- What is over is not noted again.
    if over_at(hour) > now and add(field, amount) then
      redis.call('ZADD', ORDER, '0', field)
      has_new = true
    end
  end
  if not has_new then return end
  redis.call('HSET', USAGE, '', whole(plan.usage[1]))
  local oldest = max(math.floor((now - plan.usage[1]) / HOUR), 0)
  local before = '(' .. struct.pack('>I4', oldest)
  local over = redis.call('ZRANGEBYLEX', ORDER, '-', before, 'LIMIT', '0', MOST_DROPPED)
  if over[1] then
    redis.call('HDEL', USAGE, unpack(over))
    redis.call('ZREM', ORDER, unpack(over))
  end
  if request.clock == 'caller' then return end
  local last = redis.call('ZREVRANGEBYLEX', ORDER, '+', '-', 'LIMIT', '0', '1')
  if not last[1] then return end
  local until_ms = whole(math.ceil(over_at(struct.unpack('>I4', last[1])) / 1000))
  redis.call('PEXPIREAT', USAGE, until_ms)
  redis.call('PEXPIREAT', ORDER, until_ms)
end
end
