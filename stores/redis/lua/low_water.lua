-- How low a bucket has stood since each lease that may still give back: what
-- `core/src/kernel/bucket/low_water.rs` explains. `{ since, last, marks }`; a mark is 24
-- bytes: its number, and its level in two parts, of which the first is 0 below 2^53. As
-- one string they are read and written at once, however many there are.
low_water = {}
local MOST_MARKS = 32
local MARK, MARK_BYTES = '>ddd', 24

local function pack_mark(number, level)
  if type(level) == 'number' then return struct.pack(MARK, number, 0, level) end
  local high = (level[3] or 0) + LIMB * ((level[4] or 0) + LIMB * (level[5] or 0))
  return struct.pack(MARK, number, high, level[1] + LIMB * level[2])
end

-- The number and the level of the mark that ends at this byte.
local function mark_to(marks, at)
  local number, high, low = struct.unpack(MARK, marks, at - 23)
  if high == 0 then return number, low end
  local limbs_of_low, limbs_of_high = limbs(low), limbs(high)
  return number, shorten({
    limbs_of_low[1], limbs_of_low[2], limbs_of_high[1], limbs_of_high[2], limbs_of_high[3],
  })
end

-- Makes one mark of the two whose levels are nearest.
local function merge_marks(marks)
  local nearest, gap = MARK_BYTES, nil
  local _, before = mark_to(marks, MARK_BYTES)
  for at = 2 * MARK_BYTES, #marks, MARK_BYTES do
    local _, level = mark_to(marks, at)
    local this = beyond(level, before)
    if not gap or less(this, gap) then nearest, gap = at - MARK_BYTES, this end
    before = level
  end
  local _, level = mark_to(marks, nearest)
  local number = mark_to(marks, nearest + MARK_BYTES)
  return string.sub(marks, 1, nearest - MARK_BYTES) .. pack_mark(number, level)
    .. string.sub(marks, nearest + MARK_BYTES + 1)
end

-- What is kept once the level was noted; nothing if no lease may give back any more.
function low_water.noted(since, last, marks, level, now)
  if level == 0 and now > last then return nil end
  local at, number, noted = #marks, nil, nil
  while at > 0 do
    number, noted = mark_to(marks, at)
    if less(noted, level) then break end
    at = at - MARK_BYTES
  end
  if at < #marks then marks = string.sub(marks, 1, at) end
  if at == 0 or number < last then marks = marks .. pack_mark(last, level) end
  if #marks > MOST_MARKS * MARK_BYTES then marks = merge_marks(marks) end
  return since, last, marks
end

-- Notes the level: before each charge, and wherever it is 0.
function low_water.note(state, level, now)
  local kept = state[4]
  if not kept then return end
  local since, last, marks = low_water.noted(kept[1], kept[2], kept[3], level, now)
  if since then
    state[4] = { since, last, marks }
  elseif state[5] then
    state[4] = false
  else
    state[4] = nil
  end
end

-- The number of a lease that charges now, after the last one, if there is any.
function low_water.next_number(last, now)
  return last and max(later(last, 1), now) or now
end

function low_water.number(state, now)
  local kept = state[4]
  local number = low_water.next_number(kept and kept[2], now)
  state[4] = { kept and kept[1] or now, number, kept and kept[3] or '' }
  return number
end

-- Behind how many bytes the marks begin that lease `number` has seen.
local function seen_since(marks, number)
  local low, high = 0, #marks
  while low < high do
    local middle = fmod(low + high, 2 * MARK_BYTES) == 0 and (low + high) / 2
      or (low + high - MARK_BYTES) / 2
    if (struct.unpack('>d', marks, middle + 1)) < number then
      low = middle + MARK_BYTES
    else
      high = middle
    end
  end
  return low
end

-- Takes off the marks since `first` bytes what comes back, and drops those before
-- them that are no lower any more.
local function lower_marks(marks, first, back)
  local lowered, low = {}, nil
  for at = first + MARK_BYTES, #marks, MARK_BYTES do
    local number, level = mark_to(marks, at)
    level = beyond(level, back)
    low = low or level
    lowered[#lowered + 1] = pack_mark(number, level)
  end
  if not low then return marks end
  while first > 0 do
    local _, level = mark_to(marks, first)
    if less(level, low) then break end
    first = first - MARK_BYTES
  end
  return string.sub(marks, 1, first) .. table.concat(lowered)
end

-- What comes back of a `weight` that lease `number` did not use, and the marks after it.
function low_water.given_back(since, last, marks, number, weight, level)
  if number < since or number > last then return 0, marks end
  local first, lowest = seen_since(marks, number), level
  if first < #marks then
    local _, noted = mark_to(marks, first + MARK_BYTES)
    lowest = least(noted, level)
  end
  local back = least(weight, lowest)
  return back, lower_marks(marks, first, back)
end

function low_water.give_back(kept, number, weight, level)
  local back
  back, kept[3] = low_water.given_back(kept[1], kept[2], kept[3], number, weight, level)
  return back
end

function low_water.forget_at(kept)
  return later(kept[2], 1)
end

-- Carries the levels over to other weights. What rounding makes equal, the
-- later mark says for both.
function low_water.convert(kept, convert)
  local converted, before = {}, nil
  for at = MARK_BYTES, #kept[3], MARK_BYTES do
    local number, level = mark_to(kept[3], at)
    level = convert(level)
    local same = before and not less(before, level) and not less(level, before)
    converted[#converted + (same and 0 or 1)] = pack_mark(number, level)
    before = level
  end
  kept[3] = table.concat(converted)
end
