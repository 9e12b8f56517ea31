-- What is defined under a key of an owner's. KEYS: the definitions; ARGV: the key. Answers
-- its version, its value, and for how many microseconds more it lasts (or nothing); nothing if
-- nothing is there.
local now = clock()
local version, ends, value = parts(redis.call('HGET', KEYS[1], ARGV[1]), now)
if not version then return {} end
return { number(version), value, left(ends, now) }
