-- The ring (`core/src/kernel/ring.rs`). A state is `{ 3, indexes, counts }`, the
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

local function counted(rule, state, now)
  local oldest, used = oldest_at(rule, now), 0
  for i, index in ipairs(state[2]) do
    if index >= oldest then used = used + state[3][i] end
  end
  return used
end

-- When at least `amount` of what is counted now has left.
local function freed_by_ring(rule, state, amount, now)
  local oldest, freed = oldest_at(rule, now), 0
  for i, index in ipairs(state[2]) do
    if index >= oldest then
      freed = freed + state[3][i]
      if freed >= amount then return leaves(rule, index) end
    end
  end
  return NEVER
end

function ring.observe(rule, state, now)
  local indexes, counts = state[2], state[3]
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

function ring.quote(rule, state, amount, now)
  if amount > rule.capacity then return NOT_EVER end
  local excess = counted(rule, state, now) - (rule.capacity - amount)
  if excess <= 0 then return ADMIT end
  return freed_by_ring(rule, state, excess, now)
end

local function prune_ring(rule, state, now)
  local oldest = oldest_at(rule, now)
  drop_first(state[2], state[3], function(index) return index < oldest end)
end

function ring.charge(rule, state, amount, now)
  prune_ring(rule, state, now)
  local indexes, counts = state[2], state[3]
  local n = #indexes
  -- A clock slightly behind counts into the newest sub-window: later is safe.
  local index = max(index_at(rule, now), indexes[n] or BEGINNING)
  local room = MOST - counted(rule, state, now)
  local reference = amount >= room and NOWHERE or index
  amount = min(amount, room)
  if indexes[n] == index then
    counts[n] = counts[n] + amount
  elseif amount > 0 then
    indexes[n + 1], counts[n + 1] = index, amount
  end
  return reference, 0
end

function ring.refund(_, state, amount, reference)
  for i, index in ipairs(state[2]) do
    if index == reference then
      state[3][i] = max(state[3][i] - amount, 0)
      if state[3][i] == 0 then
        table.remove(state[2], i)
        table.remove(state[3], i)
      end
      return
    end
  end
end

function ring.forget_at(rule, state)
  local newest = state[2][#state[2]]
  if not newest then return BEGINNING end
  return leaves(rule, newest)
end

function ring.standing(rule, state, now)
  local used = counted(rule, state, now)
  if used == 0 then return rule.capacity, 0 end
  local left = rule.capacity - used
  local debt = max(-left, 0)
  local replenish_at = freed_by_ring(rule, state, debt + 1, now)
  return max(left, 0), debt, replenish_at, ring.forget_at(rule, state)
end

-- When the newest sub-window that counts anything began.
function ring.latest(rule, state)
  local newest = state[2][#state[2]]
  return newest and min(newest * rule.step, NEVER) or BEGINNING
end

-- Counts that the old rule had let go of stay gone. Where sub-windows differ, a
-- count goes into the one in which its own ended.
function ring.adopt(rule, state, old, now)
  prune_ring(old, state, now)
  if rule.step == old.step then return state end
  local adopted = ring.fresh()
  for i, index in ipairs(state[2]) do
    local last = min((index + 1) * old.step - 1, NEVER)
    ring.charge(rule, adopted, state[3][i], min(last, now))
  end
  return adopted
end

kernels[3] = ring
