-- The leases of a root (`contract/src/book.rs`). One hash holds the records by
-- id ("l" and the id), the ids of those that are held by idempotency key ("a" and
-- the key), the newest number ("n"), and the edition up to which changes of limits
-- were followed ("e"); one sorted set holds what is to be looked at when.
local LIVE, EXPIRED, ENDED = 0, 1, 2
local MOST_ANEW = 2000
local book_changed

local function whole(number)
  return string.format('%.0f', number)
end

-- An idempotency key belongs to its key: the two, told apart by a length.
local function ask_field(owner, idempotency)
  return 'a' .. struct.pack('<I4', #owner) .. owner .. idempotency
end

-- Shares: uid, amount, place, forgotten. A settlement: expired, then uses: uid,
-- taken, used.
local function read_record(id)
  local bytes = redis.call('HGET', BOOK, 'l' .. id)
  if not bytes then return nil end
  local record = { id = id }
  record.owner, record.expires_at, record.fence, record.stage, record.due,
    record.number, record.idempotency, record.shares, record.settlement =
    cmsgpack.unpack(bytes)
  return record
end

-- Entries that are due at one instant are taken in the order they were made.
local function due_member(record)
  return struct.pack('>I8', record.number) .. record.id
end

local function put_record(record, due)
  record.due, record.number = due, redis.call('HINCRBY', BOOK, 'n', 1)
  -- What is in the order of time before the first record is of records that were
  -- evicted.
  if record.number == 1 then redis.call('UNLINK', DUE) end
  redis.call('ZADD', DUE, whole(due), due_member(record))
  local bytes = cmsgpack.pack(
    record.owner, record.expires_at, record.fence, record.stage, record.due,
    record.number, record.idempotency, record.shares, record.settlement)
  redis.call('HSET', BOOK, 'l' .. record.id, bytes)
  if record.idempotency and record.stage == LIVE then
    redis.call('HSET', BOOK, ask_field(record.owner, record.idempotency), record.id)
  end
  book_changed = true
end

local function remove_record(record)
  redis.call('ZREM', DUE, due_member(record))
  redis.call('HDEL', BOOK, 'l' .. record.id)
  if record.idempotency then
    local field = ask_field(record.owner, record.idempotency)
    if redis.call('HGET', BOOK, field) == record.id then redis.call('HDEL', BOOK, field) end
  end
  book_changed = true
end

-- The edition up to which changes of limits were followed, if there is a book.
local function book_edition()
  return tonumber(redis.call('HGET', BOOK, 'e'))
end

-- The order of time, when it was evicted and the records were not. Of so many that
-- this would take long, the records are given up, too.
local function order_anew()
  if redis.call('HLEN', BOOK) > MOST_ANEW then
    redis.call('UNLINK', BOOK)
    return
  end
  for _, field in ipairs(redis.call('HKEYS', BOOK)) do
    local record = string.sub(field, 1, 1) == 'l' and read_record(string.sub(field, 2))
    if record then redis.call('ZADD', DUE, whole(record.due), due_member(record)) end
  end
  book_changed = true
end

-- When the next record is due; nil if there is none.
local function next_due()
  local first = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  if not first[1] and redis.call('EXISTS', BOOK) == 1 then
    order_anew()
    first = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  end
  return tonumber(first[2])
end

-- The record that is due next, if it is by `now`.
local function due_record(now)
  local first = redis.call('ZRANGEBYSCORE', DUE, '-inf', whole(now), 'LIMIT', 0, 1)
  if not first[1] then return nil end
  return read_record(string.sub(first[1], 9))
end

-- The lease `id` of the command's key; nil if there is none, or it is another's.
local function find_record(id)
  local record = read_record(id)
  if record and record.owner == ask.key then return record end
  return nil
end

-- Whether `owner` is `key` or has it for an ancestor. The levels say so, not
-- the separators.
local function is_below(owner, key, level)
  if owner == key then return true end
  if level >= plan.levels then return false end
  return string.sub(owner, 1, #key + 1) == key .. '/'
end

-- Notes that what leases of `key` took of its own limits is not given back.
local function forget_charges(key, level)
  local own = {}
  for _, limit in ipairs(plan.limits) do
    if limit.level == level then own[limit.uid] = true end
  end
  local fields = redis.call('HKEYS', BOOK)
  for _, field in ipairs(fields) do
    local record = string.sub(field, 1, 1) == 'l' and read_record(string.sub(field, 2))
    if record and is_below(record.owner, key, level) then
      for _, share in ipairs(record.shares) do
        if own[share[1]] then share[4] = 1 end
      end
      redis.call('HSET', BOOK, field, cmsgpack.pack(
        record.owner, record.expires_at, record.fence, record.stage, record.due,
        record.number, record.idempotency, record.shares, record.settlement))
    end
  end
end

-- Keeps the book for as long as something in it is remembered. What was due was
-- dealt with, so all changes of limits up to the plan's were followed.
local function save_book(followed)
  if not book_changed then return end
  local last = redis.call('ZRANGE', DUE, -1, -1, 'WITHSCORES')
  if not last[1] then
    redis.call('DEL', BOOK)
    return
  end
  if followed and (book_edition() or 0) < plan.edition then
    redis.call('HSET', BOOK, 'e', whole(plan.edition))
  end
  if ask.clock == 'caller' then return end
  local forget_at = tonumber(last[2]) + plan.keep
  if forget_at >= NEVER then
    redis.call('PERSIST', BOOK)
    redis.call('PERSIST', DUE)
    return
  end
  local until_ms = whole(math.ceil(forget_at / 1000))
  redis.call('PEXPIREAT', BOOK, until_ms)
  redis.call('PEXPIREAT', DUE, until_ms)
end
