-- Makes a change of an owner's definitions. KEYS: the definitions, a hash; the owner's last
-- changes, the version and the key of each, in order of their versions; until when those last
-- that do not for good, in that order; the keys in order of their bytes; and of events: a hash, their versions in order, those of each subject, and until when they
-- last. ARGV: the key; '1' if there is a value; the value; for how many microseconds, or '';
-- the channel on which others are told; the version that is expected, or ''; '1' if there is
-- an event; its subject; its body; for how many microseconds it is kept, and how many are.
--
-- Answers 1 and the version (0 if there was nothing to remove); or 0 if another version was
-- expected, and what is there: its version (0: nothing), its value, what is left to it.
--
-- A version is the server's clock in microseconds, and one more where that stands: it
-- grows also after a failover that has lost the last ones. The changes may be lost without
-- the rest, where a full server evicts keys: then they begin anew, and whoever knows one of
-- before is given everything. So may the order of the keys, which a page makes anew; of
-- events what is left is dropped.
local MOST_CHANGES, MOST_DROPPED, EXACT = 1024, 100, 9007199254740992
local own, changes, ends, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local events, order, subjects, endings = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local key, lasts, expected = ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[6])
local now = clock()

local function take_out(one)
  redis.call('HDEL', own, one)
  redis.call('ZREM', index, one)
  redis.call('ZREM', ends, one)
end

local there, there_ends, there_value = parts(redis.call('HGET', own, key), now)
if expected and expected ~= (there or 0) then
  if not there then return { 0, '0' } end
  return { 0, number(there), there_value, left(there_ends, now) }
end
if ARGV[2] == '0' and not there then
  return { 1, '0' }
end

local version = math.max(now, last_version(changes) + 1)
redis.call('ZADD', changes, number(version), number(version) .. ' ' .. key)
local surplus = redis.call('ZCARD', changes) - MOST_CHANGES
if surplus > 0 then
  redis.call('ZREMRANGEBYRANK', changes, 0, surplus - 1)
end

if ARGV[2] == '0' then
  take_out(key)
else
  if lasts then
    -- Those that are over are over everywhere: nobody needs to be told.
    local over = redis.call('ZRANGEBYSCORE', ends, '-inf', number(now), 'LIMIT', 0, MOST_DROPPED)
    for _, one in ipairs(over) do take_out(one) end
  end
  local ending = lasts and math.min(now + lasts, EXACT) or 0
  redis.call('HSET', own, key, number(version) .. ' ' .. number(ending) .. ' ' .. ARGV[3])
  redis.call('ZADD', index, 0, key)
  if lasts then
    redis.call('ZADD', ends, number(ending), key)
  else
    redis.call('ZREM', ends, key)
  end
end

local function drop(one)
  local event = redis.call('HGET', events, one)
  if event then
    local _, _, _, subject = told(event)
    redis.call('ZREM', subjects, of_subject(subject) .. in_order(tonumber(one)))
  end
  redis.call('HDEL', events, one)
  redis.call('ZREM', order, one)
  redis.call('ZREM', endings, one)
end

if ARGV[7] == '1' then
  local kept = redis.call('HLEN', events)
  for _, beside in ipairs({ order, subjects, endings }) do
    if redis.call('ZCARD', beside) ~= kept then
      redis.call('DEL', events, order, subjects, endings)
      kept = 0
    end
  end
  local over = redis.call('ZRANGEBYSCORE', endings, '-inf', number(now), 'LIMIT', 0, MOST_DROPPED)
  for _, one in ipairs(over) do drop(one) end
  local too_many = math.min(redis.call('ZCARD', order) + 1 - ARGV[11], MOST_DROPPED)
  if too_many > 0 then
    for _, one in ipairs(redis.call('ZRANGE', order, 0, too_many - 1)) do drop(one) end
  end
  local at, ending = number(version), math.min(now + ARGV[10], EXACT)
  local head = { number(now), number(ending), ARGV[11], number(#ARGV[8]), ARGV[8] .. ARGV[9] }
  redis.call('HSET', events, at, table.concat(head, ' '))
  redis.call('ZADD', order, at, at)
  redis.call('ZADD', subjects, 0, of_subject(ARGV[8]) .. in_order(version))
  redis.call('ZADD', endings, number(ending), at)
end
-- Who is not told looks.
redis.pcall('PUBLISH', ARGV[5], number(version))
return { 1, number(version) }
