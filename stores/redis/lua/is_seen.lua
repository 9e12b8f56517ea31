-- By the server's clock: 1 if a row is more than "never seen", else 0. One that counts no usage goes as
-- soon as it is not; one that does says itself from when on it is not. KEYS: the row.
local row = redis.call('GET', KEYS[1])
if not row then return 0 end
if string.byte(row) ~= FLAT_COUNTED then return 1 end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
return flat_row.used(row, flat_row.read(row)).forget_at > now and 1 or 0
