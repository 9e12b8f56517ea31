-- One limit and its cell (`core/src/rule.rs`): the only dispatch over kernels.
-- Nothing is noted of a key never seen before something is charged.
local rule = {}

function rule.observe(limit, cell, now, calendar)
  if cell ~= FRESH then kernels[limit.kind].observe(limit, cell, now, calendar) end
end

function rule.quote(limit, cell, amount, now)
  if cell ~= FRESH then return kernels[limit.kind].quote(limit, cell, amount, now) end
  if amount <= limit.capacity then return ADMIT end
  return NOT_EVER
end

-- Answers the cell, the place and the fence.
function rule.charge(limit, cell, amount, now, calendar, tenure)
  local kernel = kernels[limit.kind]
  if cell == FRESH then cell = kernel.fresh(now) end
  return cell, kernel.charge(limit, cell, amount, now, calendar, tenure)
end

function rule.refund(limit, cell, amount, place, now)
  if cell ~= FRESH then kernels[limit.kind].refund(limit, cell, amount, place, now) end
end

-- Remaining, debt, and if anything is used, when the next is there and when all.
function rule.standing(limit, cell, now)
  if cell == FRESH then return limit.capacity, 0 end
  return kernels[limit.kind].standing(limit, cell, now)
end

function rule.forget_at(limit, cell)
  if cell == FRESH then return BEGINNING end
  return kernels[limit.kind].forget_at(limit, cell)
end

local BUCKET, SLOTS = 1, 5
local bucket, slots = kernels[BUCKET], kernels[SLOTS]
