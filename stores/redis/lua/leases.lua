-- Leases given, ended, renewed and adjusted (`store/src/decide.rs`).

local function failed(code, now, at)
  return { FAILED, now, code, at or 0 }
end

-- A lease as granted: id, expiry, fence, whether it was given before, and when.
local function granted(record, repeated)
  return { record.id, record.expires_at, record.fence, repeated, record.granted_at }
end

-- What the parts come to, behind whoever waits for the same.
local function in_turn(parts, now)
  local kept = line and line.kept_at(now)
  local verdict, binding = compose(parts)
  if not line then return verdict, binding end
  if kept and verdict == ADMIT then verdict, binding = later(now, 1), -1 end
  if kept then request.kept = true end
  if request.turn and verdict == NOT_EVER then
    line.leave(now)
  elseif request.turn and verdict ~= ADMIT then
    local names = line.refused_at(parts)
    for _, name in ipairs(kept or {}) do table.insert(names, name) end
    line.stay(now, names)
  end
  return verdict, binding
end

-- Of each limit as much as fits, `least` at least: then it is for the limits to refuse. Of a
-- shadow, which refuses nobody, all.
local function as_much_as_fits(least, now)
  local amounts = {}
  for i, part in ipairs(parts_of(request.amounts, now)) do
    local limit, amount = part.limit, part.amount
    rule.observe(limit, part.states[part.at], now, part.calendar)
    local remaining = rule.standing(limit, part.states[part.at], now)
    amounts[i] = amount
    if not limit.shadow then
      amounts[i] = max(min(amount, remaining), min(least[i] or 0, amount))
    end
  end
  return amounts
end

local function lease(terms, now)
  if terms.idempotency then
    local id = redis.call('HGET', LEDGER, idempotency_field(request.key, terms.idempotency))
    local known = id and read_record(id)
    -- One that has ended is nobody's: the retry is a request like any other.
    if known and (known.stage ~= LIVE or known.expires_at <= now) then known = nil end
    if known and line and request.turn then line.leave(now) end
    if known then return decision({}, ADMIT, -1, 0, now, nil, granted(known, 1)) end
  end
  -- An answer was lost on its way.
  local mine = line and request.turn and find_record(terms.id)
  if mine and mine.stage == LIVE then
    return decision({}, ADMIT, -1, 0, now, nil, granted(mine, 0))
  end
  if line and request.turn then line.stand(now) end
  local taken = terms.least and as_much_as_fits(terms.least, now)
  if taken then request.amounts, request.detail = taken, 2 end
  local parts = parts_of(request.amounts, now)
  local verdict, binding = in_turn(parts, now)
  if verdict ~= ADMIT then
    local refund_at = plan.refunds and next_due() or nil
    return decision(parts, verdict, binding, request.detail, now, refund_at)
  end
  if redis.call('HEXISTS', LEDGER, 'l' .. terms.id) == 1 then
    return failed(DUPLICATE_LEASE, now)
  end
  commit(parts, { terms.id, terms.expires_at })
  local record = {
    id = terms.id, owner = request.key, expires_at = terms.expires_at, fence = 0,
    granted_at = now, stage = LIVE, idempotency = terms.idempotency, shares = {}, settlement = false,
    counted = plan.usage and true,
  }
  for _, part in ipairs(parts) do
    record.fence = max(record.fence, part.fence)
    if part.amount > 0 and part.verdict == ADMIT then
      table.insert(record.shares, { part.limit.uid, part.amount, part.reference, usage.marks(record, part.limit) })
    end
  end
  usage.of_parts(parts, now)
  put_record(record, record.expires_at)
  if line and request.turn then line.leave(now) end
  local given = granted(record, 0)
  -- Behind them of how many limits, and how much, of a take that may be partial.
  if taken then given[6] = #taken end
  for i, amount in ipairs(taken or {}) do given[6 + i] = amount end
  return decision(parts, verdict, binding, request.detail, now, nil, given)
end

-- What an ending says was used of the plan's limit at `position`.
local function used_of(position, taken)
  if request.ending == 'settle' then
    local used = request.used[position]
    return used or taken
  end
  if request.ending == 'cancel' then return 0 end
  if request.ending == 'fail' and request.back[position] then return 0 end
  return taken
end

-- The states of the command's path that hold `limit`, if the key reaches it.
local function states_of(limit)
  local row = path[limit.level]
  return row and row.states
end

-- Gives `amount` of a limit back where it was charged.
local function give_back(limit, state, record, amount, now)
  latest_first(record, limit.uid, amount, function(share, part)
    if share[4] % 2 == 0 then rule.refund(limit, state, part, share[3], now) end
  end)
end

local function end_charges(limit, position, taken, used, record, now)
  local states = states_of(limit)
  if not states then return end
  local calendar, at = request.calendars[position], limit.state_at
  rule.observe(limit, states[at], now, calendar)
  if limit.kind == SLOTS then
    if states[at] ~= FRESH then
      slots.release(states[at], record.id, record.expires_at, now)
    end
    return
  end
  local refunded = limit.refund and record.stage == EXPIRED
  local charged = refunded and 0 or taken
  if used > charged then
    states[at] = rule.charge(limit, states[at], used - charged, now, calendar)
  else
    give_back(limit, states[at], record, charged - used, now)
  end
end

