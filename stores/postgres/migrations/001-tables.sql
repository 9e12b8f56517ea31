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
CREATE TABLE tidegate.editions (
  tab integer NOT NULL REFERENCES tidegate.sets,
  edition bigint NOT NULL,
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
  PRIMARY KEY (tab, edition)
);

-- The state of one limit: whole numbers, as each kernel's file says; null if
-- never seen.
CREATE TYPE tidegate.cell AS (n numeric[]);

-- A row of one bucket without lows is kept as `level` and `at`, so that one
-- UPDATE decides; any other as `cells`. `due` and `followed` are a root's: when
-- something is to be done about its leases next, and up to which edition changes
-- of limits were followed by them. No index holds anything that changes, so that
-- an update stays in its page.
CREATE TABLE tidegate.rows (
  tab integer NOT NULL,
  edition bigint NOT NULL,
  latest bigint NOT NULL,
  forget_at bigint NOT NULL,
  due bigint NOT NULL,
  followed bigint NOT NULL,
  level bigint,
  at bigint,
  key bytea NOT NULL,
  long_key bytea,
  cells tidegate.cell[],
  -- The rules that its cells go by, if its key has some of its own.
  own tidegate.rule[],
  PRIMARY KEY (tab, key)
) WITH (fillfactor = 60);

-- Leases, until they are forgotten. Stages: 0 live, 1 expired, 2 ended. Shares
-- are uid, amount, place, forgotten; a settlement is expired, then uid, taken
-- and used of each limit.
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
  -- Where each of its ancestors ends.
  ends integer[] NOT NULL,
  ask bytea,
  -- The session with which it ends, if it does.
  session bigint,
  shares numeric[] NOT NULL,
  settlement numeric[],
  PRIMARY KEY (tab, root, id)
);
CREATE INDEX leases_due ON tidegate.leases (tab, root, due, number);
CREATE INDEX leases_session ON tidegate.leases (tab, root, session)
  WHERE session IS NOT NULL AND stage = 0;
CREATE INDEX leases_ask ON tidegate.leases (tab, ask) WHERE ask IS NOT NULL;

-- Numbers of sessions: each holds the advisory lock that `tidegate.session_lock`
-- says for as long as it lasts.
CREATE SEQUENCE tidegate.sessions MAXVALUE 2147483647 CYCLE;

-- What is defined for an owner; a key as an index holds it, and a long one whole.
CREATE TABLE tidegate.definitions (
  owner text NOT NULL,
  key bytea NOT NULL,
  long_key bytea,
  value bytea NOT NULL,
  PRIMARY KEY (owner, key)
);
