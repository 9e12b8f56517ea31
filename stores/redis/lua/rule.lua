-- One limit and its state (`core/src/rule.rs`): the only dispatch over kernels.
-- Nothing is noted of a key never seen before something is charged.
local rule = {}

function rule.observe(limit, state, now, calendar)
  if state ~= FRESH then kernels[limit.kind].observe(limit, state, now, calendar) end
end

function rule.quote(limit, state, amount, now)
  if state ~= FRESH then return kernels[limit.kind].quote(limit, state, amount, now) end
  if amount <= limit.capacity then return ADMIT end
  return NOT_EVER
end

-- Answers the state, the reference and the fence.
function rule.charge(limit, state, amount, now, calendar, term)
  local kernel = kernels[limit.kind]
  if state == FRESH then state = kernel.fresh(now) end
  return state, kernel.charge(limit, state, amount, now, calendar, term)
end

function rule.refund(limit, state, amount, reference, now)
  if state ~= FRESH then kernels[limit.kind].refund(limit, state, amount, reference, now) end
end

-- Remaining, debt, and if anything is used, when the next is there and when all.
function rule.standing(limit, state, now)
  if state == FRESH then return limit.capacity, 0 end
  return kernels[limit.kind].standing(limit, state, now)
end

function rule.forget_at(limit, state)
  if state == FRESH then return BEGINNING end
  return kernels[limit.kind].forget_at(limit, state)
end

local BUCKET, SLOTS = 1, 5
local bucket, slots = kernels[BUCKET], kernels[SLOTS]
