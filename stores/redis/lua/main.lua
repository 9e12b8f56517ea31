-- The command.

-- The revisions that wrote what is here, but for the plan's own; and the one up
-- to which the ledger followed, if that matters.
local function foreign_revisions(due, now)
  local foreign, followed = {}, nil
  for _, row in pairs(rows) do
    if row.was and row.revision ~= plan.revision then foreign[row.revision] = true end
  end
  if due and (due <= now or next(foreign)) then
    followed = ledger_revision() or plan.revision
    if due <= now and followed < plan.revision then foreign[followed] = true end
  end
  return foreign, followed
end

-- After these, somebody's turn may have come.
local GIVES_BACK = { ['end'] = true, renew = true, adjust = true, reset = true }

local function run_verb(now)
  local verb = request.verb
  if verb == 'leave' then
    if line then line.leave(now) end
    return { DONE, now }
  end
  if verb == 'look' then
    local forget_at = row_forget_at(path[#path])
    return { LOOKED, now, (forget_at > now or forget_at >= NEVER) and 1 or 0 }
  end
  if verb == 'end' then return end_lease(now) end
  if verb == 'renew' then return renew(now) end
  if verb == 'adjust' then return adjust(now) end
  if verb == 'lease' then return lease(request.lease, now) end
  if verb == 'reset' then
    local row = path[#path]
    for i, limit in ipairs(plan.limits) do
      if limit.level == row.level and limit.kind ~= SLOTS then
        row.states[limit.state_at] = FRESH
      end
    end
    forget_charges(request.key, row)
    reset_retained(row)
    return { DONE, now }
  end
  local parts = parts_of(request.amounts, now)
  if verb == 'take' then
    local verdict, binding = in_turn(parts, now)
    if verdict == ADMIT then
      commit(parts)
      usage.of_parts(parts, now)
    end
    return decision(parts, verdict, binding, request.detail, now)
  end
  local verdict, binding = compose(parts)
  if verb == 'debit' then
    for _, part in ipairs(parts) do
      if part.amount > 0 then part.verdict = ADMIT end
    end
    commit(parts)
    usage.of_parts(parts, now)
    -- The work is done; the answer is whether any more may start.
    for _, part in ipairs(parts) do part.amount = min(part.amount, 1) end
    verdict, binding = compose(parts)
  end
  return decision(parts, verdict, binding, 2, now)
end

-- Instants that the command names are by its caller's clock, as its `now` is.
local function translate_instants(now)
  if request.clock == 'caller' then return end
  local ahead = now - request.now
  if request.lease then request.lease.expires_at = later(request.lease.expires_at, ahead) end
  if request.expires_at then request.expires_at = later(request.expires_at, ahead) end
end

-- The revision of a row that was written after its revision was found to be lost: whoever
-- wrote it is there, and will tell it again.
local function alive_and_unknown(newer)
  for _, row in pairs(rows) do
    local revision = row.revision and newer[row.revision]
    if revision and revision.lost and row.latest > revision.lost then return row.revision end
  end
  return nil
end

-- Whether all rows go by the plan at hand, and are of limits that it knows.
local function are_by_plan()
  for _, row in pairs(rows) do
    local is_of_plan = not row.was or row.revision == plan.revision
    if not is_of_plan or row.retained or row.by ~= row.own then return false end
  end
  return true
end

-- Brings rows and leases up to now. Answers nil, or what the call needs.
local function catch_up_with_time(now)
  -- Asked again with a revision, it has all kernels.
  if lacks_kernels() then return { REVISIONS, now, plan.revision } end
  local due = next_due()
  -- As almost always.
  if (not due or due > now) and not arguments[4] and are_by_plan() then return nil end
  local foreign, followed = foreign_revisions(due, now)
  local revisions, newer = {}, {}
  for i = 4, #arguments do
    local revision = cmsgpack.unpack(arguments[i])
    -- One that stands in for what is lost leads to the plan, and to no other.
    if revision.revision <= plan.revision and not revision.lost then
      table.insert(revisions, revision)
    else
      newer[revision.revision] = revision
    end
    foreign[revision.revision] = nil
  end
  local unknown = alive_and_unknown(newer)
  if unknown then return { UNKNOWN, now, unknown } end
  if next(foreign) then
    local reply = { REVISIONS, now }
    for revision in pairs(foreign) do table.insert(reply, revision) end
    return reply
  end
  local missing = follow(revisions, followed, now)
  for _, row in pairs(rows) do
    local revision = row.revision and newer[row.revision]
    if revision then adopt_row(row, revision, plan, now, request.calendars) end
  end
  if not missing and due and due <= now then missing = retire(plan, now) end
  if missing then return { MORE, now, unpack(missing) } end
  for _, row in pairs(rows) do
    if row.by ~= row.own then adopt_row(row, plan, plan, now, request.calendars) end
  end
  return nil
end

-- The plan of the last call, and its bytes: most calls are by one plan, which is
-- then not unpacked again. Nothing changes it.
local last_plan, last_bytes

-- What belongs to one call, and to no other.
local function begin(call_keys, call_arguments)
  fmod, min, max = math.fmod, math.min, math.max
  keys, arguments = call_keys, call_arguments
  LEDGER, DUE, QUEUE, WAITERS = keys[1], keys[2], keys[3], keys[4]
  if arguments[1] ~= last_bytes then
    last_plan, last_bytes = cmsgpack.unpack(arguments[1]), arguments[1]
  end
  plan, request = last_plan, cmsgpack.unpack(arguments[2])
  other_levels, own_limits, moved = cmsgpack.unpack(arguments[3])
  usage.begin()
  rows, path, ledger_changed, head, line = {}, {}, false, nil, nil
end

-- Whether those who wait matter: who stands in line or is about to, and who may
-- take or give back where somebody does.
local function is_in_line()
  if request.turn then return true end
  if request.verb == 'peek' or request.verb == 'look' then return false end
  return redis.call('EXISTS', QUEUE) == 1
end

-- The command `call_keys` and `call_arguments` say, wholly.
local function run(call_keys, call_arguments)
  begin(call_keys, call_arguments)
  if is_in_line() then
    -- Who knows nothing of a line asks again with a script that does.
    if not lines then return { QUEUED, 0 } end
    line = lines
  end
  load_rows()
  local now = instant()
  translate_instants(now)
  local reply = catch_up_with_time(now)
  if not reply then reply = run_verb(now) end
  if reply[1] ~= REVISIONS and reply[1] ~= UNKNOWN then
    for _, row in pairs(rows) do save_row(row, now) end
    save_ledger(reply[1] ~= MORE)
    usage.save(now)
    if line and GIVES_BACK[request.verb] and reply[1] ~= MORE then line.wake(now) end
  end
  return reply
end
