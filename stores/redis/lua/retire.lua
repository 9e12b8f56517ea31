-- What is due about leases (`retire` of the memory store, `expire` of
-- `store/src/decide.rs`). A lease of another key may give back into rows
-- that this call was not given: then it says whose, and is called again.

-- So many records are looked at in one call, so that none takes long.
local MOST_AT_ONCE = 200

local function row_of(owner, level, levels)
  local name = row_name(owner, level, levels)
  if not name then return nil, nil end
  local key = keys[FIRST_ROW]
  if level > 1 and string.byte(name) == SLASH then
    key = string.sub(key, 1, -2) .. 'e' .. string.sub(name, request.root + 2)
  else
    key = key .. string.sub(name, request.root + 1)
  end
  return rows[key], key
end

-- The limits that all keys have at `level`, in the order of the states.
local function limits_of_level(revision, level)
  local limits = {}
  for _, limit in ipairs(revision.common or revision.limits) do
    if limit.level == level then limits[limit.state_at] = limit end
  end
  return limits
end

-- The limits that wrote a row of `revision`.
local function limits_of_row(row, revision)
  if row.by then return cmsgpack.unpack(row.by) end
  return limits_of_level(revision, row.level)
end

-- Calls `act` with each share that `revision` gives back at expiry; `false` once
-- a row for one is missing.
local function each_refund(revision, record, act)
  if not revision.refunds then return true end
  for _, share in ipairs(record.shares) do
    local limit = limit_of(revision.limits, share[1])
    if limit and limit.refund and share[4] % 2 == 0 then
      local row, key = row_of(record.owner, limit.level, revision.levels)
      if key and not row then return false end
      if row then act(share, limit, row) end
    end
  end
  return true
end

local function expire(revision, record, now)
  each_refund(revision, record, function(share, limit, row)
    if row.revision == revision.revision then
      local written = limit_of(limits_of_row(row, revision), limit.uid)
      if written then
        rule.refund(written, row.states[written.state_at], share[2], share[3], now)
      end
    end
  end)
  usage.at_expiry(revision, record)
  record.stage = EXPIRED
  put_record(record, later(record.expires_at, revision.keep))
end

local function nothing() end

-- Deals with every lease that is due at `now` by the plan of `revision`. Answers
-- nil when done; else the owners whose rows are missing, if any.
local function retire(revision, now)
  for _ = 1, MOST_AT_ONCE do
    local record = due_record(now)
    if not record then return nil end
    if record.stage ~= LIVE then
      remove_record(record)
    elseif each_refund(revision, record, nothing) then
      remove_record(record)
      expire(revision, record, now)
    else
      return { record.owner }
    end
  end
  return {}
end
