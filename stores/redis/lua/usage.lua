-- What was used, hour by hour (`store/src/usage.rs`, and `decide/used.rs` there). One hash of a
-- root has the records, by field: the hour and the length of the row's name, each as four bytes,
-- the name, and the limit's. Where there are many, one sorted set has the fields in order, by which
-- records are listed, and go when they are over. The field ''
-- of the hash is no record: it has for how long they were kept after their hour when one was made
-- last, for who does not count any more.
do
-- The records and their order; and what this call has noted, in its order: fields, hours, amounts.
local USAGE, ORDER, used

-- A call begins.
function usage.begin()
  USAGE, ORDER, used = keys[5], keys[6], {}
end

-- Adds to the records what a row has counted, which is about to be written anew, or to go. They are kept as
-- the plan has it, or if it counts no more, as they were.
function usage.record_row(row, now)
  local used = row.used
  if used then
    usage.record(USAGE, ORDER, used.retention_and_names, used.amounts, used.hour, now,
      request.clock == 'caller', plan.usage and plan.usage[1] or tonumber(redis.call('HGET', USAGE, '')))
  end
end

-- Notes that so much more, or less, was used of a limit, the plan's at `position`, in the hour
-- of an instant, at that level of the key.
local function change(revision, owner, position, level, at, amount)
  if amount == 0 then return end
  local name = row_name(owner, level, revision.levels)
  local hour = usage.hour_of(at)
  if not name then return end
  local field = struct.pack('>I4I4', hour, #name) .. name .. revision.usage[position + 1]
  used[#used + 1] = { field, hour, amount }
end

-- Notes that so much more was used of a limit where it is now. Nothing is, where it is held.
local function more(owner, position, at, amount)
  local limit = (plan.common or plan.limits)[position]
  if limit.kind ~= SLOTS then change(plan, owner, position, limit.level, at, amount) end
end

-- A take, a debit or a lease has charged those of its parts that are admitted.
function usage.of_parts(parts, now)
  if not plan.usage then return end
  for i, part in ipairs(parts) do
    if part.verdict == ADMIT then more(request.key, i, now, part.amount) end
  end
end

-- Whether what a lease uses is counted: it was granted by a plan that does.
local function is_counted(revision, record)
  return revision.usage and record.counted
end

-- The marks of what a lease takes of a limit: at which level it is counted, if it is.
function usage.marks(record, limit)
  return is_counted(plan, record) and limit.kind ~= SLOTS and 2 * limit.level or 0
end

-- The level at which a share is counted; 0 if it is not.
local function counted_at(share)
  return math.floor(share[4] / 2)
end

-- So much less was used of a limit by a lease, its latest charge first: each where it was counted,
-- which may be another level than the limit has now.
local function less(record, position, uid, amount)
  latest_first(record, uid, amount, function(share, part)
    if counted_at(share) > 0 then
      change(plan, record.owner, position, counted_at(share), record.granted_at, -part)
    end
  end)
end

-- A lease is about to hold another amount of a limit. What is held is not used, and takes the
-- place of what was.
function usage.at_adjustment(record, position, before, after)
  if not is_counted(plan, record) or before == after then return end
  local limit = plan.limits[position]
  more(record.owner, position, record.granted_at, max(after - before, 0))
  less(record, position, limit.uid, max(before - (limit.kind == SLOTS and 0 or after), 0))
end

-- A lease has ended with these uses. What its limits gave back when it expired was taken out
-- then.
function usage.at_end(record, uses)
  if not is_counted(plan, record) then return end
  for _, use in ipairs(uses) do
    local limit, position = limit_of(plan.limits, use[1])
    if limit then
      local before = limit.refund and record.stage == EXPIRED and 0 or use[2]
      more(record.owner, position, record.granted_at, max(use[3] - before, 0))
      less(record, position, use[1], max(before - use[3], 0))
    end
  end
end

-- A lease was found expired: what its limits give back by themselves was not used.
function usage.at_expiry(revision, record)
  if not revision.refunds or not is_counted(revision, record) then return end
  for _, share in ipairs(record.shares) do
    local limit, position = limit_of(revision.limits, share[1])
    if limit and limit.refund and counted_at(share) > 0 then
      change(revision, record.owner, position, counted_at(share), record.granted_at, -share[2])
    end
  end
end

-- Whether less was used of an hour, of which a row may have counted some.
function usage.is_less()
  for _, noted in ipairs(used) do
    if noted[3] < 0 then return true end
  end
  return false
end

-- Keeps what was used, in the step in which it was.
function usage.save(now)
  if not used[1] or not plan.usage then return end
  local latest, keep, new = nil, plan.usage[1], {}
  for _, noted in ipairs(used) do
    local field, hour, amount = unpack(noted)
    -- What is over is not noted again.
    if usage.over_at(hour, keep) > now then
      if usage.add(USAGE, field, amount) then new[#new + 1] = field end
      latest = max(latest or hour, hour)
    end
  end
  if latest then usage.keep(USAGE, ORDER, new, latest, keep, now, request.clock == 'caller') end
end
end
