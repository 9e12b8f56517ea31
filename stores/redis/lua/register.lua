-- Adds a revision to a table's plans: KEYS[1] is their hash. ARGV: the plan
-- with the calendars of its adoption; the plan alone, to be compared; '1' if it
-- is no change when it is the newest already; when, or '' for the server's now.
-- Answers its number, its instant, and the numbers that led to it, the last of
-- them its own, eight bytes each.
--
-- The plans may be lost while rows are not: evicted, or unknown to a replica that
-- became the master. So no number is given twice to different limits: the upper
-- bits are a second, later than every one before, the lower 22 are of the plan's
-- hash.
local MOST_REVISIONS, MOST_FOLLOWED = 4096, 64
local ALIKE, YEAR_2020 = 4194304, 1577836800

local function call(verb, ...)
  return redis.call(verb, KEYS[1], ...)
end

local function followed(order)
  return string.sub(order, -8 * MOST_FOLLOWED)
end

local newest, order = tonumber(call('HGET', 'newest')), call('HGET', 'order') or ''
if newest and ARGV[3] == '1' and call('HGET', 'content') == ARGV[2] then
  local known = cmsgpack.unpack(call('HGET', string.format('%.0f', newest)))
  return { newest, known.at, followed(order) }
end

local time = redis.call('TIME')
local second = math.floor((newest or 0) / ALIKE) + 1
second = math.max(second, tonumber(time[1]) - YEAR_2020)
local hash = tonumber(string.sub(redis.sha1hex(ARGV[2]), 1, 6), 16) % ALIKE
local revision = cmsgpack.unpack(ARGV[1])
revision.revision = second * ALIKE + hash
revision.at = tonumber(ARGV[4]) or time[1] * 1000000 + time[2]

local number = string.format('%.0f', revision.revision)
order = order .. struct.pack('>I8', revision.revision)
while #order > 8 * MOST_REVISIONS do
  call('HDEL', string.format('%.0f', (struct.unpack('>I8', order))))
  order = string.sub(order, 9)
end
call('HSET', 'newest', number, 'content', ARGV[2], 'order', order, number, cmsgpack.pack(revision))
return { revision.revision, revision.at, followed(order) }
