-- Whole numbers of any size, never negative: a plain one below 2^53, else its
-- limbs of 24 bits, the lowest first. Each operation takes the plain way where
-- its result provably fits: rounding keeps order and 2^53 is a double, so a
-- result that comes out below it was not rounded.
local LIMB = 16777216 -- 2^24

local function limbs(a)
  if type(a) == 'table' then return a end
  local low = a % LIMB
  local rest = (a - low) / LIMB
  local middle = rest % LIMB
  return { low, middle, (rest - middle) / LIMB }
end

-- Without leading zeros; plain if it can be.
local function shorten(a)
  local n = #a
  while n > 0 and a[n] == 0 do
    a[n] = nil
    n = n - 1
  end
  if n < 3 or (n == 3 and a[3] < 32) then
    return (a[1] or 0) + LIMB * ((a[2] or 0) + LIMB * (a[3] or 0))
  end
  return a
end

local function less(a, b)
  local a_wide, b_wide = type(a) == 'table', type(b) == 'table'
  if not (a_wide and b_wide) then
    if a_wide or b_wide then return b_wide end
    return a < b
  end
  if #a ~= #b then return #a < #b end
  for i = #a, 1, -1 do
    if a[i] ~= b[i] then return a[i] < b[i] end
  end
  return false
end

local function least(a, b)
  if less(b, a) then return b end
  return a
end

local function add_wide(a, b)
  a, b = limbs(a), limbs(b)
  local sum, carry = {}, 0
  for i = 1, max(#a, #b) do
    local limb = (a[i] or 0) + (b[i] or 0) + carry
    carry = limb >= LIMB and 1 or 0
    sum[i] = limb - carry * LIMB
  end
  sum[#sum + 1] = carry
  return shorten(sum)
end

local function add(a, b)
  if type(a) == 'number' and type(b) == 'number' then
    local sum = a + b
    if sum < EXACT then return sum end
  end
  return add_wide(a, b)
end

local function subtract_wide(a, b)
  a, b = limbs(a), limbs(b)
  local difference, borrow = {}, 0
  for i = 1, #a do
    local limb = a[i] - (b[i] or 0) - borrow
    borrow = limb < 0 and 1 or 0
    difference[i] = limb + borrow * LIMB
  end
  return shorten(difference)
end

-- What `a` is larger than `b`; 0 if it is not.
local function beyond(a, b)
  if not less(b, a) then return 0 end
  if type(a) == 'number' then return a - b end
  return subtract_wide(a, b)
end

local function times_wide(a, b)
  a, b = limbs(a), limbs(b)
  local product = {}
  for i = 1, #a + #b do product[i] = 0 end
  for i = 1, #a do
    local carry = 0
    for j = 1, #b do
      local limb = product[i + j - 1] + a[i] * b[j] + carry
      local low = limb % LIMB
      product[i + j - 1], carry = low, (limb - low) / LIMB
    end
    product[i + #b] = carry
  end
  return shorten(product)
end

local function times(a, b)
  if type(a) == 'number' and type(b) == 'number' then
    local product = a * b
    if product < EXACT then return product end
  end
  return times_wide(a, b)
end

-- One limb more of a long division: what is left of `rest * 2^24 + limb`, and
-- how often `b` was in it. Bit by bit where that product would be rounded.
local function divide_limb(rest, limb, b)
  if b < 536870912 then -- 2^29
    local dividend = rest * LIMB + limb
    rest = fmod(dividend, b)
    return rest, (dividend - rest) / b
  end
  local quotient, bit = 0, LIMB / 2
  while bit >= 1 do
    local one = limb >= bit and 1 or 0
    limb = limb - one * bit
    quotient = quotient * 2
    if rest + one >= b - rest then
      rest = rest - (b - rest) + one
      quotient = quotient + 1
    else
      rest = rest + rest + one
    end
    bit = bit / 2
  end
  return rest, quotient
end

-- The quotient of `a` by a plain `b`, and what is left.
local function divide(a, b)
  if type(a) == 'number' then
    local rest = fmod(a, b)
    return (a - rest) / b, rest
  end
  local quotient, rest = {}, 0
  for i = #a, 1, -1 do
    rest, quotient[i] = divide_limb(rest, a[i], b)
  end
  return shorten(quotient), rest
end

local function divide_up(a, b)
  local quotient, rest = divide(a, b)
  if rest > 0 then return add(quotient, 1) end
  return quotient
end

-- The nearest amount to a number of any size.
local function amount_of(a)
  if type(a) == 'table' then return MOST end
  return a
end
