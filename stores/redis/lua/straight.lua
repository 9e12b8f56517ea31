-- The straight way of what most policies do: takes, with and without a lease, and the ends
-- of leases, of limits without levels (`single_bucket.lua` is about one bucket). The arithmetic of
-- buckets that fits a double stands here once more; that of other limits, and of what a
-- late refund gives back, is the kernels' own. For the server an operation of Lua costs
-- much, and a table more: so this is one long function, with numbers in one list that is
-- read and written at once (see `flat.lua`).
--
-- Whatever is not so plain answers before anything was written, and the whole script is
-- called: with false if the next call is likely to be like it (a row of another revision
-- or by limits of its own, numbers from 2^53 on, a clock that stands behind, somebody who
-- waits), else with ONCE (a lease of which more than a share for each limit is known, an idempotency
-- key, a reset since).
--
-- What has ended is forgotten, and what has expired is noted, some at a time. Until then its record
-- says itself what it is.
-- KEYS: the row, the order of those who wait; for leases the ledger, its order of time; where usage
-- is counted, its records and their order.
-- ARGV: the plan (see `read_limits`); what is asked, first its kind (0 a take, 1 an end, 2 a
-- take that may be partial), whether the caller's clock decides, its now; what `usage.record`
-- needs, or '' if nothing is counted; for leases the key.
-- A take goes on with how detailed the answer is to be (0 the verdict alone, 1 with a refusal,
-- 2 always), the amounts, for a lease its expiry and its id, and where it may be partial the
-- least of each limit; an end with whether the answer is to be remembered, the id,
-- and what was used of each limit; -1 stands for what was taken.
local BUCKET, SLOTS = 1, 5
local ONCE, NONE = { 11, 0 }, {}

-- A new lease in so many looks after what is due.
local SWEEP = 8

-- A row is kept so many microseconds longer than it must be, so that its end is not moved
-- with each call.
local LONGER = 1000000

-- The limits of the last call: most calls are by one plan, which is then not read again.
local limits_of_last

