-- The window (`core/src/kernel/window.rs`). A cell is `{ 2, start, end, used }`.
-- The rule: `capacity`, `align` (0 epoch, 1 first use, 2 calendar), `period`.
local window = {}
local DAY = 86400000000

function window.fresh()
  return { 2, BEGINNING, BEGINNING, 0 }
end

local function epoch_window(now, period)
  local start = now - modulo(now, period)
  return start, start + period
end

-- The window that holds `now`: its beginning and its end.
local function bounds_at(rule, now, calendar)
  if rule.align == 0 then return epoch_window(now, rule.period) end
  if rule.align == 1 then return now, later(now, rule.period) end
  -- No boundaries were given: a day of UTC is the calendar's least surprise.
  if not calendar then return epoch_window(now, DAY) end
  if now < calendar[2] then return calendar[1], calendar[2] end
  return calendar[2], calendar[3]
end

function window.observe(rule, cell, now, calendar)
  if cell[4] == 0 or cell[2] <= now then return end
  local starts, ends = bounds_at(rule, now, calendar)
  local length = ends - starts
  if cell[2] - now > length then
    cell[2], cell[3] = starts, later(now, length)
  end
end

function window.quote(rule, cell, amount, now)
  if amount > rule.capacity then return NOT_EVER end
  if now < cell[3] and cell[4] > rule.capacity - amount then return cell[3] end
  return ADMIT
end

function window.charge(rule, cell, amount, now, calendar)
  if now >= cell[3] then
    cell[2], cell[3] = bounds_at(rule, now, calendar)
    cell[4] = 0
  end
  cell[4] = cell[4] + min(amount, MOST - cell[4])
  if cell[4] == MOST then return NOWHERE, 0 end
  return cell[2], 0
end

function window.refund(_, cell, amount, place)
  if cell[2] == place then cell[4] = max(cell[4] - amount, 0) end
end

function window.standing(rule, cell, now)
  if now >= cell[3] or cell[4] == 0 then return rule.capacity, 0 end
  local left = rule.capacity - cell[4]
  return max(left, 0), max(-left, 0), cell[3], cell[3]
end

-- One begun by first use is a state even when all of it was refunded.
function window.forget_at(rule, cell)
  -- To a clock that steps back behind its beginning, it is open already.
  if cell[4] == 0 and rule.align ~= 1 then return cell[2] end
  return cell[3]
end

-- How long a window is, unless a calendar says it.
local function period_of(rule)
  return rule.align ~= 2 and rule.period or nil
end

function window.latest(_, cell)
  return cell[2]
end

-- The window's beginning stays, so that it ends however often it is carried to and
-- fro; and no later than by the old rule, if this one's windows are no longer.
function window.adopt(rule, cell, old, now, calendar)
  if now >= cell[3] then return FRESH end
  local alike = rule.align == old.align and rule.period == old.period
  if alike and not calendar then return cell end
  local starts, ends = bounds_at(rule, now, calendar)
  -- Boundaries of a change long ago say nothing of this window.
  if ends <= now then return cell end
  local was = period_of(old) or cell[3] - cell[2]
  local is_longer = (period_of(rule) or ends - starts) > was
  local holds_start = starts <= cell[2]
  if rule.align == 1 and later(cell[2], rule.period) > now then
    holds_start, ends = true, later(cell[2], rule.period)
  end
  cell[3] = is_longer and holds_start and ends or min(ends, cell[3])
  return cell
end

kernels[2] = window
