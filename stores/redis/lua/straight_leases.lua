-- What the straight way needs of leases alone: a script of takes goes without it.

-- So many that have ended are forgotten at once.
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

-- What has ended and may be forgotten: its places in the order of time, and the fields of
-- its records. Nothing if something else is due first, which is for the whole script.
local function ended_by(now, ledger, due)
  local members = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', '0', MOST_SWEPT)
  local fields = {}
  for i, member in ipairs(members) do
    if #member > 24 then return nil end
    fields[i] = 'l' .. string.sub(member, 9)
  end
  if not fields[1] then return false end
  for _, record in ipairs(redis.call('HMGET', ledger, unpack(fields))) do
    if record and string.byte(record) % COUNTED == LIVE then return nil end
  end
  return members, fields
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
