-- The window (`core/src/kernel/window.rs`). A state is `{ 2, start, end, used }`.
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

function window.observe(rule, state, now, calendar)
  if state[4] == 0 or state[2] <= now then return end
  local starts, ends = bounds_at(rule, now, calendar)
  local length = ends - starts
  if state[2] - now > length then
    state[2], state[3] = starts, later(now, length)
  end
end

function window.quote(rule, state, amount, now)
  if amount > rule.capacity then return NOT_EVER end
  if now < state[3] and state[4] > rule.capacity - amount then return state[3] end
  return ADMIT
end

function window.charge(rule, state, amount, now, calendar)
  if now >= state[3] then
    state[2], state[3] = bounds_at(rule, now, calendar)
    state[4] = 0
  end
  state[4] = state[4] + min(amount, MOST - state[4])
  if state[4] == MOST then return NOWHERE, 0 end
  return state[2], 0
end

function window.refund(_, state, amount, reference)
  if state[2] == reference then state[4] = max(state[4] - amount, 0) end
end

function window.standing(rule, state, now)
  if now >= state[3] or state[4] == 0 then return rule.capacity, 0 end
  local left = rule.capacity - state[4]
  return max(left, 0), max(-left, 0), state[3], state[3]
end

-- One begun by first use is a state even when all of it was refunded.
function window.forget_at(rule, state)
  -- To a clock that steps back behind its beginning, it is open already.
  if state[4] == 0 and rule.align ~= 1 then return state[2] end
  return state[3]
end

-- How long a window is, unless a calendar says it.
local function period_of(rule)
  return rule.align ~= 2 and rule.period or nil
end

function window.latest(_, state)
  return state[2]
end

-- The window's beginning stays, so that it ends however often it is carried to and
-- fro; and no later than by the old rule, if this one's windows are no longer, or it
-- did not begin in the one that this rule sees now.
function window.adopt(rule, state, old, now, calendar)
  if now >= state[3] then return FRESH end
  local alike = rule.align == old.align and rule.period == old.period
  if alike and not calendar then return state end
  local starts, ends = bounds_at(rule, now, calendar)
  -- Boundaries of a change long ago say nothing of this window.
  if ends <= now then return state end
  local was = period_of(old) or state[3] - state[2]
  local is_longer = (period_of(rule) or ends - starts) > was
  local holds_start = starts <= state[2]
  if rule.align == 1 and later(state[2], rule.period) > now then
    holds_start, ends = true, later(state[2], rule.period)
  end
  state[3] = is_longer and holds_start and ends or min(ends, state[3])
  return state
end

kernels[2] = window
