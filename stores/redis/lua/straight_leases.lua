-- What the straight way needs of leases alone: a script of takes goes without it.

-- Of so many that are due one take looks after.
local MOST_SWEPT = 32

-- How what is asked of leases is read, and what is kept of them.
local function read_leases(limits)
  local numbers = string.rep('d', limits.count)
  limits.lease, limits.finish = limits.take .. 'dc16', '<BBdBc16' .. numbers
  limits.partial = limits.lease .. numbers
  limits.shares, limits.uses = {}, {}
  for i = 0, limits.count do
    limits.shares[i], limits.uses[i] = '<' .. string.rep(SHARE, i), '<B' .. string.rep(USE, i)
  end
end

-- What is due. (A function has 200 local names at most.)
local retiring = {}

-- Some of what is due by now, as `retire` has it: what is to be forgotten (`members` of the order of
-- time, `fields` of records), and what has expired (`places`: until when it is remembered, and its
-- member; `records`: field and record). Nothing is written yet. False if nothing is due; nil if
-- the whole script is to see to it, since something comes back or is noted with it.
function retiring.find(now, limits, head, ledger, due)
  local members = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', '0', MOST_SWEPT)
  if not members[1] then return false end
  local fields = {}
  for i, member in ipairs(members) do
    if #member > 24 then return nil end
    fields[i] = 'l' .. string.sub(member, 9)
  end
  local over = { members = {}, fields = {}, places = {}, records = {} }
  for i, record in ipairs(redis.call('HMGET', ledger, unpack(fields))) do
    local has_expired = record and string.byte(record) % COUNTED == LIVE
    local until_at = now
    if has_expired then
      local _, expires_at, _, _, number, _, _, idempotency = struct.unpack(RECORD, record)
      -- By other limits something of it may come back; what was reset since is noted in it.
      if head[2] ~= limits[1] or head[4] > number or idempotency ~= NOT_IDEMPOTENT then return nil end
      until_at = min(expires_at + limits[2], NEVER)
      record = expired_lease(record, until_at)
    end
    if until_at > now then
      local n = #over.places
      over.places[n + 1], over.places[n + 2] = until_at, members[i]
      over.records[n + 1], over.records[n + 2] = fields[i], record
    else
      local n = #over.fields + 1
      over.members[n], over.fields[n] = members[i], fields[i]
    end
  end
  return over
end

-- Writes what was found.
function retiring.write(over, ledger, due)
  if over.places[1] then
    redis.call('ZADD', due, unpack(over.places))
    redis.call('HSET', ledger, unpack(over.records))
  end
  if over.fields[1] then
    redis.call('ZREM', due, unpack(over.members))
    redis.call('HDEL', ledger, unpack(over.fields))
  end
end

-- What was answered when the lease has ended; `at` is where that stands in its record.
local function answer_again(record, at, now)
  local reply = { 1, now, string.byte(record, at), 1 }
  for use_at = at + 1, #record, USE_BYTES do
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = struct.unpack('<' .. USE, record, use_at)
  end
  return reply
end
