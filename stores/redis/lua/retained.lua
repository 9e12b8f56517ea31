-- States of limits that the plan at hand does not know (`store/src/retained.rs`): a row
-- that goes to and fro between servers of different plans has them behind everything else,
-- a limit with its state each.
local MOST_RETAINED = 16

-- Whether this script lacks what such a state needs: it has no more than its plan does.
local function lacks_kernels()
  for _, row in pairs(rows) do
    for _, known in ipairs(row.retained or {}) do
      if not kernels[known[1].kind] then return true end
    end
  end
  return false
end

local function limit_of(limits, uid)
  for position, limit in ipairs(limits) do
    if limit.uid == uid then return limit, position end
  end
end

-- Takes what a row retains of a limit out of it.
local function take_retained(row, uid)
  for i, known in ipairs(row.retained or {}) do
    if known[1].uid == uid then return table.remove(row.retained, i) end
  end
end

-- Adds what a row has by limits of which some are unknown to others, which it goes by
-- from here on. What is spent goes, and of too many what is spent first.
local function retain(row, before, after, now)
  local retained = row.retained or {}
  for _, limit in ipairs(before) do
    local state = row.states[limit.state_at]
    if state ~= FRESH and not limit_of(after, limit.uid) then
      take_retained(row, limit.uid)
      table.insert(retained, { limit, state })
    end
  end
  local left = {}
  for _, known in ipairs(retained) do
    if rule.forget_at(known[1], known[2]) > now then table.insert(left, known) end
  end
  while #left > MOST_RETAINED do
    local first = 1
    for i, known in ipairs(left) do
      if rule.forget_at(known[1], known[2]) < rule.forget_at(left[first][1], left[first][2]) then
        first = i
      end
    end
    table.remove(left, first)
  end
  row.retained = left[1] and left
end

-- Calls `act` with the states of the slots that the command's path retains.
local function each_retained_slots(now, act)
  for _, row in ipairs(path) do
    for _, known in ipairs(row.retained or {}) do
      if known[1].kind == SLOTS then
        rule.observe(known[1], known[2], now, false)
        act(kernels[SLOTS], known[2])
      end
    end
  end
end

-- Forgets what a row retains but slots, as a reset does.
local function reset_retained(row)
  local left = {}
  for _, known in ipairs(row.retained or {}) do
    if known[1].kind == SLOTS then table.insert(left, known) end
  end
  row.retained = left[1] and left
end
