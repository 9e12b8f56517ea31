-- Several commands of one root as one call: each as it would be by itself, in order and at one
-- instant. What is decided, and how, is for those who decide one (`run`, `straight` and
-- `single_bucket`); this goes through them.
-- KEYS: those of all commands. ARGV: the instant at which the first of the batch were decided, as
-- TIME has it, seconds and microseconds; nothing twice if these are the first. Then, in
-- MessagePack, of each command: who decides it, the places of its keys, and of its arguments
-- among those that follow.
-- Answers the instant, then to each command in order, as who decides it does. Behind one
-- that is not answered (revisions or rows are needed, or another is to decide it, or it
-- fails) nothing is decided: the rest of the batch is another call.
-- (What of it is of one call is made in it: a server's function has 200 local names at most.)
local function batch(KEYS, ARGV)
  local deciding = { run, straight, single_bucket }
  -- What keeps a command from being answered.
  local unanswered = { [REVISIONS] = true, [MORE] = true, [QUEUED] = true, [UNKNOWN] = true }
  unanswered[ONCE[1]] = true
  -- A row that has drained is kept so many microseconds longer: what is behind in the batch, in
  -- a later call, is decided by the same instant, at which it has not.
  local kept_longer = 1000000

  local function picked(from, places, behind)
    local all = {}
    for i, place in ipairs(places) do all[i] = from[behind + place] end
    return all
  end

  local time = { ARGV[1], ARGV[2] }
  if ARGV[1] == '' then time = redis.call('TIME') end
  local replies = { time }
  for i, command in ipairs(cmsgpack.unpack(ARGV[3])) do
    local arguments = picked(ARGV, command[3], 3)
    arguments.time, arguments.longer = time, kept_longer
    local is_done, reply = pcall(deciding[command[1]], picked(KEYS, command[2], 0), arguments)
    -- By itself it says how it fails.
    if not is_done then reply = ONCE end
    replies[i + 1] = reply
    if not reply or type(reply) == 'table' and unanswered[reply[1]] then break end
  end
  return replies
end
