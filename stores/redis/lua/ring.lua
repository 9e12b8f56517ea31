-- The ring (`core/src/kernel/ring.rs`). A cell is `{ 3, indexes, counts }`, the
-- oldest first. The rule: `capacity`, `step`, `steps`.
local ring = {}

function ring.fresh()
  return { 3, {}, {} }
end

local function index_at(rule, now)
  return (now - modulo(now, rule.step)) / rule.step
end

-- The oldest sub-window that a rolling window ending now still touches.
local function oldest_at(rule, now)
  return index_at(rule, now) - rule.steps
end

-- When sub-window `index` is out of every window.
local function leaves(rule, index)
  return min((index + rule.steps + 1) * rule.step, NEVER)
end

local function counted(rule, cell, now)
  local oldest, used = oldest_at(rule, now), 0
  for i, index in ipairs(cell[2]) do
    if index >= oldest then used = used + cell[3][i] end
  end
  return used
end

-- When at least `amount` of what is counted now has left.
local function freed_by_ring(rule, cell, amount, now)
  local oldest, freed = oldest_at(rule, now), 0
  for i, index in ipairs(cell[2]) do
    if index >= oldest then
      freed = freed + cell[3][i]
      if freed >= amount then return leaves(rule, index) end
    end
  end
  return NEVER
end

function ring.observe(rule, cell, now)
  local indexes, counts = cell[2], cell[3]
  local n, current = #indexes, index_at(rule, now)
  local newest = indexes[n]
  if n == 0 or newest - current <= rule.steps then return end
  for i = 1, n do
    indexes[i] = current - max(newest - indexes[i] - 1, 0)
  end
  if n > 1 and indexes[n - 1] == indexes[n] then
    counts[n - 1] = counts[n - 1] + counts[n]
    indexes[n], counts[n] = nil, nil
  end
end

function ring.quote(rule, cell, amount, now)
  if amount > rule.capacity then return NOT_EVER end
  local excess = counted(rule, cell, now) - (rule.capacity - amount)
  if excess <= 0 then return ADMIT end
  return freed_by_ring(rule, cell, excess, now)
end

local function prune_ring(rule, cell, now)
  local oldest = oldest_at(rule, now)
  drop_first(cell[2], cell[3], function(index) return index < oldest end)
end

function ring.charge(rule, cell, amount, now)
  prune_ring(rule, cell, now)
  local indexes, counts = cell[2], cell[3]
  local n = #indexes
  -- A clock slightly behind counts into the newest sub-window: later is safe.
  local index = max(index_at(rule, now), indexes[n] or BEGINNING)
  local room = MOST - counted(rule, cell, now)
  local place = amount >= room and NOWHERE or index
  amount = min(amount, room)
  if indexes[n] == index then
    counts[n] = counts[n] + amount
  elseif amount > 0 then
    indexes[n + 1], counts[n + 1] = index, amount
  end
  return place, 0
end

function ring.refund(_, cell, amount, place)
  for i, index in ipairs(cell[2]) do
    if index == place then
      cell[3][i] = max(cell[3][i] - amount, 0)
      if cell[3][i] == 0 then
        table.remove(cell[2], i)
        table.remove(cell[3], i)
      end
      return
    end
  end
end

function ring.forget_at(rule, cell)
  local newest = cell[2][#cell[2]]
  if not newest then return BEGINNING end
  return leaves(rule, newest)
end

function ring.standing(rule, cell, now)
  local used = counted(rule, cell, now)
  if used == 0 then return rule.capacity, 0 end
  local left = rule.capacity - used
  local debt = max(-left, 0)
  local replenish_at = freed_by_ring(rule, cell, debt + 1, now)
  return max(left, 0), debt, replenish_at, ring.forget_at(rule, cell)
end

-- When the newest sub-window that counts anything began.
function ring.latest(rule, cell)
  local newest = cell[2][#cell[2]]
  return newest and min(newest * rule.step, NEVER) or BEGINNING
end

-- Counts that the old rule had let go of stay gone. Where sub-windows differ, a
-- count goes into the one in which its own ended.
function ring.adopt(rule, cell, old, now)
  prune_ring(old, cell, now)
  if rule.step == old.step then return cell end
  local adopted = ring.fresh()
  for i, index in ipairs(cell[2]) do
    local last = min((index + 1) * old.step - 1, NEVER)
    ring.charge(rule, adopted, cell[3][i], min(last, now))
  end
  return adopted
end

kernels[3] = ring
