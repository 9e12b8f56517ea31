-- Whether a row is more than "never seen", of one that is there by the server's clock. KEYS: the row.
local row = redis.call('GET', KEYS[1])
if not row then return 0 end
if string.byte(row) ~= FLAT_COUNTED then return 1 end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
return layout.used(row, layout.read(row)).forget_at > now and 1 or 0
