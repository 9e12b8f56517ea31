-- The bucket (`core/src/kernel/bucket.rs`). A cell is `{ 1, level, at, lows }`.
-- The rule: `drain`, `weight`, `capacity`; `brim` and `most` are the levels at
-- which nothing is left, and above which no debt is counted.
local bucket = {}

function bucket.fresh(now)
  return { 1, 0, now }
end

-- The level at `now`. A clock slightly behind the cell's instant sees what it
-- would have seen had it never been ahead.
local function level_at(rule, cell, now)
  local level, at = cell[2], cell[3]
  if now >= at then return beyond(level, times(now - at, rule.drain)) end
  if level == 0 then return 0 end
  return add(level, times(at - now, rule.drain))
end

-- Drains up to `now`; the cell's instant never moves back here.
local function settle_level(rule, cell, now)
  if now > cell[3] or cell[2] == 0 then
    cell[2], cell[3] = level_at(rule, cell, now), now
  end
end

-- The instant at which `level` has drained.
local function drained(rule, level, from)
  local micros = divide_up(level, rule.drain)
  if type(micros) == 'table' then return NEVER end
  return later(from, micros)
end

-- Behind by more than the refill: the brim rounded up to whole microseconds.
function bucket.observe(rule, cell, now)
  local behind = cell[3] - now
  if behind > 0 and cell[2] ~= 0
    and not less(times(behind - 1, rule.drain), rule.brim) then
    cell[3] = now
  end
end

function bucket.quote(rule, cell, amount, now)
  if amount > rule.capacity then return NOT_EVER end
  local wanted = add(level_at(rule, cell, now), times(amount, rule.weight))
  if not less(rule.brim, wanted) then return ADMIT end
  return drained(rule, beyond(wanted, rule.brim), now)
end

-- With a tenure the place is the number of the lease, by which it gives back.
function bucket.charge(rule, cell, amount, now, _, tenure)
  settle_level(rule, cell, now)
  lows.note(cell, cell[2], now)
  cell[2] = least(add(cell[2], times(amount, rule.weight)), rule.most)
  if not tenure then return 0, 0 end
  return lows.number(cell, now), 0
end

function bucket.refund(rule, cell, amount, place, now)
  settle_level(rule, cell, now)
  local kept = cell[4]
  if not kept then return end
  local back = lows.give_back(kept, place, times(amount, rule.weight), cell[2])
  cell[2] = beyond(cell[2], back)
  if cell[2] == 0 then lows.note(cell, 0, now) end
end

-- Limit, remaining, debt, when the next unit is there, when all are.
function bucket.standing(rule, cell, now)
  local level = level_at(rule, cell, now)
  if level == 0 then return rule.capacity, 0 end
  local weight, brim = rule.weight, rule.brim
  local remaining = divide(beyond(brim, level), weight)
  local next_level = beyond(brim, times(remaining + 1, weight))
  local debt = divide_up(beyond(level, brim), weight)
  local replenish_at = drained(rule, beyond(level, next_level), now)
  return remaining, amount_of(debt), replenish_at, drained(rule, level, now)
end

function bucket.forget_at(rule, cell)
  local full_at = drained(rule, cell[2], cell[3])
  if not cell[4] then return full_at end
  return max(full_at, lows.forget_at(cell[4]))
end

-- A level of `old` in this rule's weights, rounded up or down.
local function convert(level, rule, old, up)
  local units, rest = divide(level, old.weight)
  local round = up and divide_up or divide
  rest = round(times(rest, rule.weight), old.weight)
  return add(times(units, rule.weight), rest)
end

function bucket.adopt(rule, cell, old, now)
  settle_level(old, cell, now)
  local used = convert(cell[2], rule, old, true)
  local debt = convert(beyond(cell[2], old.brim), rule, old, true)
  cell[2] = least(least(used, add(rule.brim, debt)), rule.most)
  if cell[4] then
    -- Of what may come back, rather too little.
    lows.convert(cell[4], function(level)
      return least(convert(level, rule, old, false), rule.most)
    end)
  end
  return cell
end

kernels[1] = bucket
