-- Events of an owner in the order of their versions. KEYS: the events, a hash; their versions
-- in order; those of each subject. ARGV: '1' for those about a subject; which; the version
-- behind which the page begins; how many at most. Answers the last version looked at if there
-- are more (or nothing); then for each event its version, when it was, for how many
-- microseconds more it lasts, how many are kept, its subject, its body.
local events, order, subjects, most = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[4])
local now, after = clock(), tonumber(ARGV[3])
local found
if ARGV[1] == '1' then
  local theirs = of_subject(ARGV[2])
  local from, to = '(' .. theirs .. in_order(after), '(' .. theirs .. ':'
  found = redis.call('ZRANGEBYLEX', subjects, from, to, 'LIMIT', 0, most + 1)
  for at, one in ipairs(found) do found[at] = number(tonumber(string.sub(one, -16))) end
else
  local from = string.format('(%.0f', after)
  found = redis.call('ZRANGEBYSCORE', order, from, '+inf', 'LIMIT', 0, most + 1)
end
local listed = {}
for at = 1, math.min(#found, most) do
  local event = redis.call('HGET', events, found[at])
  if event then
    local when, ends, bound, subject, body = told(event)
    if ends > now then
      listed[#listed + 1] = { found[at], number(when), number(ends - now), bound, subject, body }
    end
  end
end
return { #found > most and found[most], listed }
