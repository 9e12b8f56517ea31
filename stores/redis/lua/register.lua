-- Adds an edition to a table's plans: KEYS[1] is their hash. ARGV: the plan
-- with the calendars of its adoption; the plan alone, to be compared; '1' if it
-- is no change when it is the newest already; when, or '' for the server's now.
local MOST_EDITIONS = 4096

local newest = tonumber(redis.call('HGET', KEYS[1], 'newest'))
if newest and ARGV[3] == '1' and redis.call('HGET', KEYS[1], 'content') == ARGV[2] then
  return newest
end
local edition = cmsgpack.unpack(ARGV[1])
edition.edition = (newest or 0) + 1
if ARGV[4] ~= '' then
  edition.at = tonumber(ARGV[4])
else
  local time = redis.call('TIME')
  edition.at = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local number = string.format('%.0f', edition.edition)
redis.call('HSET', KEYS[1], 'newest', number, 'content', ARGV[2], number, cmsgpack.pack(edition))
redis.call('HDEL', KEYS[1], string.format('%.0f', edition.edition - MOST_EDITIONS))
return edition.edition