-- The list: revision and keep, then of each limit uid, kind, capacity, and three numbers
-- that its kind has. With it: how many there are, how a row and a take are read, and the
-- limits that are no buckets as their kernels know them.
local function read_limits(bytes, counts, read, write)
  local limits = { read('<' .. string.rep('d', #bytes / 8), bytes) }
  local count = (#limits - 3) / 6
  limits.bytes, limits.count, limits.counts = bytes, count, counts
  limits.take = '<BBdB' .. string.rep('d', count)
  limits.row, limits.numbers = flat_row.format(count, counts)
  limits.head = write('<BBd', counts and FLAT_COUNTED or FLAT, count, limits[1])
  for at = 3, 6 * count, 6 do
    if limits[at + 1] ~= BUCKET then
      limits.has_others = true
      limits[-(at + 3) / 6] = {
        capacity = limits[at + 2], ttl = limits[at + 3],
        align = limits[at + 3], period = limits[at + 4],
      }
    end
  end
  limits_of_last = limits
  return limits
end

-- The numbers of a row that was never seen.
local function fresh_row(limits)
  local flat = { limits.counts and FLAT_COUNTED or FLAT, limits.count, limits[1], BEGINNING, 0 }
  for at = 6, 6 * limits.count, 6 do
    flat[at], flat[at + 5] = limits[at - 2], 0
    flat[at + 1], flat[at + 2], flat[at + 3], flat[at + 4] = flat_row.fresh_numbers(flat[at])
  end
  return flat
end

-- The numbers of a row that the whole script has written, and what stands behind them by
-- limit; nothing if it is not plain.
local function from_whole(was, limits)
  if string.byte(was) == FLAT or string.byte(was) == FLAT_COUNTED then return nil end
  local by, latest, states, own, retained = cmsgpack.unpack(was)
  if by ~= limits[1] or own or retained then return nil end
  local flat, tails = fresh_row(limits), {}
  flat[4] = latest
  for i, state in ipairs(states) do
    local at = 6 * i
    if state ~= FRESH then
      local low_water_of = flat[at] == BUCKET and state[4]
      if type(state[2]) ~= 'number' or flat[at] == BUCKET and state[5] or flat_row.is_outdated(state) then
        return nil
      end
      flat[at + 1], flat[at + 2] = state[2], state[3]
      if flat[at] ~= BUCKET then
        flat[at + 3], tails[i] = state[4], state[5]
      elseif low_water_of then
        flat[at + 3], flat[at + 4], tails[i] = unpack(low_water_of)
      end
      flat[at + 5] = #(tails[i] or '')
    end
  end
  return flat, tails
end

-- What stands behind a row's numbers, by limit; and where what is behind all of it begins.
local function read_tails(was, flat, limits)
  local tails, at = NONE, flat[limits.numbers + 1]
  for i = 1, limits.count do
    local bytes = flat[6 * i + 5]
    if bytes > 0 then
      if tails == NONE then tails = {} end
      tails[i] = string.sub(was, at, at + bytes - 1)
      at = at + bytes
    end
  end
  return tails, at
end

-- Whether a row, whose numbers of what was used stand behind `before`, can have so much more, or less.
local function can_count(changes, numbers, before)
  for i, more in ipairs(changes) do
    local sum = numbers[before + i] + more
    if sum < 0 or sum >= EXACT then return false end
  end
  return true
end

-- Adds what was used, more or less, in the hour of an instant to what the row has counted, if that is of
-- the same hour. If it is of another, and this hour is the present one, what the row has goes to the records
-- first. Changes of any other hour, sums that no double holds, and what the row has not enough of, with all
-- that it has, go to the records. Answers until when the row is kept for what it has counted.
function flat_row.count_in_row(
  changes, used_at, numbers, limits, was, rest_at, retention_and_names, records, order, now, is_callers)
  local width, present = limits.count, usage.hour_of(now)
  local before, hour = limits.numbers - width, used_at == now and present or usage.hour_of(used_at)
  local row_hour = numbers[before - 1]
  local counts_here = row_hour == hour and can_count(changes, numbers, before)
  if not counts_here and (not row_hour or row_hour == hour or hour == present) then
    if row_hour then
      local amounts = { unpack(numbers, before + 1, before + width) }
      usage.record(records, order, string.sub(was, rest_at), amounts, row_hour, now, is_callers)
    end
    row_hour, numbers[before - 1] = present, present
    for i = 1, width do numbers[before + i] = 0 end
    counts_here = hour == present and can_count(changes, numbers, before)
  end
  if not counts_here then
    usage.record(records, order, retention_and_names, changes, hour, now, is_callers)
  end
  local is_used = false
  for i = 1, width do
    if counts_here then numbers[before + i] = numbers[before + i] + changes[i] end
    is_used = is_used or numbers[before + i] ~= 0
  end
  return is_used and usage.over_at(row_hour, struct.unpack('<d', retention_and_names)) or BEGINNING
end

-- How long it takes `what` to drain.
local function micros(what, drain)
  local rest = fmod(what, drain)
  return (what - rest) / drain + (rest > 0 and 1 or 0)
end

-- How much of a bucket is there, but for what rounds it to its capacity where nothing is used.
local function room(level, weight, brim)
  local left = brim > level and brim - level or 0
  return (left - fmod(left, weight)) / weight
end

local function push_bucket(reply, level, capacity, drain, weight, brim, now)
  local n, debt = #reply, 0
  local remaining = room(level, weight, brim)
  local next_level = max(brim - (remaining + 1) * weight, 0)
  if level > brim then debt = micros(level - brim, weight) end
  if level == 0 then remaining = capacity end
  reply[n + 1], reply[n + 2], reply[n + 3] = remaining, debt, level > 0 and 1 or 0
  reply[n + 4] = level > 0 and min(now + micros(level - next_level, drain), NEVER) or 0
  reply[n + 5] = level > 0 and min(now + micros(level, drain), NEVER) or 0
end

-- How all limits stand, behind the answer.
local function with_standings(reply, limits, levels, states, now)
  for i = 1, limits.count do
    local at = 6 * i - 3
    if limits[at + 1] == BUCKET then
      push_bucket(reply, levels[i], limits[at + 2], limits[at + 3], limits[at + 4], limits[at + 5], now)
    else
      local remaining, debt, replenish_at, full_at =
        kernels[limits[at + 1]].standing(limits[-i], states[i], now)
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3] = remaining, debt, replenish_at and 1 or 0
      reply[n + 4], reply[n + 5] = replenish_at or 0, full_at or 0
    end
  end
  return reply
end

-- Has a take that may be partial ask of each limit for as much as fits, the least at least
-- (`as_much_as_fits` of leases.lua).
local function ask_for_what_fits(request, limits, levels, states, now)
  for i = 1, limits.count do
    local at, asked, fits = 6 * i - 3, request[4 + i], nil
    if limits[at + 1] ~= BUCKET then
      fits = kernels[limits[at + 1]].standing(limits[-i], states[i], now)
    elseif levels[i] == 0 then
      fits = limits[at + 2]
    else
      fits = room(levels[i], limits[at + 4], limits[at + 5])
    end
    request[4 + i] = max(min(asked, fits), min(request[6 + limits.count + i], asked))
  end
end

local function straight(KEYS, ARGV)
  local count_in_row = flat_row.count_in_row
  local call, read, write = redis.call, struct.unpack, struct.pack
  fmod, min, max = math.fmod, math.min, math.max
  local limits, request, counted, owner = limits_of_last, ARGV[2], ARGV[3], ARGV[4]
  if counted == '' then counted = nil end
  local counts = counted ~= nil
  if not limits or limits.bytes ~= ARGV[1] or limits.counts ~= counts then
    limits = read_limits(ARGV[1], counts, read, write)
  end
  local count, kind, has_order = limits.count, string.byte(request), false
  local is_end, is_partial = kind == 1, kind == 2
  if owner then
    if not limits.lease then read_leases(limits) end
    -- Whoever waits counts twice.
    local there = call('EXISTS', KEYS[2], KEYS[2], KEYS[4])
    if there > 1 then return false end
    has_order = there == 1
  elseif call('EXISTS', KEYS[2]) == 1 then
    return false
  end
  request = { read(is_end and limits.finish or is_partial and limits.partial
    or owner and limits.lease or limits.take, request) }
  local is_callers, now = request[2] == 1, request[3]
  if not is_callers then
    local time = ARGV.time or call('TIME')
    now = time[1] * 1000000 + time[2]
  end

  -- The row, and what stands behind its numbers, by limit.
  local was, flat, tails, rest_at = call('GET', KEYS[1]), nil, NONE, nil
  if not was then
    flat = fresh_row(limits)
  elseif string.sub(was, 1, 10) == limits.head then
    flat = { read(limits.row, was) }
    if #was >= flat[limits.numbers + 1] then tails, rest_at = read_tails(was, flat, limits) end
  else
    flat, tails = from_whole(was, limits)
  end
  if not flat or now < flat[4] then return false end
  if tails == NONE and (owner or limits.has_others) then tails = {} end

  -- The levels by now, and the states of what is no bucket.
  -- (A table that has its places does not grow.)
  local levels, states = { 0, 0, 0, 0 }, limits.has_others and { 0, 0, 0, 0 }
  for at = 6, 6 * count, 6 do
    local i = at / 6
    if flat[at] == BUCKET then
      local level, since = flat[at + 1], flat[at + 2]
      if now < since or flat[at + 4] ~= BEGINNING and not low_water then return false end
      local drained = (now - since) * limits[at]
      levels[i] = drained < level and level - drained or 0
    else
      local state = { flat[at], flat[at + 1], flat[at + 2], flat[at + 3], tails[i] or '' }
      kernels[flat[at]].observe(limits[-i], state, now)
      -- What a step back of the clock moves stays so also where nothing is taken, or other limits
      -- alone are given back.
      if state[2] ~= flat[at + 1] or state[3] ~= flat[at + 2] or state[4] ~= flat[at + 3] then
        return false
      end
      states[i] = state
    end
  end

  local id, lease_number, expires_at, due, head, over = nil, nil, nil, nil, nil, nil
  local record, reply = nil, nil
  -- What is used more, or less, of each limit, and in the hour of which instant.
  local changes, used_at = counted and {}, now
  if not is_end then
    -- The verdict (0 admit, 1 not until, 2 never), its instant and the limit that binds,
    -- counted from 0.
    local verdict, fits_at, binding, detail = 0, 0, -1, request[4]
    if is_partial then ask_for_what_fits(request, limits, levels, states, now) end
    for i = 1, count do
      local at, amount, fits = 6 * i, request[4 + i], ADMIT
      if amount > limits[at - 1] then
        fits = NOT_EVER
      elseif amount == 0 then
        fits = ADMIT
      elseif flat[at] == BUCKET then
        local wanted, brim = levels[i] + amount * limits[at + 1], limits[at + 2]
        if wanted >= EXACT then return false end
        if wanted > brim then fits = min(now + micros(wanted - brim, limits[at]), NEVER) end
      else
        fits = kernels[flat[at]].quote(limits[-i], states[i], amount, now)
      end
      if fits ~= ADMIT and verdict < 2 and (verdict == 0 or fits > fits_at) then
        verdict, fits_at, binding = 1, fits, i - 1
        if fits == NOT_EVER then verdict, fits_at = 2, 0 end
      end
    end
    if verdict > 0 then
      reply = { 8, now, verdict, fits_at, binding }
      if detail == 0 then return reply end
      return with_standings(reply, limits, levels, states, now)
    end

    -- What the ledger must say before a lease is noted there.
    local term = nil
    if owner then
      expires_at, id = min(request[5 + count] + now - request[3], NEVER), request[6 + count]
      local found = call('HMGET', KEYS[3], 'l' .. id, 'h')
      if found[1] or (found[2] and true or false) ~= has_order
        or expires_at + 2 * limits[2] >= NEVER then
        return ONCE
      end
      head = found[2] and { read(HEAD, found[2]) } or { 0, limits[1], 0, 0 }
      head[1] = head[1] + 1
      lease_number = head[1]
      if fmod(head[1], SWEEP) == 0 then
        over = retiring.find(now, limits, head, KEYS[3], KEYS[4])
        if over == nil then return ONCE end
      end
      term = { id, expires_at }
    end

    -- Charges what was admitted.
    local fence, shares, n = 0, owner and { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 0
    for i = 1, count do
      local at, amount = 6 * i, request[4 + i]
      local is_counted = counted and flat[at] ~= SLOTS
      if counted then changes[i] = is_counted and amount or 0 end
      if amount > 0 then
        local reference, its_fence = 0, 0
        if flat[at] ~= BUCKET then
          reference, its_fence = kernels[flat[at]].charge(limits[-i], states[i], amount, now, nil, term)
          if its_fence > fence then fence = its_fence end
        else
          local level, last = levels[i], flat[at + 4]
          if last ~= BEGINNING then
            local since, _, marks = low_water.noted(flat[at + 3], last, tails[i] or '', level, now)
            if since then
              if tails == NONE then tails = {} end
              tails[i] = marks
            else
              tails[i], flat[at + 4] = nil, BEGINNING
            end
          end
          level = level + amount * limits[at + 1]
          levels[i], flat[at + 1], flat[at + 2] = level, level, now
          if term then
            last = flat[at + 4] ~= BEGINNING and flat[at + 4] or nil
            if not last then flat[at + 3] = now end
            reference = low_water.next_number(last, now)
            flat[at + 4] = reference
          end
        end
        if owner then
          shares[n + 1], shares[n + 2], shares[n + 3] = limits[at - 3], amount, reference
          shares[n + 4] = is_counted and usage.ON_FIRST_LEVEL or 0
          n = n + 4
        end
      end
    end
    if owner then
      local packed = write(limits.shares[n / 4], unpack(shares, 1, n))
      due = expires_at
      record = pack_lease(counted and COUNTED or LIVE, expires_at, fence, due, head[1], now, owner, false, packed)
      reply = { 10, now, expires_at, fence }
      if is_partial then
        reply[1] = 12
        for i = 1, count do reply[4 + i] = request[4 + i] end
      end
    else
      reply = { 8, now, 0, 0, -1 }
    end
    if detail == 2 then
      with_standings(reply, limits, levels, states, now)
    elseif not owner then
      reply = now
    end
  else
    -- The lease that ends.
    id = request[5]
    local found = call('HMGET', KEYS[3], 'l' .. id, 'h')
    record, head = found[1], found[2]
    if not (record and head and has_order) then return ONCE end
    local stage, expiry, fence, is_due, number, granted_at, its, idempotency, bytes, from, was_counted =
      unpack_lease(record)
    -- What was granted uncounted stays so.
    if not was_counted then counted, changes = nil, nil end
    used_at = granted_at
    if its ~= owner then return ONCE end
    if stage == ENDED and is_due > now then return answer_again(record, from + bytes, now) end
    head = { read(HEAD, head) }
    due = now + limits[2]
    -- By other limits something of it may have come back when it expired, and that it has is remembered
    -- for a time.
    local has_expired = expiry <= now and 1 or 0
    local known_until = stage == LIVE and expiry + limits[2] or is_due
    if stage == ENDED or idempotency or head[4] > number or due >= NEVER
      or has_expired == 1 and (head[2] ~= limits[1] or known_until <= now) then
      return ONCE
    end
    local format = limits.shares[bytes / SHARE_BYTES]
    if not format then return ONCE end
    local shares = { read(format, record, from) }
    reply = { 1, now, has_expired, 0 }
    local position, uses, n = 0, { 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 0
    for share = 1, #shares - 1, 4 do
      local uid, taken, reference = shares[share], shares[share + 1], shares[share + 2]
      position = position + 1
      -- What was not taken, and used, is for the whole script.
      while position <= count and limits[6 * position - 3] ~= uid do
        if request[5 + position] > 0 and flat[6 * position] ~= SLOTS then return ONCE end
        position = position + 1
      end
      local at, used, marks = 6 * position, request[5 + position], shares[share + 3]
      if position > count or marks ~= 0
        and (not counted or marks ~= usage.ON_FIRST_LEVEL or flat[at] == SLOTS) then
        return ONCE
      end
      if used < 0 then used = taken end
      -- What was not counted when it was taken is not counted less.
      if counted and flat[at] ~= SLOTS and (marks ~= 0 or used > taken) then
        changes[position] = used - taken
      end
      if flat[at] == SLOTS then
        kernels[SLOTS].release(states[position], id, expiry, now)
      elseif flat[at] ~= BUCKET then
        local kernel, state = kernels[flat[at]], states[position]
        if used > taken then
          kernel.charge(limits[-position], state, used - taken, now)
        elseif used < taken then
          kernel.refund(limits[-position], state, taken - used, reference, now)
        end
      elseif used ~= taken then
        local level, last, more = levels[position], flat[at + 4], (used - taken) * limits[at + 1]
        local since, marks, _ = flat[at + 3], tails[position] or '', nil
        flat[at + 2] = now
        if used > taken then
          if last ~= BEGINNING then since, _, marks = low_water.noted(since, last, marks, level, now) end
          level = level + more
          -- Above this nobody counts a debt.
          if level >= EXACT or level > limits[at + 2] + limits[at] * 140737488355328 then return ONCE end
        elseif last ~= BEGINNING then
          local back
          back, marks = low_water.given_back(since, last, marks, reference, -more, level)
          level = level - back
          if level == 0 then since, _, marks = low_water.noted(since, last, marks, 0, now) end
        end
        if last ~= BEGINNING and not since then flat[at + 4], marks = BEGINNING, nil end
        flat[at + 1], tails[position] = level, marks
      end
      uses[n + 1], uses[n + 2], uses[n + 3] = uid, taken, used
      reply[n + 5], reply[n + 6], reply[n + 7] = uid, taken, used
      n = n + 3
    end
    for i = position + 1, count do
      if request[5 + i] > 0 and flat[6 * i] ~= SLOTS then return ONCE end
    end
    if request[4] == 1 then
      record = pack_lease(was_counted and ENDED + COUNTED or ENDED, expiry, fence, due, number, granted_at, owner, false, '')
        .. write(limits.uses[n / 3], has_expired, unpack(uses, 1, n))
    else
      record = nil
    end
    lease_number = number
  end

  -- Writes the row, for as long as it is more than "never seen", and a little longer.
  local forget_at, tail = BEGINNING, ''
  for i = 1, count do
    local at, until_at = 6 * i, nil
    if flat[at] == BUCKET then
      until_at = flat[at + 2] + flat[at + 1] / limits[at]
      if flat[at + 4] >= until_at then until_at = flat[at + 4] + 1 end
    else
      local state = states[i]
      flat[at + 1], flat[at + 2], flat[at + 3], tails[i] = state[2], state[3], state[4], state[5]
      until_at = kernels[flat[at]].forget_at(limits[-i], state)
    end
    if until_at > forget_at then forget_at = until_at end
    local its = tails[i]
    if its then
      flat[at + 5], tail = #its, tail .. its
    else
      flat[at + 5] = 0
    end
  end
  flat[4] = now
  local until_at = forget_at
  if counts then
    local first = owner and 5 or 3
    changes = changes or {}
    for i = 1, count do changes[i] = changes[i] or 0 end
    flat[limits.numbers - count] = forget_at
    until_at = max(forget_at, count_in_row(changes, used_at, flat, limits, was, rest_at, ARGV[3],
      KEYS[first], KEYS[first + 1], now, is_callers))
    tail = tail .. ARGV[3]
  end
  if until_at <= now and not is_callers then
    if was then call('DEL', KEYS[1]) end
  else
    local is_kept = is_callers or flat[5] >= until_at
    if not is_kept then
      flat[5] = until_at + LONGER >= NEVER and NEVER or until_at + LONGER - fmod(until_at, 1000)
    end
    local row = write(limits.row, unpack(flat, 1, limits.numbers)) .. tail
    if is_callers or flat[5] == NEVER then
      call('SET', KEYS[1], row)
    elseif is_kept then
      call('SET', KEYS[1], row, 'KEEPTTL')
    else
      call('SET', KEYS[1], row, 'PXAT', flat[5] / 1000 + 1)
    end
  end
  if not owner then return reply end

  -- Notes the lease.
  local member = write('>I8', lease_number) .. id
  if not record then
    call('HDEL', KEYS[3], 'l' .. id)
    call('ZREM', KEYS[4], member)
    if call('EXISTS', KEYS[4]) == 0 then call('DEL', KEYS[3]) end
    return reply
  end
  call('ZADD', KEYS[4], due, member)
  local forgotten_at = is_end and due or due + limits[2]
  local is_kept = is_callers or head[3] >= forgotten_at
  if is_end and is_kept then
    call('HSET', KEYS[3], 'l' .. id, record)
    return reply
  end
  -- Its keys are kept a while longer, so that this is not to be said with each lease.
  if not is_kept then head[3] = forgotten_at + limits[2] end
  call('HSET', KEYS[3], 'l' .. id, record, 'h', write(HEAD, head[1], head[2], head[3], head[4]))
  if not is_kept then
    local until_ms = (head[3] - fmod(head[3], 1000)) / 1000 + 1
    call('PEXPIREAT', KEYS[3], until_ms)
    call('PEXPIREAT', KEYS[4], until_ms)
  end
  if over then retiring.write(over, KEYS[3], KEYS[4]) end
  return reply
end
