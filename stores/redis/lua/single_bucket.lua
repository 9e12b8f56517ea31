-- A take of one plain bucket without levels: as `straight.lua`, without a table made
-- on the way. Answers the level after it; less than nothing, the level as it is, if it is
-- refused; false for whatever is not as plain as that, and the whole script is called.
-- KEYS: the row, the order of those who wait; where usage is counted, its records and their order.
-- ARGV: eight doubles: whether the caller's clock decides, its now, the revision, then drain,
-- weight, brim, capacity and the amount; and where usage is counted what `usage.record` needs.
-- The row is written flat, each number in its place: these are the forms of `flat.lua` for one bucket.
-- (What `batch.lua` says beside the arguments is there in a batch alone.)
local EXACT, BEGINNING, ROW = 9007199254740992, -9007199254740992, '<BBdddBddddI4'
local ROW_COUNTED = '<BBdddBddddI4ddd'

if redis.call('EXISTS', KEYS[2]) == 1 then return false end
local is_callers, now, revision, drain, weight, brim, capacity, amount =
  struct.unpack('<dddddddd', ARGV[1])
if is_callers == 0 then
  local time = ARGV.time or redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local level, kept_until, used_hour, used, rest_at = 0, 0, nil, nil, nil
local kept = redis.call('GET', KEYS[1])
if kept then
  local by, latest, at, states, own, retained, last, _
  if string.byte(kept) == 193 then
    if #kept ~= 63 then return false end
    _, _, by, latest, _, _, level, at, _, last = struct.unpack(ROW, kept)
    if last ~= BEGINNING then return false end
  elseif string.byte(kept) == 195 then
    local count, tail
    _, count, by, latest, kept_until, _, level, at, _, last, tail, used_hour, _, used, rest_at =
      struct.unpack(ROW_COUNTED, kept)
    if count ~= 1 or last ~= BEGINNING or tail ~= 0 then return false end
  else
    by, latest, states, own, retained = cmsgpack.unpack(kept)
    if by ~= revision or own or retained then return false end
    local state = states[1] or 0
    if state ~= 0 then
      level, at = state[2], state[3]
      if state[4] or state[5] or type(level) ~= 'number' then return false end
    end
  end
  if by ~= revision or now < latest or at and now < at then return false end
  local drained = at and (now - at) * drain or 0
  level = drained < level and level - drained or 0
end

local wanted = level + amount * weight
if wanted >= EXACT or amount > capacity then return false end
if wanted > brim then return -level end
-- A moment after it has drained the row equals "never seen".
local forget_at, retention_and_names = now + wanted / drain + (ARGV.longer or 0), ARGV[2]
if not retention_and_names then
  local row = struct.pack(ROW, 193, 1, revision, now, 0, 1, wanted, now, 0, BEGINNING, 0)
  if is_callers == 1 or forget_at >= EXACT then
    redis.call('SET', KEYS[1], row)
  else
    redis.call('SET', KEYS[1], row, 'PXAT', math.floor(forget_at / 1000) + 1)
  end
  return wanted
end

local hour = usage.hour_of(now)
-- A row of this hour of which nothing was used may be kept for its limits alone.
if used_hour ~= hour or used == 0 or used + amount >= EXACT then
  if used_hour then
    local of_row = string.sub(kept, rest_at)
    usage.record(KEYS[3], KEYS[4], of_row, { used }, used_hour, now, is_callers == 1)
  end
  used, kept_until = 0, 0
end
-- The TTL is set once an hour, and again if the bucket drains later than that.
local is_kept = is_callers == 1 or kept_until >= forget_at and kept_until > 0
if not is_kept then
  kept_until = math.max(forget_at, usage.over_at(hour, struct.unpack('<d', retention_and_names)))
end
local row = struct.pack(ROW_COUNTED, 195, 1, revision, now, kept_until, 1, wanted, now, 0, BEGINNING, 0,
  hour, forget_at, used + amount) .. retention_and_names
if is_callers == 1 or kept_until >= EXACT then
  redis.call('SET', KEYS[1], row)
elseif is_kept then
  redis.call('SET', KEYS[1], row, 'KEEPTTL')
else
  redis.call('SET', KEYS[1], row, 'PXAT', math.floor(kept_until / 1000) + 1)
end
return wanted
