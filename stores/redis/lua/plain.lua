-- A take of several plain buckets without levels (`lone.lua` is about one): the
-- same arithmetic as `bucket.lua` and `compose.lua`, and nothing else. Whatever is
-- not as plain as that (a row of another revision or by limits of its own, leases
-- that may give back, numbers from 2^53 on, a clock that stands behind, somebody
-- who waits) answers false, and the whole script is called.
-- KEYS: the row, the order of those who wait. ARGV: one list in MessagePack: the
-- caller's now or false, 1 if standings are told with a refusal, 2 if always, the
-- revision, then drain, weight, brim, capacity of each bucket and what is asked of it.
local EXACT = 9007199254740992

if redis.call('EXISTS', KEYS[2]) == 1 then return false end
local ask = cmsgpack.unpack(ARGV[1])
local now, revision, last = ask[1], ask[3], #ask
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local cells = {}
local kept = redis.call('GET', KEYS[1])
if kept then
  local by, latest, own, retained
  by, latest, cells, own, retained = cmsgpack.unpack(kept)
  if by ~= revision or own or retained or now < latest then return false end
end

-- The levels, and the latest instant at which one of them lets the ask through.
local levels, verdict, at, binding, i = {}, 0, 0, -1, 0
for k = 4, last, 5 do
  i = i + 1
  local cell, level, drain, amount = cells[i] or 0, 0, ask[k], ask[k + 4]
  if cell ~= 0 then
    level = cell[2]
    if cell[4] or cell[5] or type(level) ~= 'number' or now < cell[3] then return false end
    local drained = (now - cell[3]) * drain
    level = drained < level and level - drained or 0
  end
  levels[i] = level
  if amount > 0 and verdict < 2 then
    local wanted, brim = level + amount * ask[k + 1], ask[k + 2]
    if wanted >= EXACT then return false end
    if amount > ask[k + 3] then
      verdict, at, binding = 2, 0, i - 1
    elseif wanted > brim then
      local rest = math.fmod(wanted - brim, drain)
      local fits = math.min(now + (wanted - brim - rest) / drain + (rest > 0 and 1 or 0), EXACT)
      if verdict == 0 or fits > at then verdict, at, binding = 1, fits, i - 1 end
    end
  end
end

if verdict == 0 then
  -- A moment after all have drained the row equals "never seen".
  local longest = 0
  i = 0
  for k = 4, last, 5 do
    i = i + 1
    local level, amount = levels[i], ask[k + 4]
    if amount > 0 then
      level = level + amount * ask[k + 1]
      levels[i], cells[i] = level, { 1, level, now }
    elseif not cells[i] then
      cells[i] = 0
    end
    local micros = level / ask[k]
    if micros > longest then longest = micros end
  end
  local row, forget_at = cmsgpack.pack(revision, now, cells), now + longest
  if ask[1] or forget_at >= EXACT then
    redis.call('SET', KEYS[1], row)
  else
    redis.call('SET', KEYS[1], row, 'PXAT', math.floor(forget_at / 1000) + 1)
  end
  if ask[2] < 2 then return now end
end

local reply = { 8, now, verdict, at, binding }
if ask[2] == 0 then return reply end

-- How long it takes `what` to drain.
local function micros(what, drain)
  local rest = math.fmod(what, drain)
  return (what - rest) / drain + (rest > 0 and 1 or 0)
end

i = 0
for k = 4, last, 5 do
  i = i + 1
  local drain, weight, brim, n = ask[k], ask[k + 1], ask[k + 2], #reply
  local level, remaining, debt = levels[i], ask[k + 3], 0
  if level == 0 then
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = remaining, 0, 0, 0, 0
  else
    local left = brim > level and brim - level or 0
    remaining = (left - math.fmod(left, weight)) / weight
    local next_level = math.max(brim - (remaining + 1) * weight, 0)
    if level > brim then
      local rest = math.fmod(level - brim, weight)
      debt = (level - brim - rest) / weight + (rest > 0 and 1 or 0)
    end
    reply[n + 1], reply[n + 2], reply[n + 3] = remaining, debt, 1
    reply[n + 4] = math.min(now + micros(level - next_level, drain), EXACT)
    reply[n + 5] = math.min(now + micros(level, drain), EXACT)
  end
end
return reply
