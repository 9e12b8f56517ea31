-- The bucket (`core/src/kernel/bucket.rs`). A state is `{ 1, level, at, low_water }`; where
-- some of the level is forgiven `{ 1, level, at, low_water or false, forgiven, until }`.
-- The rule: `drain`, `weight`, `capacity`; `brim` and `most` are the levels at
-- which nothing is left, and above which no debt is counted.
local bucket = {}

-- No level is higher, with what is forgiven: 2^101.
local HIGHEST = { 0, 0, 0, 0, 32 }

function bucket.fresh(now)
  return { 1, 0, now }
end

-- The level at `now`. A clock slightly behind the state's instant sees what it
-- would have seen had it never been ahead.
local function level_at(rule, state, now)
  local level, at = state[2], state[3]
  if now >= at then return beyond(level, times(now - at, rule.drain)) end
  if level == 0 then return 0 end
  return add(level, times(at - now, rule.drain))
end

-- What of the level counts: all that is not forgiven.
local function counted_at(rule, state, now)
  return beyond(level_at(rule, state, now), state[5] or 0)
end

-- Of the level so much is forgiven, until an instant.
local function forgive(state, level, until_at)
  if level == 0 then
    state[4], state[5], state[6] = state[4] or nil, nil, nil
  else
    state[4], state[5], state[6] = state[4] or false, level, until_at
  end
end

-- Drains up to `now`; the state's instant never moves back here.
local function settle_level(rule, state, now)
  if now > state[3] or state[2] == 0 then
    state[2], state[3] = level_at(rule, state, now), now
  end
  if not state[5] then return end
  local forgiven, until_at = least(state[5], state[2]), state[6]
  if until_at > now then return forgive(state, forgiven, until_at) end
  state[2] = beyond(state[2], forgiven)
  forgive(state, 0)
  -- Of what was forgiven nothing may come back.
  low_water.note(state, 0, now)
end

-- The instant at which `level` has drained.
local function drained(rule, level, from)
  local micros = divide_up(level, rule.drain)
  if type(micros) == 'table' then return NEVER end
  return later(from, micros)
end

-- Behind by more than the refill: the brim rounded up to whole microseconds.
function bucket.observe(rule, state, now)
  local behind = state[3] - now
  if behind > 0 and state[2] ~= 0
    and not less(times(behind - 1, rule.drain), rule.brim) then
    state[3] = now
  end
end

function bucket.quote(rule, state, amount, now)
  if amount > rule.capacity then return NOT_EVER end
  local wanted = add(counted_at(rule, state, now), times(amount, rule.weight))
  if not less(rule.brim, wanted) then return ADMIT end
  return drained(rule, beyond(wanted, rule.brim), now)
end

-- With a term the reference is the number of the lease, by which it gives back.
function bucket.charge(rule, state, amount, now, _, term)
  settle_level(rule, state, now)
  low_water.note(state, state[2], now)
  local most, level = rule.most, add(state[2], times(amount, rule.weight))
  if state[5] then most = add(most, state[5]) end
  state[2] = least(level, most)
  if not term then return 0, 0 end
  local number = low_water.number(state, now)
  if not less(level, most) then return NOWHERE, 0 end
  return number, 0
end

function bucket.refund(rule, state, amount, reference, now)
  settle_level(rule, state, now)
  local kept = state[4]
  if not kept then return end
  local back = low_water.give_back(kept, reference, times(amount, rule.weight), state[2])
  state[2] = beyond(state[2], back)
  -- What was forgiven is the first to come back: it makes no room.
  if state[5] then forgive(state, beyond(state[5], back), state[6]) end
  if state[2] == 0 then low_water.note(state, 0, now) end
end

-- Limit, remaining, debt, when the next unit is there, when all are.
function bucket.standing(rule, state, now)
  local level = counted_at(rule, state, now)
  if level == 0 then return rule.capacity, 0 end
  local weight, brim = rule.weight, rule.brim
  local remaining = divide(beyond(brim, level), weight)
  local next_level = beyond(brim, times(remaining + 1, weight))
  local debt = divide_up(beyond(level, brim), weight)
  local replenish_at = drained(rule, beyond(level, next_level), now)
  return remaining, amount_of(debt), replenish_at, drained(rule, level, now)
end

function bucket.forget_at(rule, state)
  local empty_at = drained(rule, state[2], state[3])
  if state[5] then
    local full_at = drained(rule, counted_at(rule, state, state[3]), state[3])
    empty_at = min(empty_at, max(full_at, state[6]))
  end
  if not state[4] then return empty_at end
  return max(empty_at, low_water.forget_at(state[4]))
end

-- A level of `old` in this rule's weights, rounded up or down.
local function convert(level, rule, old, up)
  local units, rest = divide(level, old.weight)
  local round = up and divide_up or divide
  rest = round(times(rest, rule.weight), old.weight)
  return add(times(units, rule.weight), rest)
end

-- Forgives what of the level is above `counts`; the rule by which it was used is
-- full again in so many microseconds.
local function forgive_above(rule, state, counts, full_in)
  local level, until_at = beyond(state[2], counts), NEVER
  counts = beyond(state[2], level)
  if type(full_in) == 'number' and not less(divide(counts, rule.drain), full_in) then
    until_at = later(state[3], full_in)
  end
  forgive(state, level, until_at)
end

-- The state of who has used so much by a rule of another kind.
function bucket.take_over(rule, used, full_at, now)
  local state = { 1, times(used, rule.weight), now }
  forgive_above(rule, state, rule.brim, max(full_at - now, 0))
  return state
end

-- How many units are used and not drained; what is forgiven is among them.
function bucket.used(rule, state, now)
  return amount_of(divide_up(level_at(rule, state, now), rule.weight))
end

function bucket.latest(_, state)
  return state[3]
end

function bucket.adopt(rule, state, old, now)
  settle_level(old, state, now)
  local level, counted = state[2], beyond(state[2], state[5] or 0)
  local counts = convert(counted, rule, old, true)
  state[2] = least(convert(level, rule, old, true), HIGHEST)
  if rule.capacity >= old.capacity then
    counts = add(counts, times(rule.capacity - old.capacity, rule.weight))
  else
    local debt = convert(beyond(counted, old.brim), rule, old, true)
    counts = least(counts, add(rule.brim, debt))
  end
  forgive_above(rule, state, least(counts, rule.most), divide_up(level, old.drain))
  if state[4] then
    -- Of what may come back, rather too little.
    low_water.convert(state[4], function(level)
      return least(convert(level, rule, old, false), HIGHEST)
    end)
  end
  return state
end

kernels[1] = bucket
