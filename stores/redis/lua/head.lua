-- Tidegate in Redis: one command on one key and its ancestors, wholly or not
-- at all. A translation of the crates `core` and `store`, word for word
-- where that can be: whoever changes a rule there changes it here, and the
-- differential test finds who did not.
--
-- A server has these files as a library of functions, defined once, or as a
-- script, defined anew for every call. So they only define: what is of one call
-- is set by `begin` (main.lua), and what is the server's own (`math`, `redis`),
-- which is not there while functions are loaded, is not touched before.
--
-- keys     the ledger, its order of time, the order of those who wait, who they
--          are; the records of usage and their order;
--          the rows of the path outermost first,
--          then rows of others that an expired lease gives back to
-- arguments
--          in MessagePack: the plan that decides; the command; the levels of
--          those other rows, what each row's key has for itself, if any has, and the
--          limits that have another capacity for this command, by their positions;
--          then the revisions that wrote what is here, oldest first
--
-- Numbers are doubles. Amounts, instants and numbers of things stay below
-- 2^53 and are exact; what may exceed it goes through `wide`. An instant of
-- 2^53 is "never", and stands for every later one.
local fmod, min, max -- of `math`, set by `begin`
local EXACT = 9007199254740992 -- 2^53
local MOST = EXACT - 1         -- the largest amount
local NEVER, BEGINNING = EXACT, -EXACT

-- The reference of a charge that was more than a state can say: nothing of it is given back.
local NOWHERE = BEGINNING

-- A verdict is the instant from which the work may start.
local ADMIT, NOT_EVER = -1 / 0, 1 / 0

-- An instant, moved by so many microseconds: at the ends of time it stays.
local function later(at, micros)
  return min(at + micros, NEVER)
end

local function earlier(at, micros)
  return max(at - micros, BEGINNING)
end

-- What is never seen is not kept: the number 0 stands for it.
local FRESH = 0

-- What is left of `a` by `b`, from 0 on also where `a` is negative.
local function modulo(a, b)
  local rest = fmod(a, b)
  if rest < 0 then return rest + b end
  return rest
end

-- Drops the first entries of two lists, as many as `gone` says of the first.
local function drop_first(first, second, gone)
  local n, keep_from = #first, 1
  while keep_from <= n and gone(first[keep_from]) do keep_from = keep_from + 1 end
  if keep_from == 1 then return end
  for i = 1, n do
    first[i], second[i] = first[i + keep_from - 1], second[i + keep_from - 1]
  end
end

-- The words for those who wait, if they were defined; and the same, if they
-- matter to this call.
local lines, line = nil, nil

-- The kernels by number, each a file: what a limit of the plan is. How low a bucket has
-- stood is of its kernel, and of the straight way.
local kernels, low_water = {}, nil
