-- How low a bucket has stood since each lease that may still give back: what
-- `core/src/kernel/bucket/lows.rs` explains. `{ since, last, numbers, levels }`.
local lows = {}
local MOST_MARKS = 32

-- Makes one mark of the two whose levels are nearest.
local function merge_marks(numbers, levels)
  local nearest, gap = 1, nil
  for i = 1, #levels - 1 do
    local this = beyond(levels[i + 1], levels[i])
    if not gap or less(this, gap) then nearest, gap = i, this end
  end
  table.remove(numbers, nearest)
  table.remove(levels, nearest + 1)
end

-- Notes the level: before each charge, and wherever it is 0.
function lows.note(cell, level, now)
  local kept = cell[4]
  if not kept then return end
  if level == 0 and now > kept[2] then
    if cell[5] then cell[4] = false else cell[4] = nil end
    return
  end
  local last, numbers, levels = kept[2], kept[3], kept[4]
  local n = #levels
  while n > 0 and not less(levels[n], level) do
    numbers[n], levels[n] = nil, nil
    n = n - 1
  end
  if n == 0 or numbers[n] < last then
    numbers[n + 1], levels[n + 1] = last, level
    if n + 1 > MOST_MARKS then merge_marks(numbers, levels) end
  end
end

-- The number of a lease that charges now.
function lows.number(cell, now)
  local kept = cell[4]
  if kept then
    kept[2] = max(later(kept[2], 1), now)
    return kept[2]
  end
  cell[4] = { now, now, {}, {} }
  return now
end

-- Takes off the marks since `first` what comes back, and drops those before it
-- that are no lower any more.
local function lower_marks(numbers, levels, first, back)
  for i = first, #levels do levels[i] = beyond(levels[i], back) end
  local low = levels[first]
  if not low then return end
  local lower = first
  while lower > 1 and not less(levels[lower - 1], low) do lower = lower - 1 end
  for _ = lower, first - 1 do
    table.remove(numbers, lower)
    table.remove(levels, lower)
  end
end

-- What comes back of a `weight` that lease `number` did not use.
function lows.give_back(kept, number, weight, level)
  if number < kept[1] or number > kept[2] then return 0 end
  local numbers, levels = kept[3], kept[4]
  local first = 1
  while numbers[first] and numbers[first] < number do first = first + 1 end
  local lowest = level
  if levels[first] then lowest = least(levels[first], level) end
  local back = least(weight, lowest)
  lower_marks(numbers, levels, first, back)
  return back
end

function lows.forget_at(kept)
  return later(kept[2], 1)
end

-- Carries the levels over to other weights. What rounding makes equal, the
-- later mark says for both.
function lows.convert(kept, convert)
  local numbers, levels = {}, {}
  for i = 1, #kept[4] do
    local level, n = convert(kept[4][i]), #levels
    local same = n > 0 and not less(levels[n], level) and not less(level, levels[n])
    if not same then n = n + 1 end
    numbers[n], levels[n] = kept[3][i], level
  end
  kept[3], kept[4] = numbers, levels
end
