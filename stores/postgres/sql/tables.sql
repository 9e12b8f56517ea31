-- What is kept. A *row* is the states of one level's limits for one key or
-- ancestor; the rows of one root (the outermost ancestor) and its leases are
-- guarded by the lock on the root's row, which every command takes first: so no
-- two commands ever wait for each other.

-- A set of limits, as a process knows it by name.
CREATE TABLE tidegate.sets (
  tab integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE,
  newest bigint NOT NULL DEFAULT 0
);

-- The numbers begin anywhere: a process that opened a set before the schema was dropped and
-- made anew is not to find another set under its number.
SELECT setval(pg_get_serial_sequence('tidegate.sets', 'tab'),
  1 + floor(random() * 1073741824)::bigint);

-- One limit: what `core` calls a rule, and how the plan uses it. Levels count
-- from 1. Kinds: 1 bucket, 2 window, 3 ring, 4 log, 5 slots. `period` is a
-- window's length, a log's window, a holder's time; `align` is 0 for the epoch,
-- 1 for first use, 2 for a calendar.
CREATE TYPE tidegate.rule AS (
  uid numeric,
  level integer,
  kind integer,
  postpaid boolean,
  shadow boolean,
  refund boolean,
  capacity numeric,
  drain numeric,
  weight numeric,
  brim numeric,
  most numeric,
  align integer,
  period numeric,
  step numeric,
  steps numeric,
  entries numeric
);

-- Every plan that a table was decided by: a row says which wrote it.
CREATE TABLE tidegate.revisions (
  tab integer NOT NULL REFERENCES tidegate.sets,
  revision bigint NOT NULL,
  version numeric NOT NULL,
  at bigint NOT NULL,
  levels integer NOT NULL,
  keep numeric NOT NULL,
  refunds boolean NOT NULL,
  rules tidegate.rule[] NOT NULL,
  -- How many limits the levels up to each have, all together.
  ends integer[] NOT NULL,
  names text[] NOT NULL,
  calendars bigint[] NOT NULL,
  -- For how long what is used is kept after its hour; null if it is not counted.
  usage numeric,
  PRIMARY KEY (tab, revision)
);

-- The state of one limit: whole numbers, as each kernel's file says; null if
-- never seen.
CREATE TYPE tidegate.state AS (n numeric[]);

-- The state of a limit that the plan at hand does not know, and the rule that wrote it.
CREATE TYPE tidegate.retained AS (rule tidegate.rule, n numeric[]);

-- The states of one level, and what it retains.
CREATE TYPE tidegate.carried AS (states tidegate.state[], retained tidegate.retained[]);

-- A plain row, of one bucket without low_water, is one number: `tat`, the instant at
-- which the bucket will be empty, in parts of a microsecond, of which one has
-- `drain` (GCRA's theoretical arrival time: ITU-T I.371, annex A). Its level at
-- `latest`, by which it was written, is `tat - latest * drain`, not below 0. Less is
-- computed and written for a take than of a level and its instant: an UPDATE's
-- expressions are made ready each time it is executed, and that costs more than
-- executing them. Any other row has `states`.
--
-- `due` and `followed` are a root's: when something is to be done about its leases
-- next, and up to which revision changes of limits were followed by them. No index
-- holds anything that changes, so that an update stays in its page.
--
-- `used` is what the fast paths (plain.sql) have counted of `used_hour`, by the position of the limit in
-- the row's revision, and is not in `tidegate.usage` yet: what was used is the sum of both. It goes there
-- before the hour, the revision or the row does (`tidegate.record_row_usage`). Both are null in a row that
-- has counted nothing.
CREATE TABLE tidegate.rows (
  tab integer NOT NULL,
  revision bigint NOT NULL,
  latest bigint NOT NULL,
  -- Null of a plain row, whose `tat` says it.
  forget_at bigint,
  due bigint NOT NULL,
  followed bigint NOT NULL,
  tat bigint,
  drain bigint,
  -- Of a root's row: until when anybody might stand in line under it.
  line_until bigint NOT NULL DEFAULT -9223372036854775808,
  key bytea NOT NULL,
  long_key bytea,
  states tidegate.state[],
  -- The rules that its states go by, if its key has some of its own.
  own tidegate.rule[],
  -- Null where nothing is retained, as in every plain row.
  retained tidegate.retained[],
  used_hour integer,
  used bigint[],
  PRIMARY KEY (tab, key)
) WITH (fillfactor = 60);

-- Leases, until they are forgotten. Stages: 0 live, 1 expired, 2 ended. Shares
-- are uid, amount, reference, marks (1 if it is forgotten, and twice the level at which it is
-- counted as used, if it is); a settlement is expired, then uid, taken
-- and used of each limit. When a lease was granted, neither a renewal nor an
-- adjustment changes; for one that waited it is the end of its wait.
--
-- Every question about leases and about requests that wait is answered by one index,
-- and no other looks fit: by the planner's guess a root has one lease, and to walk
-- through all of them in the order of what is due, for one of which the name is known,
-- is then as good as to look it up. So an index in such an order says its table's
-- number in another type, and only what asks by that order says it so.
CREATE TABLE tidegate.leases (
  tab integer NOT NULL,
  stage integer NOT NULL,
  expires_at bigint NOT NULL,
  due bigint NOT NULL,
  number bigint GENERATED ALWAYS AS IDENTITY,
  root bytea NOT NULL,
  id numeric NOT NULL,
  fence numeric NOT NULL,
  owner bytea NOT NULL,
  -- Where each of its ancestors ends, and it itself (`tidegate.row_name`).
  ends integer[] NOT NULL,
  idempotency bytea,
  -- The session with which it ends, if it does.
  session bigint,
  shares numeric[] NOT NULL,
  settlement numeric[],
  granted_at bigint NOT NULL,
  -- What it uses is counted: it was granted by a plan that does.
  counted boolean NOT NULL DEFAULT false,
  PRIMARY KEY (tab, root, id)
);
CREATE INDEX leases_due ON tidegate.leases ((tab::bigint), root, due, number);
CREATE INDEX leases_session ON tidegate.leases (tab, root, session)
  WHERE session IS NOT NULL AND stage = 0;
CREATE INDEX leases_idempotency ON tidegate.leases (tab, idempotency)
  WHERE idempotency IS NOT NULL AND stage = 0;

-- What was used of a row and a limit, by its name, in an hour of the epoch, but for what the row says
-- itself; until when it is kept.
CREATE TABLE tidegate.usage (
  tab integer NOT NULL,
  hour integer NOT NULL,
  amount bigint NOT NULL,
  over_at bigint NOT NULL,
  key bytea NOT NULL,
  long_key bytea,
  name text NOT NULL,
  PRIMARY KEY (tab, key, hour, name)
) WITH (fillfactor = 80);
CREATE INDEX usage_over_at ON tidegate.usage (over_at);

-- Numbers of sessions: each holds the advisory lock that `tidegate.session_lock`
-- says for as long as it lasts.
CREATE SEQUENCE tidegate.sessions MAXVALUE 2147483647 CYCLE;
