-- A row of plain limits as the short ways write it, all numbers in their places: how many
-- limits there are, the revision, the latest instant, until when the server keeps it (0 if
-- nobody said), and of each limit its kind, four numbers of its state, and how many bytes of
-- it stand behind all numbers: the marks of a bucket, who holds slots. The first byte says which
-- form it is: what the whole script writes is MessagePack that begins with a number, which none
-- of these bytes does.
--
-- A bucket has level, instant, and of its marks since when and the last number (BEGINNING
-- if there are none); a window beginning, end and what is used; slots total, fence and
-- instant. What was never seen is as the kernel has it that is asked first.
--
-- Where usage is counted (FLAT_COUNTED), a row has what was used in one hour and is in no record yet:
-- what was used is the sum of both. Behind the numbers of its limits stand the hour, the instant from
-- which on the limits are as never seen, and how much of each was used; behind all else what
-- `usage.record` needs, for how long records are kept and how their fields are called. Such a row stays
-- until a record of its hour would be over, if its limits have recovered before. A listing moves what it
-- has counted to the records; then it stays for its limits alone.
local FLAT, FLAT_COUNTED = 193, 195

-- What others call of it: a server's function has 200 local names at most.
local flat_row = {}

-- Whether a state is as an earlier form of this store had it: its marks or its holders in
-- tables.
function flat_row.is_outdated(state)
  if state[1] == 5 then return type(state[5]) == 'table' end
  return state[1] == 1 and state[4] and type(state[4][3]) == 'table'
end

-- How a row of so many limits is read and written, and how many numbers that are.
function flat_row.format(count, counts)
  local format, numbers = '<BBddd' .. string.rep('BddddI4', count), 5 + 6 * count
  if not counts then return format, numbers end
  return format .. 'dd' .. string.rep('d', count), numbers + 2 + count
end

-- The numbers of a flat row, how many they are, and where what stands behind all else begins.
function flat_row.read(bytes)
  local count = string.byte(bytes, 2)
  local format, last = flat_row.format(count, string.byte(bytes) == FLAT_COUNTED)
  local numbers = { struct.unpack(format, bytes) }
  local rest_at = numbers[last + 1]
  for i = 1, count do rest_at = rest_at + numbers[6 * i + 5] end
  return numbers, last, rest_at
end

-- What such a row has counted; nil of one that does not count.
function flat_row.used(bytes, numbers, last, rest_at)
  if string.byte(bytes) ~= FLAT_COUNTED then return nil end
  local first = 8 + 6 * numbers[2]
  return {
    hour = numbers[first - 2], forget_at = numbers[first - 1],
    amounts = { unpack(numbers, first, last) }, retention_and_names = string.sub(bytes, rest_at),
  }
end

-- The numbers of a limit of this kind that was never seen.
function flat_row.fresh_numbers(kind)
  if kind == 1 then return 0, BEGINNING, 0, BEGINNING end
  if kind == 2 then return BEGINNING, BEGINNING, 0, 0 end
  return 0, 0, BEGINNING, 0
end
