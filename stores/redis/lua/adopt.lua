-- Changes of limits, followed row by row (`adopt_row` of
-- `contract/src/oracle.rs`, `Rule::adopt` of the core). A row says by which
-- edition of the plan it was written; the editions since then come with the
-- call, each with the instant and the calendars of its adoption.

local function adopt_usage(limit, cell, old, now, calendar)
  local used = old.capacity - rule.standing(old, cell, now)
  if used > 0 and limit.kind ~= SLOTS and old.kind ~= SLOTS then
    return (rule.charge(limit, FRESH, min(used, limit.capacity), now, calendar))
  end
  return FRESH
end

local function adopt_cell(limit, cell, old, now, calendar)
  if cell == FRESH then return FRESH end
  rule.observe(old, cell, now, calendar)
  if limit.kind == old.kind then
    return kernels[limit.kind].adopt(limit, cell, old, now, calendar)
  end
  return adopt_usage(limit, cell, old, now, calendar)
end

local function adopt_row(row, old, new, now, calendars)
  local cells = {}
  for position, limit in ipairs(new.limits) do
    if limit.level == row.level then
      local before = limit_of(old, limit.uid)
      if before and before.level == row.level then
        cells[limit.cell] = adopt_cell(
          limit, row.cells[before.cell], before, now, calendars[position])
      else
        cells[limit.cell] = FRESH
      end
    end
  end
  row.cells, row.edition = cells, new.edition
end

-- When a change is followed: as recorded by the caller's clock. The server's
-- may have gone on by the older limits since then.
local function moment_of(edition, latest, now)
  if ask.clock == 'caller' then return edition.at end
  return min(max(edition.at, latest), now)
end

-- Follows the changes from `editions[i]` on, up to the command's plan: what has
-- expired by then did so under the limits of its time.
local function follow(editions, followed, now)
  for i = 2, #editions do
    local old, new = editions[i - 1], editions[i]
    if followed and followed <= old.edition then
      local missing = retire(old, moment_of(new, BEGINNING, now))
      if missing then return missing end
      redis.call('HSET', BOOK, 'e', whole(new.edition))
    end
    for _, row in pairs(rows) do
      if row.edition == old.edition then
        adopt_row(row, old, new, moment_of(new, row.latest, now), new.calendars)
      end
    end
  end
  return nil
end
