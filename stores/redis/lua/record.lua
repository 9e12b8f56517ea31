-- What is kept of a lease, as bytes: how far it has come (8 more if what it uses is counted), numbers of fixed sizes, its owner, its idempotency
-- key, and 21 bytes for each share: uid, amount, reference, marks (ledger.lua). Behind them, once it has
-- ended, is the answer: whether it had expired, and 20 bytes for each use: uid, taken, used.
-- The ledger's head has the newest number, the revision up to which changes of limits were
-- followed, until when the ledger is kept at least, and the number of the newest reset.
local LIVE, EXPIRED, ENDED, COUNTED = 0, 1, 2, 8
-- (A share and a use as they are repeated: '<' is to stand before them.)
local RECORD, SHARE, USE, HEAD = '<BdddddI4I4I4', 'I4ddB', 'I4dd', '<dddd'
local NOT_IDEMPOTENT = 4294967295
local SHARE_BYTES, USE_BYTES = 21, 20

local function pack_lease(stage, expires_at, fence, due, number, granted_at, owner, idempotency, shares)
  return struct.pack(RECORD, stage, expires_at, fence, due, number, granted_at, #owner,
    idempotency and #idempotency or NOT_IDEMPOTENT, #shares)
    .. owner .. (idempotency or '') .. shares
end

-- The record of a lease that is held, once it has expired: it is remembered until `due`.
local function expired_lease(bytes, due)
  return string.char(string.byte(bytes) + EXPIRED) .. string.sub(bytes, 2, 17)
    .. struct.pack('<d', due) .. string.sub(bytes, 26)
end

-- Stage without whether it is counted, expiry, fence, when it is due, its number, when it was granted, its owner, its
-- idempotency key if it has one, how many bytes of shares there are, where they begin,
-- and whether it is counted.
local function unpack_lease(bytes)
  local stage, expires_at, fence, due, number, granted_at, owner, key, shares, at =
    struct.unpack(RECORD, bytes)
  local key_at = at + owner
  local idempotency = key ~= NOT_IDEMPOTENT and string.sub(bytes, key_at, key_at + key - 1)
  local shares_at = idempotency and key_at + key or key_at
  return stage % COUNTED, expires_at, fence, due, number, granted_at,
    string.sub(bytes, at, key_at - 1), idempotency, shares, shares_at, stage >= COUNTED
end
