-- The slots (`core/src/kernel/slots.rs`). A state is `{ 5, total, fence, at, holders }`.
-- The holders are in the order of their expiry, 32 bytes each: expiry, id, weight. As one
-- string they are read and written at once, however many there are. The rule:
-- `capacity`, `ttl`.
local slots = {}
local HOLDER, HOLDER_BYTES = '>dc16d', 32

function slots.fresh()
  return { 5, 0, 0, BEGINNING, '' }
end

-- How many bytes of the holders have expired, and what they weigh.
local function expired_at(holders, now)
  local at, weighed = 0, 0
  while at < #holders do
    local expires_at, _, weight = struct.unpack(HOLDER, holders, at + 1)
    if expires_at > now then break end
    at, weighed = at + HOLDER_BYTES, weighed + weight
  end
  return at, weighed
end

local function prune_slots(state, now)
  local expired, weighed = expired_at(state[5], now)
  if expired == 0 then return end
  state[2], state[5] = state[2] - weighed, string.sub(state[5], expired + 1)
end

local function held_at(state, now)
  local _, weighed = expired_at(state[5], now)
  return state[2] - weighed
end

-- When at least `amount` of what is held now will have expired.
local function freed_by_slots(state, amount, now)
  local holders, freed = state[5], 0
  for at = expired_at(holders, now), #holders - 1, HOLDER_BYTES do
    local expires_at, _, weight = struct.unpack(HOLDER, holders, at + 1)
    freed = freed + weight
    if freed >= amount then return expires_at end
  end
  return NEVER
end

local function insert_holder(state, expires_at, id, weight)
  local holders, holder = state[5], struct.pack(HOLDER, expires_at, id, weight)
  local at = #holders
  while at > 0 and struct.unpack('>d', holders, at - 31) > expires_at do
    at = at - HOLDER_BYTES
  end
  if at == #holders then
    state[5] = holders .. holder
  else
    state[5] = string.sub(holders, 1, at) .. holder .. string.sub(holders, at + 1)
  end
  state[2] = state[2] + weight
end

-- Where what `id` holds stands: near `expires_at`, or anywhere if a step back of the
-- clock has moved it.
local function find_holder(holders, id, expires_at)
  local first, at = nil, string.find(holders, id, 1, true)
  while at do
    -- Elsewhere the same bytes are no id.
    if at % HOLDER_BYTES == 9 then
      if struct.unpack('>d', holders, at - 8) >= expires_at then return at - 8 end
      first = first or at - 8
    end
    at = string.find(holders, id, at + 1, true)
  end
  return first
end

-- Takes out what `id` holds; answers its weight, and its expiry.
local function remove_holder(state, id, expires_at)
  local holders = state[5]
  local at = find_holder(holders, id, expires_at)
  if not at then return nil end
  local expires_now, _, weight = struct.unpack(HOLDER, holders, at)
  state[5] = string.sub(holders, 1, at - 1) .. string.sub(holders, at + HOLDER_BYTES)
  state[2] = state[2] - weight
  return weight, expires_now
end

-- Notes the latest instant; answers how far `now` is behind it.
local function catch_up(state, now)
  local behind = max(state[4] - now, 0)
  state[4] = max(state[4], now)
  return behind
end

function slots.observe(rule, state, now)
  local behind = state[4] - now
  if behind <= rule.ttl then return end
  local moved = {}
  for at = 1, #state[5], HOLDER_BYTES do
    local expires_at, id, weight = struct.unpack(HOLDER, state[5], at)
    moved[#moved + 1] = struct.pack(HOLDER, earlier(expires_at, behind), id, weight)
  end
  state[4], state[5] = now, table.concat(moved)
end

function slots.quote(rule, state, amount, now)
  if amount > rule.capacity then return NOT_EVER end
  local excess = held_at(state, now) - (rule.capacity - amount)
  if excess <= 0 then return ADMIT end
  return freed_by_slots(state, excess, now)
end

-- Slots go to a term `{ id, expires_at }`; without one nobody could give them
-- back, so none are taken. Answers the reference, and the fence.
function slots.charge(_, state, amount, now, _, term)
  if not term then return 0, 0 end
  prune_slots(state, now)
  local expires_at = later(term[2], catch_up(state, now))
  insert_holder(state, expires_at, term[1], min(amount, MOST - state[2]))
  state[3] = max(state[3] + 1, now, 0)
  return 0, state[3]
end

function slots.refund() end

function slots.release(state, id, expires_at, now)
  prune_slots(state, now)
  remove_holder(state, id, expires_at)
end

-- Takes out what `id` still holds, and leaves what has expired; answers its weight, and
-- until when it was held.
function slots.let_go(state, id, expires_at, now)
  local weight, until_now = remove_holder(state, id, expires_at)
  if weight and until_now <= now then return insert_holder(state, until_now, id, weight) end
  return weight, until_now
end

-- What was let go of is held again.
function slots.restore(state, id, expires_at, weight)
  insert_holder(state, expires_at, id, weight)
end

-- Another weight for `id`, be it free or not.
function slots.resize(state, id, expires_at, weight, now)
  prune_slots(state, now)
  local old, until_now = remove_holder(state, id, expires_at)
  if old then insert_holder(state, until_now, id, min(weight, MOST - state[2])) end
end

function slots.renew(state, id, old, expires_at, now)
  prune_slots(state, now)
  expires_at = later(expires_at, catch_up(state, now))
  local weight = remove_holder(state, id, old)
  if weight then insert_holder(state, expires_at, id, weight) end
end

-- When the last of the holders lets go, if there is any.
local function last_expiry(state)
  local bytes = #state[5]
  return bytes > 0 and (struct.unpack('>d', state[5], bytes - 31)) or nil
end

function slots.standing(rule, state, now)
  local held = held_at(state, now)
  if held == 0 then return rule.capacity, 0 end
  local left = rule.capacity - held
  local debt = max(-left, 0)
  return max(left, 0), debt, freed_by_slots(state, debt + 1, now), last_expiry(state)
end

function slots.forget_at(_, state)
  if state[3] == 0 then return BEGINNING end
  local fence_passed = later(state[3], 1)
  return max(last_expiry(state) or fence_passed, fence_passed)
end

function slots.latest()
  return BEGINNING
end

function slots.adopt(_, state)
  return state
end

kernels[5] = slots
