-- Changes of limits, followed row by row (`adopt_row` of
-- `store/src/decide.rs`, `Rule::adopt` of the core). A row says by which
-- revision of the plan it was written; the revisions since then come with the
-- call, each with the instant and the calendars of its adoption. Limits that a
-- key has for itself are in its row: it goes on by them where a revision has the same
-- limits, and at the last of these revisions by those that came with the call.
-- (What others call of it: a server's function has 200 local names at most.)
local adopt_row, follow

do
local function adopt_usage(limit, state, old, now, calendar)
  if limit.kind == SLOTS or old.kind == SLOTS then return FRESH end
  local remaining, debt, _, full_at = rule.standing(old, state, now)
  local used = old.capacity - remaining + debt
  if old.kind == BUCKET then used = bucket.used(old, state, now) end
  if used == 0 then return FRESH end
  if limit.kind == BUCKET then
    return bucket.take_over(limit, used, full_at or now, now)
  end
  return (rule.charge(limit, FRESH, used, now, calendar))
end

local function adopt_state(limit, state, old, now, calendar)
  if state == FRESH then return FRESH end
  -- A change from before the state was written last is followed as of then.
  now = max(now, kernels[old.kind].latest(old, state))
  if limit.kind == old.kind then
    return kernels[limit.kind].adopt(limit, state, old, now, calendar)
  end
  return adopt_usage(limit, state, old, now, calendar)
end

local function are_same_limits(before, after)
  for at, limit in ipairs(before) do
    if not after[at] or after[at].uid ~= limit.uid then return false end
  end
  return #before == #after
end

-- Whether the row was carried over. What its key has for itself only the last revision says:
-- until then it stays as it is, with all that it retains. Where the limits are others, what
-- it has says nothing of them: then it goes on by what all keys have.
function adopt_row(row, old, new, now, calendars)
  local is_last = new.revision == plan.revision
  local before = limits_of_row(row, old)
  local after = is_last and row.limits or limits_of_level(new, row.level)
  if row.by and not is_last and are_same_limits(before, after) then
    row.revision = new.revision
    return false
  end
  local states = {}
  for at, limit in ipairs(after) do
    local written, calendar = limit_of(before, limit.uid), calendars[new.starts[row.level] + at]
    local known = take_retained(row, limit.uid)
    if written then
      states[at] = adopt_state(limit, row.states[written.state_at], written, now, calendar)
    elseif known then
      states[at] = adopt_state(limit, known[2], known[1], now, calendar)
    else
      states[at] = FRESH
    end
  end
  retain(row, before, after, now)
  row.states, row.revision = states, new.revision
  row.by = is_last and row.own or nil
  return true
end

-- When a change is followed: the clock may have gone on by the older limits since then, or
-- stand before it again.
local function followed_at(revision, latest, now)
  return min(max(revision.at, latest), now)
end

-- Follows a change. What it removes is forgotten, unless the row was written since (as it
-- may have been where the clock stands before the change again): then another server goes
-- on by it.
local function follow_change(row, old, new, now)
  local at = followed_at(new, row.latest, now)
  local is_carried = adopt_row(row, old, new, at, new.calendars)
  if is_carried and row.latest <= new.at and new.at <= now then row.retained = nil end
end

-- Follows the changes from `revisions[i]` on, up to the command's plan: what has
-- expired by then did so under the limits of its time.
function follow(revisions, followed, now)
  for i = 2, #revisions do
    local old, new = revisions[i - 1], revisions[i]
    if followed and followed <= old.revision then
      local missing = retire(old, followed_at(new, BEGINNING, now))
      if missing then return missing end
      follow_ledger(new.revision)
    end
    for _, row in pairs(rows) do
      if row.revision == old.revision then follow_change(row, old, new, now) end
    end
  end
  return nil
end
end
