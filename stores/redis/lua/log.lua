-- The log (`core/src/kernel/log.rs`). A cell is `{ 4, total, instants, sums }`,
-- the oldest first. The rule: `capacity`, `window`, `entries` (how many at most).
local log = {}

function log.fresh()
  return { 4, 0, {}, {} }
end

local function gone(rule, at, now)
  return later(at, rule.window) <= now
end

local function entered(rule, cell, now)
  local used = cell[2]
  for i, at in ipairs(cell[3]) do
    if not gone(rule, at, now) then break end
    used = used - cell[4][i]
  end
  return used
end

-- When at least `amount` of what is entered now has left.
local function freed_by_log(rule, cell, amount, now)
  local freed = 0
  for i, at in ipairs(cell[3]) do
    if not gone(rule, at, now) then
      freed = freed + cell[4][i]
      if freed >= amount then return later(at, rule.window) end
    end
  end
  return NEVER
end

-- Merges each pair of neighbours into the later one.
local function halve(instants, sums)
  local n, kept = #instants, 0
  for i = 1, n, 2 do
    kept = kept + 1
    instants[kept] = instants[i + 1] or instants[i]
    sums[kept] = sums[i] + (sums[i + 1] or 0)
  end
  for i = kept + 1, n do instants[i], sums[i] = nil, nil end
end

local function prune_log(rule, cell, now)
  for i, at in ipairs(cell[3]) do
    if not gone(rule, at, now) then break end
    cell[2] = cell[2] - cell[4][i]
  end
  drop_first(cell[3], cell[4], function(at) return gone(rule, at, now) end)
end

function log.observe(rule, cell, now)
  local instants = cell[3]
  local newest = instants[#instants]
  if not newest or newest - now <= rule.window then return end
  local behind = newest - now
  for i, at in ipairs(instants) do instants[i] = earlier(at, behind) end
end

function log.quote(rule, cell, amount, now)
  if amount > rule.capacity then return NOT_EVER end
  local excess = entered(rule, cell, now) - (rule.capacity - amount)
  if excess <= 0 then return ADMIT end
  return freed_by_log(rule, cell, excess, now)
end

function log.charge(rule, cell, amount, now)
  prune_log(rule, cell, now)
  local instants, sums = cell[3], cell[4]
  -- A clock slightly behind enters at the newest instant: later is safe.
  local at = max(now, instants[#instants] or BEGINNING)
  local room = MOST - entered(rule, cell, now)
  local place = amount >= room and NOWHERE or at
  amount = min(amount, room)
  cell[2] = cell[2] + amount
  if instants[#instants] == at then
    sums[#sums] = sums[#sums] + amount
  elseif amount > 0 then
    if #instants >= rule.entries then halve(instants, sums) end
    instants[#instants + 1], sums[#sums + 1] = at, amount
  end
  return place, 0
end

function log.refund(rule, cell, amount, place, now)
  if gone(rule, place, now) then return end
  -- Before the oldest entry everything is gone: the next one is another's.
  if not cell[3][1] or place < cell[3][1] then return end
  local i = 1
  while cell[3][i] and cell[3][i] < place do i = i + 1 end
  if not cell[3][i] then return end
  local back = min(amount, cell[4][i])
  cell[4][i], cell[2] = cell[4][i] - back, cell[2] - back
  if cell[4][i] == 0 then
    table.remove(cell[3], i)
    table.remove(cell[4], i)
  end
end

function log.forget_at(rule, cell)
  local newest = cell[3][#cell[3]]
  if not newest then return BEGINNING end
  return later(newest, rule.window)
end

function log.standing(rule, cell, now)
  local used = entered(rule, cell, now)
  if used == 0 then return rule.capacity, 0 end
  local left = rule.capacity - used
  local debt = max(-left, 0)
  local replenish_at = freed_by_log(rule, cell, debt + 1, now)
  return max(left, 0), debt, replenish_at, log.forget_at(rule, cell)
end

-- The instant of the newest entry.
function log.latest(_, cell)
  return cell[3][#cell[3]] or BEGINNING
end

-- Entries that `old` had let go of stay gone.
function log.adopt(rule, cell, old, now)
  prune_log(old, cell, now)
  while #cell[3] > rule.entries do halve(cell[3], cell[4]) end
  return cell
end

kernels[4] = log
