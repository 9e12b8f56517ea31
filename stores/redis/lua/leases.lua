-- Leases given, ended and renewed (`contract/src/oracle.rs`).

local function failed(code, now, at)
  return { FAILED, now, code, at or 0 }
end

-- A lease as granted: id, expiry, fence, whether it was given before.
local function granted(record, repeated)
  return { record.id, record.expires_at, record.fence, repeated }
end

-- What the parts come to, behind whoever waits for the same.
local function in_turn(parts, now)
  local kept = line and line.kept_at(now)
  local verdict, binding = compose(parts)
  if not line then return verdict, binding end
  if kept and verdict == ADMIT then verdict, binding = later(now, 1), -1 end
  if kept then ask.kept = true end
  if ask.turn and verdict == NOT_EVER then
    line.leave(now)
  elseif ask.turn and verdict ~= ADMIT then
    local names = line.refused_at(parts)
    for _, name in ipairs(kept or {}) do table.insert(names, name) end
    line.stay(now, names)
  end
  return verdict, binding
end

local function lease(terms, now)
  if terms.ask then
    local id = redis.call('HGET', BOOK, ask_field(ask.key, terms.ask))
    local known = id and read_record(id)
    -- One that has ended is nobody's: the retry is an ask like any other.
    if known and (known.stage ~= LIVE or known.expires_at <= now) then known = nil end
    if known and line and ask.turn then line.leave(now) end
    if known then return decision({}, ADMIT, -1, 0, now, nil, granted(known, 1)) end
  end
  -- An answer was lost on its way.
  local mine = line and ask.turn and find_record(terms.id)
  if mine and mine.stage == LIVE then
    return decision({}, ADMIT, -1, 0, now, nil, granted(mine, 0))
  end
  if line and ask.turn then line.stand(now) end
  local parts = parts_of(ask.amounts, now)
  local verdict, binding = in_turn(parts, now)
  if verdict ~= ADMIT then
    local refund_at = plan.refunds and next_due() or nil
    return decision(parts, verdict, binding, ask.detail, now, refund_at)
  end
  if redis.call('HEXISTS', BOOK, 'l' .. terms.id) == 1 then
    return failed(DUPLICATE_LEASE, now)
  end
  commit(parts, { terms.id, terms.expires_at })
  local record = {
    id = terms.id, owner = ask.key, expires_at = terms.expires_at, fence = 0,
    stage = LIVE, idempotency = terms.ask, shares = {}, settlement = false,
  }
  for _, part in ipairs(parts) do
    record.fence = max(record.fence, part.fence)
    if part.amount > 0 and part.verdict == ADMIT then
      table.insert(record.shares, { part.limit.uid, part.amount, part.place, 0 })
    end
  end
  put_record(record, record.expires_at)
  if line and ask.turn then line.leave(now) end
  return decision(parts, verdict, binding, ask.detail, now, nil, granted(record, 0))
end

-- What an ending says was used of the plan's limit at `position`.
local function used_of(position, taken)
  if ask.ending == 'settle' then
    local used = ask.used[position]
    return used or taken
  end
  if ask.ending == 'cancel' then return 0 end
  if ask.ending == 'fail' and ask.back[position] then return 0 end
  return taken
end

-- The cells of the command's path that hold `limit`, if the key reaches it.
local function cells_of(limit)
  local row = path[limit.level]
  return row and row.cells
end

local function end_share(limit, position, share, used, record, now)
  local cells = cells_of(limit)
  if not cells then return end
  local calendar, at = ask.calendars[position], limit.cell
  rule.observe(limit, cells[at], now, calendar)
  if limit.kind == SLOTS then
    if cells[at] ~= FRESH then
      slots.release(cells[at], record.id, record.expires_at, now)
    end
    return
  end
  local refunded = limit.refund and record.stage == EXPIRED
  local charged = refunded and 0 or share[2]
  if used < charged then
    if share[4] == 0 then rule.refund(limit, cells[at], charged - used, share[3], now) end
  elseif used > charged then
    cells[at] = rule.charge(limit, cells[at], used - charged, now, calendar)
  end
end

-- Charges what was used of limits that were not taken: left out by the ask, or
-- added since. (A shadow that would have refused goes on as if it had.)
local function charge_untaken(record, uses, now)
  if ask.ending ~= 'settle' then return end
  local taken = {}
  for _, share in ipairs(record.shares) do taken[share[1]] = true end
  for position, limit in ipairs(plan.limits) do
    local used, cells = ask.used[position] or 0, cells_of(limit)
    if used > 0 and cells and not taken[limit.uid] and not limit.shadow
      and limit.kind ~= SLOTS then
      local calendar, at = ask.calendars[position], limit.cell
      rule.observe(limit, cells[at], now, calendar)
      cells[at] = rule.charge(limit, cells[at], used, now, calendar)
      table.insert(uses, { limit.uid, 0, used })
    end
  end
end

local function settled(settlement, repeated, now)
  local reply = { SETTLED, now, settlement[1], repeated }
  for _, use in ipairs(settlement[2]) do
    for _, number in ipairs(use) do table.insert(reply, number) end
  end
  return reply
end

local function end_lease(now)
  local record = find_record(ask.id)
  if not record then return failed(UNKNOWN_LEASE, now) end
  if record.stage == ENDED then return settled(record.settlement, 1, now) end
  remove_record(record)
  local uses = {}
  charge_untaken(record, uses, now)
  for _, share in ipairs(record.shares) do
    local limit, position = limit_of(plan.limits, share[1])
    local used = limit and used_of(position, share[2]) or share[2]
    table.insert(uses, { share[1], share[2], used })
    if limit then end_share(limit, position, share, used, record, now) end
  end
  local settlement = { record.expires_at <= now and 1 or 0, uses }
  if ask.remember or record.idempotency then
    record.stage, record.settlement = ENDED, settlement
    put_record(record, later(now, plan.keep))
  end
  return settled(settlement, 0, now)
end

local function renew(now)
  local record = find_record(ask.id)
  if not record then return failed(UNKNOWN_LEASE, now) end
  local old = record.expires_at
  if record.stage ~= LIVE or old <= now then
    return failed(LEASE_ENDED, now, min(old, now))
  end
  remove_record(record)
  for _, share in ipairs(record.shares) do
    local limit = limit_of(plan.limits, share[1])
    local cells = limit and cells_of(limit)
    if cells then
      rule.observe(limit, cells[limit.cell], now, false)
      if limit.kind == SLOTS and cells[limit.cell] ~= FRESH then
        slots.renew(cells[limit.cell], record.id, old, ask.expires_at, now)
      end
    end
  end
  record.expires_at = ask.expires_at
  put_record(record, ask.expires_at)
  return { DONE, now }
end
