-- What is kept of a definition: its version, until when it lasts (0: for good), its value;
-- and of an event: when it was, until when it lasts, how many are kept, how long its subject
-- is, its subject, its body. Numbers are text, each with a space behind it.
local function number(n)
  return string.format('%.0f', n)
end

-- The server's clock, in microseconds.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- The version of a definition, until when it lasts, its value; nothing if it is over.
local function parts(kept, now)
  if not kept then return nil end
  local _, last, version, ends = string.find(kept, '^(%d+) (%d+) ')
  version, ends = tonumber(version), tonumber(ends)
  if not version or (ends ~= 0 and ends <= now) then return nil end
  return version, ends, string.sub(kept, last + 1)
end

-- An owner's version, of its changes; 0 before the first.
local function last_version(changes)
  return tonumber(redis.call('ZRANGE', changes, -1, -1, 'WITHSCORES')[2] or nil) or 0
end

-- What is left to what lasts until then; nothing if it lasts for good.
local function left(ends, now)
  return ends ~= 0 and number(ends - now)
end

-- Where the events of a subject are in their order, before the version.
local function of_subject(subject)
  return number(#subject) .. ':' .. subject
end

-- A version in that order.
local function in_order(version)
  return string.format('%016.0f', version)
end

-- When an event was, until when it lasts, how many are kept, its subject, its body.
local function told(event)
  local _, last, at, ends, most, length = string.find(event, '^(%d+) (%d+) (%d+) (%d+) ')
  length = tonumber(length)
  local subject = string.sub(event, last + 1, last + length)
  return tonumber(at), tonumber(ends), most, subject, string.sub(event, last + length + 1)
end

