-- Those who wait under one root, of all processes, in order of arrival. One
-- sorted set has the order, one hash what is known of each: until when it is
-- taken for alive, where it hears that its turn may have come, its key, the rows
-- it waits for, and its entry in the order. Nobody overtakes who waits for a row
-- of his path; others under the same root may pass.
local MOST_WOKEN = 64

local function read_waiter(id)
  local bytes = redis.call('HGET', WAITERS, id)
  if not bytes then return nil end
  local waiter = { id = id }
  waiter.alive_until, waiter.channel, waiter.key, waiter.rows, waiter.entry =
    cmsgpack.unpack(bytes)
  return waiter
end

local function remove_waiter(entry, id)
  redis.call('ZREM', QUEUE, entry)
  redis.call('HDEL', WAITERS, id)
end

-- Calls `act` with each who waits, in order, until it answers true. One
-- without a heartbeat for too long has lost its place.
local function each_waiter(now, act)
  local from = 0
  while true do
    local entries = redis.call('ZRANGE', QUEUE, from, from + 15)
    if not entries[1] then return end
    for _, entry in ipairs(entries) do
      local id = string.sub(entry, 9)
      local waiter = read_waiter(id)
      if not waiter or waiter.alive_until <= now then
        remove_waiter(entry, id)
      elseif act(waiter) then
        return
      else
        from = from + 1
      end
    end
  end
end

-- The rows of a key's path, by name.
local function rows_of(key)
  local names = {}
  for level = 1, plan.levels do
    local name = row_name(key, level, plan.levels)
    if not name then break end
    names[level] = name
  end
  return names
end

lines = {}

-- Whether somebody ahead waits for a row of the path: then which.
function lines.kept_at(now)
  local mine, kept = {}, nil
  for _, name in ipairs(rows_of(request.key)) do mine[name] = true end
  each_waiter(now, function(waiter)
    if request.turn and waiter.id == request.turn.id then return true end
    for _, name in ipairs(waiter.rows) do
      if mine[name] then
        kept = kept or {}
        table.insert(kept, name)
      end
    end
    return kept ~= nil
  end)
  return kept
end

-- The request stays in line, and waits for these rows.
function lines.stay(now, names)
  local turn = request.turn
  local record = cmsgpack.pack(later(now, turn.alive), turn.channel, request.key, names, turn.entry)
  redis.call('HSET', WAITERS, turn.id, record)
  if request.clock == 'server' then
    local twice_ms = whole(math.ceil(turn.alive / 500))
    redis.call('PEXPIRE', QUEUE, twice_ms)
    redis.call('PEXPIRE', WAITERS, twice_ms)
  end
end

-- Gives the request a place, if it has none yet, or its own again if the order was
-- evicted.
function lines.stand(now)
  local turn = request.turn
  local known = read_waiter(turn.id)
  turn.entry = known and known.entry
  if known and redis.call('ZSCORE', QUEUE, turn.entry) then return end
  if not known then
    local number = redis.call('HINCRBY', WAITERS, 'n', '1')
    turn.entry = struct.pack('>I8', number) .. turn.id
  end
  redis.call('ZADD', QUEUE, whole(earlier(now, turn.ahead)), turn.entry)
  if not known then lines.stay(now, {}) end
end

-- The rows that refused a part.
function lines.refused_at(parts)
  local names = {}
  for _, part in ipairs(parts) do
    if part.verdict ~= ADMIT and not part.limit.shadow then
      table.insert(names, row_name(request.key, part.limit.level, plan.levels))
    end
  end
  return names
end

-- Tells everyone who is kept back by nobody to ask again.
function lines.wake(now)
  local blocked, root, looked = {}, row_name(request.key, 1, plan.levels), 0
  each_waiter(now, function(waiter)
    local is_kept = false
    for _, name in ipairs(rows_of(waiter.key)) do is_kept = is_kept or blocked[name] end
    if not is_kept then redis.call('PUBLISH', waiter.channel, waiter.id) end
    for _, name in ipairs(waiter.rows) do blocked[name] = true end
    looked = looked + 1
    return blocked[root] or looked >= MOST_WOKEN
  end)
  if redis.call('ZCARD', QUEUE) == 0 then redis.call('DEL', WAITERS) end
end

-- The request has no place any more; whoever it kept back may go.
function lines.leave(now)
  local known = read_waiter(request.turn.id)
  local entry = request.turn.entry or known and known.entry
  if entry then remove_waiter(entry, request.turn.id) end
  lines.wake(now)
end
