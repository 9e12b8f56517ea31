-- Several limits, of a key and its ancestors, as one step: all or nothing
-- (`core/src/compose.rs`, and `decision` of `store/src/decide.rs`).

-- One part for each of the plan's limits that the key reaches, in order.
local function parts_of(amounts, now)
  local parts = {}
  for i, limit in ipairs(plan.limits) do
    local row = path[limit.level]
    if not row then break end
    parts[i] = {
      limit = limit, states = row.states, at = limit.state_at, amount = amounts[i] or 0,
      now = now, calendar = request.calendars[i], verdict = ADMIT, reference = 0, fence = 0,
    }
  end
  return parts
end

local function ask_part(part)
  local limit, state = part.limit, part.states[part.at]
  rule.observe(limit, state, part.now, part.calendar)
  if part.amount > 0 then
    -- Postpaid: admitted while one unit is left.
    local must_fit = limit.postpaid and 1 or part.amount
    part.verdict = rule.quote(limit, state, must_fit, part.now)
  end
  return part.verdict
end

-- The verdict, and the limit that binds, counted from 0; -1 if none does.
local function compose(parts)
  local verdict, binding = ADMIT, -1
  for i, part in ipairs(parts) do
    local answer = ask_part(part)
    if answer > verdict and not part.limit.shadow then
      verdict, binding = answer, i - 1
    end
  end
  return verdict, binding
end

-- Charges what was admitted: a shadow that would have refused is left alone.
local function commit(parts, term)
  for _, part in ipairs(parts) do
    if part.amount > 0 and part.verdict == ADMIT then
      part.states[part.at], part.reference, part.fence = rule.charge(
        part.limit, part.states[part.at], part.amount, part.now, part.calendar, term)
    end
  end
end

local function push_standings(reply, parts)
  for _, part in ipairs(parts) do
    local remaining, debt, replenish_at, full_at =
      rule.standing(part.limit, part.states[part.at], part.now)
    local n = #reply
    reply[n + 1], reply[n + 2] = remaining, debt
    reply[n + 3] = replenish_at and 1 or 0
    reply[n + 4], reply[n + 5] = replenish_at or 0, full_at or 0
  end
end

-- What is answered: see `src/wire/reply.rs`.
local DECISION, SETTLED, DONE, REVISIONS, MORE, FAILED, LOOKED, QUEUED, UNKNOWN =
  0, 1, 2, 3, 4, 5, 6, 7, 9
local UNKNOWN_LEASE, LEASE_ENDED, DUPLICATE_LEASE = 0, 1, 2

-- Answers a decision; `refund_at` and `lease` may be nil.
local function decision(parts, verdict, binding, detail, now, refund_at, lease)
  local refused, shadowed = 0, 0
  local levels = {}
  for _, part in ipairs(parts) do
    if part.verdict ~= ADMIT then
      if part.limit.shadow then
        shadowed = 1
      elseif not levels[part.limit.level] then
        levels[part.limit.level] = true
        refused = refused + 2 ^ (part.limit.level - 1)
      end
    end
  end
  local kind = verdict == ADMIT and 0 or (verdict == NOT_EVER and 2 or 1)
  -- Not because of its limits, but because others were first.
  if request.kept and kind == 1 then kind = 3 end
  local detailed = detail == 2 or (detail == 1 and verdict ~= ADMIT)
  local reply = {
    DECISION, now, kind, verdict ~= ADMIT and verdict ~= NOT_EVER and verdict or 0, binding, refused, shadowed,
    refund_at and 1 or 0, refund_at or 0, lease or 0, detailed and 1 or 0,
  }
  if detailed then push_standings(reply, parts) end
  return reply
end