-- Charges what was used of limits that were not taken: left out by the request, or
-- added since. (A shadow that would have refused goes on as if it had.)
local function charge_untaken(record, uses, now)
  if request.ending ~= 'settle' then return end
  local taken = {}
  for _, share in ipairs(record.shares) do taken[share[1]] = true end
  for position, limit in ipairs(plan.limits) do
    local used, states = request.used[position] or 0, states_of(limit)
    if used > 0 and states and not taken[limit.uid] and not limit.shadow
      and limit.kind ~= SLOTS then
      local calendar, at = request.calendars[position], limit.state_at
      rule.observe(limit, states[at], now, calendar)
      states[at] = rule.charge(limit, states[at], used, now, calendar)
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
  local record = find_record(request.id)
  if not record then return failed(UNKNOWN_LEASE, now) end
  if record.stage == ENDED then return settled(record.settlement, 1, now) end
  remove_record(record)
  local uses = {}
  charge_untaken(record, uses, now)
  local done = {}
  for _, share in ipairs(record.shares) do
    local uid = share[1]
    if not done[uid] then
      done[uid] = true
      local limit, position = limit_of(plan.limits, uid)
      local taken = taken_of(record, uid)
      local used = limit and used_of(position, taken) or taken
      table.insert(uses, { uid, taken, used })
      if limit then end_charges(limit, position, taken, used, record, now) end
    end
  end
  usage.at_end(record, uses)
  each_retained_slots(now, function(slots, state)
    slots.release(state, record.id, record.expires_at, now)
  end)
  local settlement = { record.expires_at <= now and 1 or 0, uses }
  if request.remember or record.idempotency then
    record.stage, record.settlement = ENDED, settlement
    put_record(record, later(now, plan.keep))
  end
  return settled(settlement, 0, now)
end

-- The lease that is asked about, if it is held; else why not.
local function held_record(now)
  local record = find_record(request.id)
  if not record then return nil, failed(UNKNOWN_LEASE, now) end
  if record.stage ~= LIVE or record.expires_at <= now then
    return nil, failed(LEASE_ENDED, now, min(record.expires_at, now))
  end
  return record
end

local function renew(now)
  local record, failure = held_record(now)
  if not record then return failure end
  local old = record.expires_at
  remove_record(record)
  for _, share in ipairs(record.shares) do
    local limit = limit_of(plan.limits, share[1])
    local states = limit and states_of(limit)
    if states then
      rule.observe(limit, states[limit.state_at], now, false)
      if limit.kind == SLOTS and states[limit.state_at] ~= FRESH then
        slots.renew(states[limit.state_at], record.id, old, request.expires_at, now)
      end
    end
  end
  each_retained_slots(now, function(slots, state)
    slots.renew(state, record.id, old, request.expires_at, now)
  end)
  record.expires_at = request.expires_at
  put_record(record, request.expires_at)
  return { DONE, now }
end

-- What an adjustment does to each limit's share: taken, target; and of more slots, what
-- was let go of to ask for all of it: weight, expiry.
local function changes_of(record, now)
  local changes, requested = {}, {}
  for i, limit in ipairs(plan.limits) do
    local taken = taken_of(record, limit.uid)
    -- A shadow that would have refused goes on as if it had.
    local stays = limit.shadow and not took(record, limit.uid)
    local change = { taken = taken, target = not stays and request.to[i] or taken }
    local states = states_of(limit)
    local more = max(change.target - taken, 0)
    requested[i] = request.overdraw and 0 or more
    if limit.kind == SLOTS then
      requested[i] = more > 0 and change.target or 0
      if more > 0 and states and states[limit.state_at] ~= FRESH then
        rule.observe(limit, states[limit.state_at], now, request.calendars[i])
        change.weight, change.expires_at =
          slots.let_go(states[limit.state_at], record.id, record.expires_at, now)
      end
    end
    changes[i] = change
  end
  return changes, requested
end

-- Brings a limit and the record up to the target, after what must fit was charged.
local function carry_out(change, part, record, now)
  local uid, more = part.limit.uid, change.target - change.taken
  if part.limit.kind == SLOTS then
    if more == 0 then return end
    local state = part.states[part.at]
    if change.target == 0 and state ~= FRESH then
      slots.release(state, record.id, record.expires_at, now)
    elseif state ~= FRESH then
      slots.resize(state, record.id, record.expires_at, change.target, now)
    end
    take_less(record, uid, change.taken, part.limit.shadow)
    if change.target > 0 then take_more(record, uid, change.target, part.reference, 0) end
    record.fence = max(record.fence, part.fence)
  elseif more > 0 then
    if more > part.amount then
      part.states[part.at], part.reference = rule.charge(part.limit, part.states[part.at], more,
        now, part.calendar, { record.id, record.expires_at })
    end
    take_more(record, uid, more, part.reference, usage.marks(record, part.limit))
  elseif more < 0 then
    give_back(part.limit, part.states[part.at], record, -more, now)
    take_less(record, uid, -more, part.limit.shadow)
  end
end

local function adjust(now)
  local record, failure = held_record(now)
  if not record then return failure end
  local changes, requested = changes_of(record, now)
  local parts = parts_of(requested, now)
  local verdict, binding = compose(parts)
  -- What was held stays held as it was, and becomes more.
  for i, part in ipairs(parts) do
    local change = changes[i]
    if change.weight then
      slots.restore(part.states[part.at], record.id, change.expires_at, change.weight)
      part.amount = 0
    end
  end
  if verdict == ADMIT then
    commit(parts, { record.id, record.expires_at })
    for i, part in ipairs(parts) do
      if part.verdict == ADMIT then
        local change = changes[i]
        usage.at_adjustment(record, i, change.taken, change.target)
        carry_out(change, part, record, now)
      end
    end
  end
  if verdict ~= ADMIT then
    local refund_at = plan.refunds and next_due() or nil
    return decision(parts, verdict, binding, request.detail, now, refund_at)
  end
  remove_record(record)
  put_record(record, record.expires_at)
  return decision(parts, verdict, binding, request.detail, now, nil, granted(record, 1))
end
