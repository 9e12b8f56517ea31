-- The log (`core/src/kernel/log.rs`). A state is `{ 4, total, instants, sums }`,
-- the oldest first. The rule: `capacity`, `window`, `entries` (how many at most).
local log = {}

function log.fresh()
  return { 4, 0, {}, {} }
end

local function gone(rule, at, now)
  return later(at, rule.window) <= now
end

local function entered(rule, state, now)
  local used = state[2]
  for i, at in ipairs(state[3]) do
    if not gone(rule, at, now) then break end
    used = used - state[4][i]
  end
  return used
end

-- When at least `amount` of what is entered now has left.
local function freed_by_log(rule, state, amount, now)
  local freed = 0
  for i, at in ipairs(state[3]) do
    if not gone(rule, at, now) then
      freed = freed + state[4][i]
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

local function prune_log(rule, state, now)
  for i, at in ipairs(state[3]) do
    if not gone(rule, at, now) then break end
    state[2] = state[2] - state[4][i]
  end
  drop_first(state[3], state[4], function(at) return gone(rule, at, now) end)
end

function log.observe(rule, state, now)
  local instants = state[3]
  local newest = instants[#instants]
  if not newest or newest - now <= rule.window then return end
  local behind = newest - now
  for i, at in ipairs(instants) do instants[i] = earlier(at, behind) end
end

function log.quote(rule, state, amount, now)
  if amount > rule.capacity then return NOT_EVER end
  local excess = entered(rule, state, now) - (rule.capacity - amount)
  if excess <= 0 then return ADMIT end
  return freed_by_log(rule, state, excess, now)
end

function log.charge(rule, state, amount, now)
  prune_log(rule, state, now)
  local instants, sums = state[3], state[4]
  -- A clock slightly behind enters at the newest instant: later is safe.
  local at = max(now, instants[#instants] or BEGINNING)
  local room = MOST - entered(rule, state, now)
  local reference = amount >= room and NOWHERE or at
  amount = min(amount, room)
  state[2] = state[2] + amount
  if instants[#instants] == at then
    sums[#sums] = sums[#sums] + amount
  elseif amount > 0 then
    if #instants >= rule.entries then halve(instants, sums) end
    instants[#instants + 1], sums[#sums + 1] = at, amount
  end
  return reference, 0
end

function log.refund(rule, state, amount, reference, now)
  if gone(rule, reference, now) then return end
  -- Before the oldest entry everything is gone: the next one is another's.
  if not state[3][1] or reference < state[3][1] then return end
  local i = 1
  while state[3][i] and state[3][i] < reference do i = i + 1 end
  if not state[3][i] then return end
  local back = min(amount, state[4][i])
  state[4][i], state[2] = state[4][i] - back, state[2] - back
  if state[4][i] == 0 then
    table.remove(state[3], i)
    table.remove(state[4], i)
  end
end

function log.forget_at(rule, state)
  local newest = state[3][#state[3]]
  if not newest then return BEGINNING end
  return later(newest, rule.window)
end

function log.standing(rule, state, now)
  local used = entered(rule, state, now)
  if used == 0 then return rule.capacity, 0 end
  local left = rule.capacity - used
  local debt = max(-left, 0)
  local replenish_at = freed_by_log(rule, state, debt + 1, now)
  return max(left, 0), debt, replenish_at, log.forget_at(rule, state)
end

-- The instant of the newest entry.
function log.latest(_, state)
  return state[3][#state[3]] or BEGINNING
end

-- Entries that `old` had let go of stay gone.
function log.adopt(rule, state, old, now)
  prune_log(old, state, now)
  while #state[3] > rule.entries do halve(state[3], state[4]) end
  return state
end

kernels[4] = log
