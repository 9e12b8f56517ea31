-- A take of one plain bucket without levels, which is most of what most ask: the
-- same arithmetic as `bucket.lua`, and nothing else. Whatever is not as plain as
-- that (a row of another edition or by limits of its own, leases that may give
-- back, numbers from 2^53 on, a clock that stands behind, somebody who waits)
-- answers false, and the whole script is called.
-- KEYS: the row, the order of those who wait. ARGV: the edition, the caller's now
-- or '', the amount, then drain, weight, brim and capacity of the bucket; '1' if
-- the standing is told with a refusal, '2' if always.
local EXACT = 9007199254740992

if redis.call('EXISTS', KEYS[2]) == 1 then return false end
local kept = redis.call('GET', KEYS[1])
local now = tonumber(ARGV[2])
local by_caller = now ~= nil
if not by_caller then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local amount, drain, weight = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local brim, capacity = tonumber(ARGV[6]), tonumber(ARGV[7])

local level = 0
if kept then
  local edition, latest, cells, by = cmsgpack.unpack(kept)
  local cell = cells[1]
  if edition ~= tonumber(ARGV[1]) or by or cell == 0 or cell[4] then return false end
  level = cell[2]
  if type(level) ~= 'number' or now < cell[3] or now < latest then return false end
  local drained = (now - cell[3]) * drain
  level = drained < level and level - drained or 0
end

-- How long it takes `what` to drain.
local function micros(what)
  local rest = math.fmod(what, drain)
  return (what - rest) / drain + (rest > 0 and 1 or 0)
end

local function told(verdict, at)
  if ARGV[8] == '0' or (ARGV[8] == '1' and verdict == 0) then return { 8, now, verdict, at } end
  if level == 0 then return { 8, now, verdict, at, 0, capacity, 0, 0, 0 } end
  local left = brim > level and brim - level or 0
  local remaining = (left - math.fmod(left, weight)) / weight
  local next_level = math.max(brim - (remaining + 1) * weight, 0)
  local debt, over = 0, level - brim
  if over > 0 then
    local rest = math.fmod(over, weight)
    debt = (over - rest) / weight + (rest > 0 and 1 or 0)
  end
  return {
    8, now, verdict, at, 1, remaining, debt,
    math.min(now + micros(level - next_level), EXACT), math.min(now + micros(level), EXACT),
  }
end

if amount > capacity then return told(2, 0) end
local wanted = level + amount * weight
if wanted >= EXACT then return false end
if wanted > brim then return told(1, math.min(now + micros(wanted - brim), EXACT)) end
level = wanted
local row = cmsgpack.pack(tonumber(ARGV[1]), now, { { 1, level, now } })
local forget_at = now + micros(level)
if by_caller or forget_at >= EXACT then
  redis.call('SET', KEYS[1], row)
else
  redis.call('SET', KEYS[1], row, 'PXAT', string.format('%.0f', math.ceil(forget_at / 1000)))
end
return told(0, 0)
