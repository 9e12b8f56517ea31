-- A row of plain limits as the short ways write it, all numbers in their places: how many
-- limits there are, the revision, the latest instant, until when the server keeps it (0 if
-- nobody said), and of each limit its kind, four numbers of its state, and how many bytes of
-- it stand behind all numbers: the marks of a bucket, who holds slots. (What the whole
-- script writes is MessagePack, in which nothing begins with this byte.)
--
-- A bucket has level, instant, and of its marks since when and the last number (BEGINNING
-- if there are none); a window beginning, end and what is used; slots total, fence and
-- instant. What was never seen is as the kernel has it that is asked first.
local FLAT = 193

-- Whether a state is as an earlier form of this store had it: its marks or its holders in
-- tables.
local function is_outdated(state)
  if state[1] == 5 then return type(state[5]) == 'table' end
  return state[1] == 1 and state[4] and type(state[4][3]) == 'table'
end

-- How a row of so many limits is read and written, and how many numbers that are.
local function flat_format(count)
  return '<BBddd' .. string.rep('BddddI4', count), 5 + 6 * count
end

-- The numbers of a limit of this kind that was never seen.
local function fresh_numbers(kind)
  if kind == 1 then return 0, BEGINNING, 0, BEGINNING end
  if kind == 2 then return BEGINNING, BEGINNING, 0, 0 end
  return 0, 0, BEGINNING, 0
end
