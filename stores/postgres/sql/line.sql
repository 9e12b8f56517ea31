-- Requests that wait under one root, of all processes, in order of arrival: read and
-- written by whoever holds the lock on the root's row. No request overtakes one that
-- waits for a row of its path; others under the same root may pass. One that is to ask
-- again is notified on the channel of its process when the transaction is committed.
--
-- Not logged: by the time a server has come back after a crash, nobody would have
-- been heard of for long enough anyway.
CREATE UNLOGGED TABLE tidegate.waiters (
  tab integer NOT NULL,
  -- By the deciding clock: when it came, less how much earlier it counts; among
  -- those of one instant, in which order.
  came bigint NOT NULL,
  number bigint GENERATED ALWAYS AS IDENTITY,
  -- Until when it is taken for alive.
  alive_until bigint NOT NULL,
  root bytea NOT NULL,
  turn numeric NOT NULL,
  channel text NOT NULL,
  -- The names of the rows of its path, and of those that it waits for.
  path bytea[] NOT NULL,
  waits_for bytea[] NOT NULL,
  PRIMARY KEY (tab, root, turn)
);

CREATE INDEX waiters_order ON tidegate.waiters ((tab::bigint), root, came, number);

-- The names of the rows of a key's path.
CREATE FUNCTION tidegate.path_of(p_key bytea, p_ends integer[]) RETURNS bytea[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_path bytea[] := '{}';
BEGIN
  FOR i IN 1 .. cardinality(p_ends) LOOP
    v_path[i] := tidegate.short(tidegate.row_name(p_key, p_ends, i));
  END LOOP;
  RETURN v_path;
END $$;

-- If the set is slots alone, none of which is left once this take is done: when the
-- first is back by itself. Null otherwise: somebody may have room, as after an answer
-- that is given again, for which nothing was taken now.
CREATE FUNCTION tidegate.full_until(a tidegate.command) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  e tidegate.revisions;
  v_row tidegate.rows;
  c numeric[];
  v_free numeric;
BEGIN
  SELECT * INTO v_row FROM tidegate.rows WHERE tab = a.tab AND key = a.root AND own IS NULL;
  IF NOT FOUND THEN RETURN NULL; END IF;
  e := tidegate.revision(a.tab, v_row.revision);
  IF e.levels <> 1 OR cardinality(e.rules) <> 1 OR (e.rules[1]).kind <> 5 THEN RETURN NULL; END IF;
  c := (v_row.states[1]).n;
  v_free := (tidegate.standing(e.rules[1], c, a.now))[1];
  -- The row is as it was before this take, of which the lease tells.
  IF tidegate.slots_position(coalesce(c, '{}'), a.id, a.now) IS NULL AND EXISTS (
    SELECT FROM tidegate.leases WHERE tab = a.tab AND root = a.root AND id = a.id) THEN
    v_free := v_free - a.amounts[1];
  END IF;
  IF v_free > 0 THEN RETURN NULL; END IF;
  RETURN nullif(tidegate.next_due(a.tab, a.root), 9223372036854775807);
END $$;

-- Gives up the place of one who has what he waited for. If nothing of it is left before
-- p_until, who is next is not made to ask in vain; it is told that instant if it might
-- not ask before it by itself: a NOTIFY makes the commits of the whole database go one
-- after the other, and wakes every connection that listens.
CREATE FUNCTION tidegate.leave_until(
  p_tab integer, p_root bytea, p_turn numeric, p_now bigint, p_until bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_next record;
BEGIN
  IF p_until > p_now THEN
    DELETE FROM tidegate.waiters WHERE tab = p_tab AND root = p_root AND turn = p_turn;
    SELECT channel, turn, alive_until INTO v_next FROM tidegate.waiters
    WHERE tab::bigint = p_tab AND root = p_root AND alive_until > p_now
    ORDER BY came, number LIMIT 1;
    IF FOUND THEN
      -- It is heard of before `alive_until`, or has lost its place.
      IF p_until < v_next.alive_until THEN
        PERFORM pg_notify(v_next.channel, v_next.turn || ' ' || p_until - p_now);
      END IF;
      RETURN;
    END IF;
  END IF;
  PERFORM tidegate.leave(p_tab, p_root, p_turn, p_now);
END $$;

-- A request that waited has what it waited for, and gives its place up.
CREATE FUNCTION tidegate.leave_served(a tidegate.command, p_turn numeric)
RETURNS void LANGUAGE sql AS
$$ SELECT tidegate.leave_until(a.tab, a.root, p_turn, a.now, tidegate.full_until(a)) $$;

-- The rows of a path for which somebody ahead waits; null if nobody does. A request
-- that has no place, and asks for none, is behind all.
CREATE FUNCTION tidegate.kept_at(
  p_tab integer, p_root bytea, p_path bytea[], p_turn numeric, p_ahead bigint, p_now bigint)
RETURNS bytea[] LANGUAGE plpgsql AS $$
DECLARE
  v_came bigint := 9223372036854775807;
  v_number bigint := 9223372036854775807;
  v_mine record;
  v_waits_for bytea[];
BEGIN
  IF p_turn IS NOT NULL THEN
    SELECT came, number INTO v_mine FROM tidegate.waiters
    WHERE tab = p_tab AND root = p_root AND turn = p_turn;
    v_came := coalesce(v_mine.came, tidegate.earlier(p_now, p_ahead));
    v_number := coalesce(v_mine.number, v_number);
  END IF;
  SELECT waits_for INTO v_waits_for FROM tidegate.waiters
  WHERE tab::bigint = p_tab AND root = p_root AND (came, number) < (v_came, v_number)
    AND alive_until > p_now AND waits_for && p_path
  ORDER BY came, number LIMIT 1;
  IF NOT FOUND THEN RETURN NULL; END IF;
  RETURN ARRAY(SELECT unnest(p_path) INTERSECT SELECT unnest(v_waits_for));
END $$;

-- A request stands in line, and waits for these rows; p_until is what its root's row
-- says of the line.
CREATE FUNCTION tidegate.stay(
  p_tab integer, p_root bytea, p_turn numeric, p_channel text, p_ahead bigint, p_alive bigint,
  p_now bigint, p_path bytea[], p_waits_for bytea[], p_until bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO tidegate.waiters (tab, root, turn, came, alive_until, channel, path, waits_for)
  VALUES (p_tab, p_root, p_turn, tidegate.earlier(p_now, p_ahead),
    tidegate.later(p_now, p_alive), p_channel, p_path, p_waits_for)
  ON CONFLICT (tab, root, turn) DO UPDATE SET alive_until = excluded.alive_until,
    channel = excluded.channel, waits_for = excluded.waits_for;
  -- Not with every request: it is the row that everyone writes.
  IF p_until < tidegate.later(p_now, p_alive) THEN
    UPDATE tidegate.rows SET line_until = tidegate.later(p_now, 2 * p_alive)
    WHERE tab = p_tab AND key = p_root;
    PERFORM tidegate.make_general(p_tab, p_root);
  END IF;
END $$;

-- Notifies every request that nobody is ahead of: no more than so many at once, the
-- others find out by themselves. One that was not heard of for too long has lost its
-- place.
CREATE FUNCTION tidegate.wake(p_tab integer, p_root bytea, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  w record;
  v_taken bytea[] := '{}';
  v_looked integer := 0;
BEGIN
  FOR w IN SELECT turn, channel, alive_until, path, waits_for FROM tidegate.waiters
    WHERE tab::bigint = p_tab AND root = p_root ORDER BY came, number
  LOOP
    IF w.alive_until <= p_now THEN
      DELETE FROM tidegate.waiters WHERE tab = p_tab AND root = p_root AND turn = w.turn;
      CONTINUE;
    END IF;
    IF NOT w.path && v_taken THEN PERFORM pg_notify(w.channel, w.turn::text); END IF;
    v_taken := v_taken || w.waits_for;
    v_looked := v_looked + 1;
    EXIT WHEN v_looked >= 64 OR p_root = ANY (v_taken);
  END LOOP;
  IF v_looked = 0 THEN
    UPDATE tidegate.rows SET line_until = -9223372036854775808
    WHERE tab = p_tab AND key = p_root;
  END IF;
END $$;

-- Gives a place up: whoever it kept back may go.
CREATE FUNCTION tidegate.leave(p_tab integer, p_root bytea, p_turn numeric, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM tidegate.waiters WHERE tab = p_tab AND root = p_root AND turn = p_turn;
  PERFORM tidegate.wake(p_tab, p_root, p_now);
END $$;

-- As that, of who waits no longer: p_now is his clock, which decides only if
-- p_caller says so.
CREATE FUNCTION tidegate.give_place_up(
  p_tab integer, p_root bytea, p_turn numeric, p_now bigint, p_caller boolean)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_root bytea := tidegate.short(p_root);
  v_latest bigint;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  SELECT latest INTO v_latest FROM tidegate.rows WHERE tab = p_tab AND key = v_root FOR UPDATE;
  PERFORM tidegate.leave(p_tab, v_root, p_turn,
    CASE WHEN p_caller THEN p_now ELSE tidegate.instant(v_latest) END);
END $$;

-- After the limits of a set have changed: the first of each of its lines is notified.
CREATE FUNCTION tidegate.wake_first(p_tab integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify(f.channel, f.turn::text) FROM (
    SELECT DISTINCT ON (root) channel, turn FROM tidegate.waiters
    WHERE tab::bigint = p_tab ORDER BY root, came, number LIMIT 1000) AS f;
END $$;

-- Forgets those who were not heard of, under roots that nobody asks. It waits for
-- nobody. Answers how many.
CREATE FUNCTION tidegate.prune_waiters(p_most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_deleted integer;
BEGIN
  DELETE FROM tidegate.waiters WHERE (tab, root, turn) IN (
    SELECT tab, root, turn FROM tidegate.waiters WHERE alive_until < tidegate.clock() - 10000000
    LIMIT p_most FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_deleted = ROW_COUNT;
  RETURN v_deleted;
END $$;

-- A take, as a lease or not, where somebody stands in line or the request may wait
-- (p_turn is not null then). p_kept_at are the rows at which others are first.
CREATE FUNCTION tidegate.in_turn(
  a tidegate.command, e tidegate.revisions, p_states tidegate.state[], p_verb integer,
  p_turn numeric, p_kept_at bytea[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
DECLARE
  v_out tidegate.outcome;
  v_step tidegate.step;
  v_mine tidegate.leases;
BEGIN
  IF p_turn IS NOT NULL THEN
    -- An answer was lost on its way.
    SELECT * INTO v_mine FROM tidegate.leases
    WHERE tab = a.tab AND root = a.root AND id = a.id AND stage = 0;
    IF FOUND THEN
      v_out.states := p_states;
      v_out.reply := ARRAY[0, a.now, 0, 0, 0, 0, 0, NULL,
        v_mine.id, v_mine.expires_at, v_mine.fence, 0, 0, v_mine.granted_at];
      RETURN v_out;
    END IF;
  END IF;
  -- It has its lease already.
  IF p_verb = 1 AND (tidegate.known(a)).id IS NOT NULL THEN
    RETURN tidegate.lease(a, e, p_states);
  END IF;
  IF p_kept_at IS NULL AND p_verb = 1 THEN RETURN tidegate.lease(a, e, p_states); END IF;
  IF p_kept_at IS NULL THEN RETURN tidegate.take(a, e, p_states); END IF;
  v_step := tidegate.compose(e.rules, p_states, a.amounts, a.now, a.calendars);
  IF v_step.verdict = tidegate.admit() THEN
    v_step.verdict := tidegate.later(a.now, 1);
    v_step.binding := 0;
  END IF;
  v_out.states := v_step.states;
  v_out.reply := tidegate.decision(e.rules, v_step, a.detail, a.now,
    CASE WHEN p_verb = 1 AND e.refunds THEN nullif(a.due, 9223372036854775807) END, NULL);
  RETURN v_out;
END $$;

-- What a reply to a request that may wait comes to. Refused, it stands in line for the
-- rows that refused it and those at which others are first; kind 7 says that
-- others are. Answered in any other way, it has no place any more.
CREATE FUNCTION tidegate.stand_or_leave(
  a tidegate.command, p_reply numeric[], p_turn numeric, p_channel text, p_ahead bigint,
  p_alive bigint, p_path bytea[], p_kept_at bytea[], p_until bigint)
RETURNS numeric[] LANGUAGE plpgsql AS $$
DECLARE
  v_waits_for bytea[] := coalesce(p_kept_at, '{}');
BEGIN
  IF p_reply[1] <> 0 THEN RETURN p_reply; END IF;
  IF p_reply[3] = 1 THEN
    FOR i IN 1 .. cardinality(p_path) LOOP
      IF (p_reply[6]::integer >> (i - 1)) & 1 = 1 AND p_path[i] <> ALL (v_waits_for) THEN
        v_waits_for := v_waits_for || p_path[i];
      END IF;
    END LOOP;
    PERFORM tidegate.stay(a.tab, a.root, p_turn, p_channel, p_ahead, p_alive, a.now, p_path,
      v_waits_for, p_until);
    IF p_kept_at IS NOT NULL THEN p_reply[1] := 7; END IF;
  ELSIF p_until > a.now THEN
    IF p_reply[3] = 0 THEN PERFORM tidegate.leave_served(a, p_turn);
    ELSE PERFORM tidegate.leave(a.tab, a.root, p_turn, a.now);
    END IF;
  END IF;
  RETURN p_reply;
END $$;
