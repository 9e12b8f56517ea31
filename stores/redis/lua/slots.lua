-- The slots (`core/src/kernel/slots.rs`). A cell is
-- `{ 5, total, fence, at, expiries, ids, weights }`, by expiry. The rule:
-- `capacity`, `ttl`.
local slots = {}

function slots.fresh()
  return { 5, 0, 0, BEGINNING, {}, {}, {} }
end

local function prune_slots(cell, now)
  local expiries, ids, weights = cell[5], cell[6], cell[7]
  local expired = 0
  while expiries[expired + 1] and expiries[expired + 1] <= now do
    expired = expired + 1
    cell[2] = cell[2] - weights[expired]
  end
  if expired == 0 then return end
  for i = 1, #expiries do
    expiries[i], ids[i], weights[i] =
      expiries[i + expired], ids[i + expired], weights[i + expired]
  end
end

local function held_at(cell, now)
  local held = cell[2]
  for i, expires_at in ipairs(cell[5]) do
    if expires_at > now then break end
    held = held - cell[7][i]
  end
  return held
end

-- When at least `amount` of what is held now will have expired.
local function freed_by_slots(cell, amount, now)
  local freed = 0
  for i, expires_at in ipairs(cell[5]) do
    if expires_at > now then
      freed = freed + cell[7][i]
      if freed >= amount then return expires_at end
    end
  end
  return NEVER
end

local function insert_holder(cell, expires_at, id, weight)
  local expiries = cell[5]
  local i = #expiries + 1
  while i > 1 and expiries[i - 1] > expires_at do i = i - 1 end
  table.insert(expiries, i, expires_at)
  table.insert(cell[6], i, id)
  table.insert(cell[7], i, weight)
  cell[2] = cell[2] + weight
end

-- Takes out what `id` holds near `expires_at`, or anywhere if a step back of the
-- clock has moved it; answers its weight, and its expiry.
local function remove_holder(cell, id, expires_at)
  local found = nil
  for i, holder in ipairs(cell[6]) do
    if holder == id then
      found = found or i
      if cell[5][i] >= expires_at then
        found = i
        break
      end
    end
  end
  if not found then return nil end
  local expires_now = table.remove(cell[5], found)
  table.remove(cell[6], found)
  local weight = table.remove(cell[7], found)
  cell[2] = cell[2] - weight
  return weight, expires_now
end

-- Notes the latest instant; answers how far `now` is behind it.
local function catch_up(cell, now)
  local behind = max(cell[4] - now, 0)
  cell[4] = max(cell[4], now)
  return behind
end

function slots.observe(rule, cell, now)
  local behind = cell[4] - now
  if behind <= rule.ttl then return end
  for i, expires_at in ipairs(cell[5]) do
    cell[5][i] = earlier(expires_at, behind)
  end
  cell[4] = now
end

function slots.quote(rule, cell, amount, now)
  if amount > rule.capacity then return NOT_EVER end
  local excess = held_at(cell, now) - (rule.capacity - amount)
  if excess <= 0 then return ADMIT end
  return freed_by_slots(cell, excess, now)
end

-- Slots go to a tenure `{ id, expires_at }`; without one nobody could give them
-- back, so none are taken. Answers the place, and the fence.
function slots.charge(_, cell, amount, now, _, tenure)
  if not tenure then return 0, 0 end
  prune_slots(cell, now)
  local expires_at = later(tenure[2], catch_up(cell, now))
  insert_holder(cell, expires_at, tenure[1], min(amount, MOST - cell[2]))
  cell[3] = max(cell[3] + 1, now, 0)
  return 0, cell[3]
end

function slots.refund() end

function slots.release(cell, id, expires_at, now)
  prune_slots(cell, now)
  remove_holder(cell, id, expires_at)
end

-- Takes out what `id` still holds, and leaves what has expired; answers its weight, and
-- until when it was held.
function slots.let_go(cell, id, expires_at, now)
  local weight, until_now = remove_holder(cell, id, expires_at)
  if weight and until_now <= now then return insert_holder(cell, until_now, id, weight) end
  return weight, until_now
end

-- What was let go of is held again.
function slots.restore(cell, id, expires_at, weight)
  insert_holder(cell, expires_at, id, weight)
end

-- Another weight for `id`, be it free or not.
function slots.resize(cell, id, expires_at, weight, now)
  prune_slots(cell, now)
  local old, until_now = remove_holder(cell, id, expires_at)
  if old then insert_holder(cell, until_now, id, min(weight, MOST - cell[2])) end
end

function slots.renew(cell, id, old, expires_at, now)
  prune_slots(cell, now)
  expires_at = later(expires_at, catch_up(cell, now))
  local weight = remove_holder(cell, id, old)
  if weight then insert_holder(cell, expires_at, id, weight) end
end

function slots.standing(rule, cell, now)
  local held = held_at(cell, now)
  if held == 0 then return rule.capacity, 0 end
  local left = rule.capacity - held
  local debt = max(-left, 0)
  local last = cell[5][#cell[5]]
  return max(left, 0), debt, freed_by_slots(cell, debt + 1, now), last
end

function slots.forget_at(_, cell)
  if cell[3] == 0 then return BEGINNING end
  local fence_passed = later(cell[3], 1)
  return max(cell[5][#cell[5]] or fence_passed, fence_passed)
end

function slots.latest()
  return BEGINNING
end

function slots.adopt(_, cell)
  return cell
end

kernels[5] = slots
