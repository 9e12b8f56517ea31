-- Some of a root's leases that are held, in the order in which they are due.
-- KEYS: the ledger, its order of time. ARGV: after which place (an instant and a
-- number); how many are looked at; the instant, or '' for the server's now.
-- Answers the instant; whether there may be more; the place of the last that was
-- looked at; then each lease: owner, id, expiry, fence, whether it is known when
-- it was granted, when, and of each share uid and amount.
local LEDGER, DUE = KEYS[1], KEYS[2]
local number, most = tonumber(ARGV[2]), tonumber(ARGV[3])

local now = tonumber(ARGV[4])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function number_of(member)
  return (struct.unpack('>I8', member))
end

-- How many entries are not after the place. Those due at one instant are in the
-- order of their numbers.
local low = redis.call('ZCOUNT', DUE, '-inf', '(' .. ARGV[1])
local high = redis.call('ZCOUNT', DUE, '-inf', ARGV[1])
while low < high do
  local middle = math.floor((low + high) / 2)
  if number_of(redis.call('ZRANGE', DUE, middle, middle)[1]) <= number then
    low = middle + 1
  else
    high = middle
  end
end

local found = redis.call('ZRANGE', DUE, low, low + most - 1, 'WITHSCORES')
local reply = { now, #found == 2 * most and 1 or 0, ARGV[1], number }
for i = 1, #found, 2 do
  local member = found[i]
  reply[3], reply[4] = string.format('%.0f', tonumber(found[i + 1])), number_of(member)
  local id = string.sub(member, 9)
  local bytes = redis.call('HGET', LEDGER, 'l' .. id)
  if bytes then
    local stage, expires_at, fence, _, _, granted_at, owner, _, shares, at = unpack_lease(bytes)
    if stage == LIVE and expires_at > now then
      local lease = { owner, id, expires_at, fence, granted_at }
      for share_at = at, at + shares - 1, SHARE_BYTES do
        local uid, amount = struct.unpack('<' .. SHARE, bytes, share_at)
        table.insert(lease, uid)
        table.insert(lease, amount)
      end
      table.insert(reply, lease)
    end
  end
end
return reply
