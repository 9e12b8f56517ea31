-- The leases of a root (`store/src/ledger.rs`). One hash holds the records by
-- id ("l" and the id), the ids of those that are held by idempotency key ("a" and
-- the key), and its head ("h"); one sorted set holds what is to be looked at when.
--
-- A reset notes its number by key ("f", the level and the key), and does not look at
-- the leases: what one that is older took of the limits that were reset is not given
-- back. The newest such number is in the head. A note is in the order of time
-- behind every lease that it concerns, and goes when it comes first.
local MOST_ANEW = 2000
local MOST_RESETS = 200
local SLASH = 47
local ledger_changed

-- (`%d` makes a C `long` of it, which some servers have 32 bits for.)
local function whole(number)
  return string.format('%.0f', number)
end

-- An idempotency key belongs to its key: the two, told apart by a length.
local function idempotency_field(owner, idempotency)
  return 'a' .. struct.pack('<I4', #owner) .. owner .. idempotency
end

-- The name of the row at `level` of a path of entities: its root, or a slash for each level
-- between its root and its id.
local function row_of_entity(path, level)
  local root_end = string.find(path, '/', 2, true) - 1
  if level == 1 then return string.sub(path, 2, root_end) end
  local from = root_end + 2
  for _ = 3, level do
    local found = string.find(path, '/', from, true)
    if not found then return nil end
    from = found + 1
  end
  local id = string.sub(path, from, (string.find(path, '/', from, true) or 0) - 1)
  return string.sub(path, 1, root_end) .. string.rep('/', level - 1) .. id
end

-- The name of the row of `owner` at `level` (`store/src/key.rs`); nil if the owner does not
-- reach it.
local function row_name(owner, level, levels)
  if levels > 1 and string.byte(owner) == SLASH then return row_of_entity(owner, level) end
  local from, found = 1, nil
  for at = 1, level do
    if at == levels then return owner end
    found = string.find(owner, '/', from, true)
    if not found then
      if at == level then return owner end
      return nil
    end
    from = found + 1
  end
  return string.sub(owner, 1, found - 1)
end

local function reset_field(key, level)
  return 'f' .. string.char(level) .. key
end

-- Notes in a record what was reset since it was written.
local function follow_resets(record)
  local fields = {}
  for level = 1, plan.levels do
    local name = row_name(record.owner, level, plan.levels)
    if not name then break end
    fields[level] = reset_field(name, level)
  end
  local notes = redis.call('HMGET', LEDGER, unpack(fields))
  for level = 1, #fields do
    local reset = notes[level] and cmsgpack.unpack(notes[level]) or {}
    for _, share in ipairs(record.shares) do
      if (reset[share[1]] or 0) > record.number then share[4] = share[4] - share[4] % 2 + 1 end
    end
  end
end

-- The head of the ledger, once it was read: the newest number, the revision up to which
-- changes of limits were followed (0 if there is no ledger), until when the ledger is kept
-- at least, and the number of the newest reset.
local head

local function read_head()
  if not head then
    local bytes = redis.call('HGET', LEDGER, 'h')
    head = { number = 0, followed = 0, kept_until = 0, reset = 0 }
    if bytes then
      head.number, head.followed, head.kept_until, head.reset = struct.unpack(HEAD, bytes)
    elseif redis.call('HEXISTS', LEDGER, 'n') == 1 then
      error(OUTDATED)
    end
  end
  return head
end

local function write_head()
  local bytes = struct.pack(HEAD, head.number, head.followed, head.kept_until, head.reset)
  redis.call('HSET', LEDGER, 'h', bytes)
end

-- The fields of numbers that stand behind each other.
local function unpack_all(format, size, bytes, from, to)
  local all = {}
  for at = from, to - 1, size do
    local fields = { struct.unpack('<' .. format, bytes, at) }
    -- Behind them is where the next begins.
    fields[#fields] = nil
    all[#all + 1] = fields
  end
  return all
end

-- Shares: uid, amount, reference, marks: 1 if it is forgotten, and twice the level at which it is
-- counted as used, if it is. A settlement: expired, then uses: uid,
-- taken, used.
local function read_record(id)
  local bytes = redis.call('HGET', LEDGER, 'l' .. id)
  if not bytes then return nil end
  local record, shares, at = { id = id, settlement = false }, nil, nil
  record.stage, record.expires_at, record.fence, record.due, record.number,
    record.granted_at, record.owner, record.idempotency, shares, at, record.counted =
    unpack_lease(bytes)
  record.shares = unpack_all(SHARE, SHARE_BYTES, bytes, at, at + shares)
  if record.stage == ENDED then
    local uses_at = at + shares + 1
    local uses = unpack_all(USE, USE_BYTES, bytes, uses_at, #bytes + 1)
    record.settlement = { string.byte(bytes, uses_at - 1), uses }
  end
  if read_head().reset > record.number then follow_resets(record) end
  return record
end

-- A lease remembers so many charges of one limit apart; one more for each level at which none of
-- them is counted.
local MOST_CHARGES = 8

-- How much a lease has taken of the limit `uid`.
local function taken_of(record, uid)
  local taken = 0
  for _, share in ipairs(record.shares) do
    if share[1] == uid then taken = taken + share[2] end
  end
  return taken
end

-- Whether a lease was granted some of the limit `uid`, though that may all have come back.
local function took(record, uid)
  for _, share in ipairs(record.shares) do
    if share[1] == uid then return true end
  end
  return false
end

-- Calls `act` with each share of the limit `uid` and how much of `amount` comes out of
-- it, the latest first.
local function latest_first(record, uid, amount, act)
  for i = #record.shares, 1, -1 do
    local share = record.shares[i]
    if share[1] == uid and amount > 0 then
      local part = min(share[2], amount)
      amount = amount - part
      act(share, part)
    end
  end
end

-- It has taken more, and nothing of that is forgotten. Of many charges the last ones count as
-- booked with the one before them that is counted at the same level, if there is one.
local function take_more(record, uid, amount, reference, marks)
  local count, last, alike = 0, nil, nil
  for _, share in ipairs(record.shares) do
    if share[1] == uid then
      count, last = count + 1, share
      if math.floor(share[4] / 2) == math.floor(marks / 2) then alike = share end
    end
  end
  if last and last[2] == 0 then
    -- It has come back, and counts no more.
    last[2], last[3], last[4] = amount, reference, marks
  elseif last and last[3] == reference and last[4] == marks then
    last[2] = last[2] + amount
  elseif alike and count >= MOST_CHARGES then
    alike[2] = alike[2] + amount
  else
    table.insert(record.shares, { uid, amount, reference, marks })
  end
end

-- That much of it was given back, the latest first. If that is all, it is as if it had never
-- taken of it, unless that `stays`.
local function take_less(record, uid, amount, stays)
  latest_first(record, uid, amount, function(share, part) share[2] = share[2] - part end)
  local left, has_one = {}, not stays or taken_of(record, uid) > 0
  for _, share in ipairs(record.shares) do
    if share[1] ~= uid or share[2] > 0 then
      table.insert(left, share)
    elseif not has_one then
      table.insert(left, share)
      has_one = true
    end
  end
  record.shares = left
end

-- Entries that are due at one instant are taken in the order they were made.
local function due_member(record)
  return struct.pack('>I8', record.number) .. record.id
end

local function pack_all(format, all)
  local packed = {}
  for i, fields in ipairs(all) do packed[i] = struct.pack('<' .. format, unpack(fields)) end
  return table.concat(packed)
end

local function pack_record(record)
  local stage = record.stage + (record.counted and COUNTED or 0)
  local bytes = pack_lease(stage, record.expires_at, record.fence, record.due,
    record.number, record.granted_at, record.owner, record.idempotency,
    pack_all(SHARE, record.shares))
  if record.stage ~= ENDED then return bytes end
  local expired, uses = unpack(record.settlement)
  return bytes .. string.char(expired) .. pack_all(USE, uses)
end

local function next_number()
  read_head().number = head.number + 1
  -- What is in the order of time before the first is of records that were evicted.
  if head.number == 1 then redis.call('UNLINK', DUE) end
  return head.number
end

local function put_record(record, due)
  record.due, record.number = due, next_number()
  redis.call('ZADD', DUE, whole(due), due_member(record))
  redis.call('HSET', LEDGER, 'l' .. record.id, pack_record(record))
  if record.idempotency and record.stage == LIVE then
    redis.call('HSET', LEDGER, idempotency_field(record.owner, record.idempotency), record.id)
  end
  ledger_changed = true
end

local function remove_record(record)
  redis.call('ZREM', DUE, due_member(record))
  redis.call('HDEL', LEDGER, 'l' .. record.id)
  if record.idempotency then
    local field = idempotency_field(record.owner, record.idempotency)
    if redis.call('HGET', LEDGER, field) == record.id then redis.call('HDEL', LEDGER, field) end
  end
  ledger_changed = true
end

-- The revision up to which changes of limits were followed, if there is a ledger.
local function ledger_revision()
  local followed = read_head().followed
  return followed > 0 and followed or nil
end

local function follow_ledger(revision)
  read_head().followed = revision
  ledger_changed = true
end

-- The order of time, when it was evicted and the records were not. Of so many that
-- this would take long, the records are given up, too.
local function order_anew()
  if redis.call('HLEN', LEDGER) > MOST_ANEW then
    redis.call('UNLINK', LEDGER)
    head = nil
    return
  end
  local resets = {}
  for _, field in ipairs(redis.call('HKEYS', LEDGER)) do
    local kind = string.sub(field, 1, 1)
    local record = kind == 'l' and read_record(string.sub(field, 2))
    if record then
      redis.call('ZADD', DUE, whole(record.due), due_member(record))
      redis.call('HSET', LEDGER, field, pack_record(record))
    elseif kind == 'f' then
      table.insert(resets, field)
    end
  end
  for _, field in ipairs(resets) do redis.call('HDEL', LEDGER, field) end
  read_head().reset = 0
  ledger_changed = true
end

-- A reset's place in the order of time, which is longer than any record's.
local function reset_member(number, field)
  return struct.pack('>I8I8I8', number, 0, 0) .. field
end

-- The first lease in the order of time, and its instant. A reset that comes first
-- concerns no lease any more; of more than so many the others are for the next call.
local function first_due()
  for _ = 1, MOST_RESETS do
    local first = redis.call('ZRANGE', DUE, '0', '0', 'WITHSCORES')
    if not first[1] or #first[1] <= 24 then return first[1], tonumber(first[2]) end
    redis.call('ZREM', DUE, first[1])
    redis.call('HDEL', LEDGER, string.sub(first[1], 25))
  end
end

-- When the next record is due; nil if there is none.
local function next_due()
  local first, due = first_due()
  if not first and redis.call('EXISTS', LEDGER) == 1 and redis.call('EXISTS', DUE) == 0 then
    order_anew()
    first, due = first_due()
  end
  return due
end

-- The record that is due next, if it is by `now`.
local function due_record(now)
  local first, due = first_due()
  if not first or due > now then return nil end
  return read_record(string.sub(first, 9))
end

-- The lease `id` of the command's key; nil if there is none, or it is another's.
local function find_record(id)
  local record = read_record(id)
  if record and record.owner == request.key then return record end
  return nil
end

-- Notes that what leases of `key` took of its own limits is not given back: all that
-- are in the order of time by now.
local function forget_charges(key, row)
  local last = redis.call('ZRANGE', DUE, '-1', '-1', 'WITHSCORES')
  if not last[1] then return end
  local level = row.level
  local name = row_name(key, level, plan.levels)
  local field, number = reset_field(name, level), next_number()
  local note = redis.call('HGET', LEDGER, field)
  local reset, before = note and cmsgpack.unpack(note) or {}, 0
  for _, at in pairs(reset) do before = max(before, at) end
  redis.call('ZREM', DUE, reset_member(before, field))
  for _, limit in ipairs(plan.limits) do
    if limit.level == level then reset[limit.uid] = number end
  end
  for _, known in ipairs(row.retained or {}) do reset[known[1].uid] = number end
  redis.call('HSET', LEDGER, field, cmsgpack.pack(reset))
  head.reset = number
  redis.call('ZADD', DUE, last[2], reset_member(number, field))
  ledger_changed = true
end

-- Keeps the ledger for as long as something in it is remembered. What was due was
-- dealt with, so all changes of limits up to the plan's were followed.
local function save_ledger(followed)
  if not ledger_changed then return end
  local last = redis.call('ZRANGE', DUE, '-1', '-1', 'WITHSCORES')
  if not last[1] then
    redis.call('DEL', LEDGER)
    return
  end
  if followed then read_head().followed = max(read_head().followed, plan.revision) end
  if request.clock == 'caller' then return write_head() end
  local keep = plan.keep
  if plan.usage and plan.refunds then
    -- What a lease gives back that expires is noted by whoever comes next, or lists what was used. So
    -- many are looked at: where one of them is held, the ledger stays for as long as what it used.
    for _, member in ipairs(redis.call('ZRANGE', DUE, '0', '63')) do
      local record = #member == 24 and redis.call('HGET', LEDGER, 'l' .. string.sub(member, 9))
      if record and string.byte(record) % COUNTED == LIVE then
        keep = max(keep, plan.usage[1] + 3600000000)
        break
      end
    end
  end
  local forget_at = later(tonumber(last[2]), keep)
  read_head().kept_until = forget_at
  write_head()
  if forget_at >= NEVER then
    redis.call('PERSIST', LEDGER)
    redis.call('PERSIST', DUE)
    return
  end
  local until_ms = whole(math.ceil(forget_at / 1000))
  redis.call('PEXPIREAT', LEDGER, until_ms)
  redis.call('PEXPIREAT', DUE, until_ms)
end
