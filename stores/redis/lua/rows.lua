-- Rows: the states of one level's limits for one key or ancestor, in the plan's
-- order. A row is kept as one string: the revision of the plan that wrote it,
-- the latest instant, the states, and the limits that its key had for itself, if
-- it had any: those of its level, in order, in MessagePack; and what it retains of
-- limits that its plan does not know (retained.lua).
local keys, arguments
local plan, request, other_levels, own_limits, moved
local LEDGER, DUE, QUEUE, WAITERS
local FIRST_ROW = 7

-- A server's clock may stand behind what was written by another before a
-- failover: as far as this, time stands still. Beyond, the clock has stepped
-- back, and each limit takes note of it by itself.
local PATIENCE = 10000000

-- Every row by its key, and those of the command's path by level.
local rows, path

local function fresh_states(level)
  local states = {}
  for i = 1, plan.widths[level] or 0 do states[i] = FRESH end
  return states
end

local OUTDATED = 'written by an earlier form of this store, which is read no more: '
  .. 'stop all servers, and delete the keys of this prefix'

-- A limit's state of a flat row.
local function state_of_flat(kind, first, second, third, fourth, tail)
  local its_first, its_second, its_third = flat_row.fresh_numbers(kind)
  local is_fresh = first == its_first and second == its_second and tail == ''
  if is_fresh and (kind == 1 and fourth == BEGINNING or kind ~= 1 and third == its_third) then
    return FRESH
  end
  if kind == 5 then return { 5, first, second, third, tail } end
  if kind == 2 then return { 2, first, second, third } end
  return { 1, first, second, fourth ~= BEGINNING and { third, fourth, tail } or nil }
end

-- The revision of a flat row, its latest instant, its states, and what it has counted.
local function load_flat(bytes)
  local numbers, last, rest_at = flat_row.read(bytes)
  local states, tail_at = {}, numbers[last + 1]
  for i = 1, numbers[2] do
    local at = 6 * i
    local tail = string.sub(bytes, tail_at, tail_at + numbers[at + 5] - 1)
    states[i] = state_of_flat(numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3],
      numbers[at + 4], tail)
    tail_at = tail_at + #tail
  end
  return numbers[3], numbers[4], states, flat_row.used(bytes, numbers, last, rest_at)
end

-- `own` is what the plan says of the key alone, `by` what its states go by.
local function load_row(key, level, kept, own)
  local row = { key = key, level = level, was = kept, latest = BEGINNING, own = own }
  local first = kept and string.byte(kept)
  if first == FLAT or first == FLAT_COUNTED then
    row.revision, row.latest, row.states, row.used = load_flat(kept)
    row.read = cmsgpack.pack(row.revision, row.states)
  elseif kept then
    row.revision, row.latest, row.states, row.by, row.retained = cmsgpack.unpack(kept)
    row.by = row.by or nil
    for _, state in ipairs(row.states) do
      if state ~= FRESH and flat_row.is_outdated(state) then error(OUTDATED) end
    end
  else
    row.states, row.by = fresh_states(level), own
  end
  if own then row.limits = cmsgpack.unpack(own) end
  rows[key] = row
  return row
end

-- The plan as it decides about the path: each level has the limits of its row, and
-- those that the command gives another capacity have that, for this one decision.
-- The plan itself is left as it is: the next call may be by the same.
local function combine()
  local common, combined = plan, {}
  plan = { common = common.limits, limits = combined }
  for field, value in pairs(common) do
    if field ~= 'limits' then plan[field] = value end
  end
  for i, limit in ipairs(common.limits) do
    local row = path[limit.level]
    combined[i] = moved[i] or row and row.limits and row.limits[limit.state_at] or limit
  end
end

local function load_rows()
  local kept = redis.call('MGET', unpack(keys, FIRST_ROW))
  for i, value in ipairs(kept) do
    local level = i <= request.depth and i or other_levels[i - request.depth]
    local row = load_row(keys[FIRST_ROW + i - 1], level, value, own_limits[i] or nil)
    if i <= request.depth then path[i] = row end
  end
  if next(own_limits) or next(moved) then combine() end
end

-- What the plan says of the limit at `at` of a row.
local function limit_at(row, at)
  if row.limits then return row.limits[at] end
  return (plan.common or plan.limits)[plan.starts[row.level] + at]
end

-- The instant of the decision: the caller's, or the server's, which for one
-- key only goes forward; in a batch that of the batch.
local function instant()
  if request.clock == 'caller' then return request.now end
  local time = arguments.time or redis.call('TIME')
  local now, latest = tonumber(time[1]) * 1000000 + tonumber(time[2]), BEGINNING
  for _, row in pairs(rows) do latest = max(latest, row.latest) end
  if latest - now <= PATIENCE then return max(now, latest) end
  return now
end

-- From when on all states of a row equal "never seen".
local function row_forget_at(row)
  local at = BEGINNING
  for i = 1, #row.states do
    if row.states[i] ~= FRESH then
      at = max(at, rule.forget_at(limit_at(row, i), row.states[i]))
    end
  end
  for _, known in ipairs(row.retained or {}) do
    at = max(at, rule.forget_at(known[1], known[2]))
  end
  return at
end

local function is_fresh(row)
  for i = 1, #row.states do
    if row.states[i] ~= FRESH then return false end
  end
  return not row.retained
end

-- What a row has, but for its revision and its instant.
local function packed(row)
  if row.retained then return cmsgpack.pack(row.states, row.by or false, row.retained) end
  if row.by then return cmsgpack.pack(row.states, row.by) end
  return cmsgpack.pack(row.states)
end

-- Writes a row if it has changed. What equals "never seen" is not kept: where
-- the caller's clock decides only once nothing is noted of it at all, for that
-- clock may step back.
local function save_row(row, now)
  if is_fresh(row) then
    usage.record_row(row, now)
    if row.was then redis.call('DEL', row.key) end
    return
  end
  local states = packed(row)
  local moves = row.used and usage.is_less()
  if row.was == cmsgpack.pack(row.revision, row.latest) .. states then return end
  if row.read and not row.by and not moves and row.read == cmsgpack.pack(row.revision, row.states) then
    return
  end
  usage.record_row(row, now)
  local revision = row.revision or plan.revision
  local bytes = cmsgpack.pack(revision, now) .. states
  -- Halfway through a change of limits it is soon written again.
  if request.clock == 'caller' or revision ~= plan.revision or row.by ~= row.own then
    redis.call('SET', row.key, bytes)
    return
  end
  local forget_at = row_forget_at(row)
  if forget_at <= now then
    if row.was then redis.call('DEL', row.key) end
  elseif forget_at >= NEVER then
    redis.call('SET', row.key, bytes)
  else
    local until_ms = string.format('%.0f', math.ceil((forget_at + (arguments.longer or 0)) / 1000))
    redis.call('SET', row.key, bytes, 'PXAT', until_ms)
  end
end
