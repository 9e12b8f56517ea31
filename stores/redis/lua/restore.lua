-- Gives a table's plans back a revision that they have lost: KEYS[1] is their hash.
-- ARGV: its number; what was kept of it; the plan alone. The field 'restored' has when that was
-- last: by it all others know that the plans were lost, and what is beside them.
local function call(verb, ...)
  return redis.call(verb, KEYS[1], ...)
end

if call('HSETNX', ARGV[1], ARGV[2]) == 0 then return 0 end
local number, newest = tonumber(ARGV[1]), tonumber(call('HGET', 'newest'))
if not newest or newest < number then
  call('HSET', 'newest', ARGV[1], 'content', ARGV[3])
end
local order = call('HGET', 'order') or ''
local at = #order
while at > 0 and struct.unpack('>I8', order, at - 7) > number do at = at - 8 end
local mine = struct.pack('>I8', number)
call('HSET', 'order', string.sub(order, 1, at) .. mine .. string.sub(order, at + 1))
local time = redis.call('TIME')
call('HSET', 'restored', time[1] .. '.' .. time[2])
return 1
