-- Every question about leases and about those who wait is answered by one index, and
-- no other looks fit: by the planner's guess a root has one lease, and to walk through
-- all of them in the order of what is due, for one of which the name is known, is
-- then as good as to look it up. So an index in such an order says its table's number
-- in another type, and only who asks by that order says it so.
DROP INDEX tidegate.leases_due, tidegate.waiters_order;
CREATE INDEX leases_due ON tidegate.leases ((tab::bigint), root, due, number);
CREATE INDEX waiters_order ON tidegate.waiters ((tab::bigint), root, came, number);

-- As before, but by those indexes, in all that follows.
CREATE OR REPLACE FUNCTION tidegate.next_due(p_tab integer, p_root bytea) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_due bigint;
BEGIN
  SELECT due INTO v_due FROM tidegate.leases
  WHERE tab::bigint = p_tab AND root = p_root ORDER BY due LIMIT 1;
  RETURN coalesce(v_due, 9223372036854775807);
END $$;

CREATE OR REPLACE FUNCTION tidegate.retire(
  p_tab integer, p_root bytea, e tidegate.editions, p_now bigint, p_caller boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_lease tidegate.leases;
BEGIN
  FOR i IN 1 .. 500 LOOP
    SELECT * INTO v_lease FROM tidegate.leases
    WHERE tab::bigint = p_tab AND root = p_root AND due <= p_now ORDER BY due, number LIMIT 1;
    IF NOT FOUND THEN RETURN true; END IF;
    IF v_lease.stage <> 0 THEN
      DELETE FROM tidegate.leases WHERE tab = p_tab AND root = p_root AND id = v_lease.id;
    ELSE
      IF e.refunds THEN
        PERFORM tidegate.give_back(v_lease, e, p_now, p_caller);
      END IF;
      UPDATE tidegate.leases SET stage = 1, number = DEFAULT,
        due = tidegate.later(v_lease.expires_at, e.keep)
      WHERE tab = p_tab AND root = p_root AND id = v_lease.id;
    END IF;
  END LOOP;
  RETURN false;
END $$;

CREATE OR REPLACE FUNCTION tidegate.kept_at(
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

CREATE OR REPLACE FUNCTION tidegate.wake(p_tab integer, p_root bytea, p_now bigint)
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

-- After the limits of a set have changed: the first of each of its lines is notified.
CREATE OR REPLACE FUNCTION tidegate.wake_first(p_tab integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify(f.channel, f.turn::text) FROM (
    SELECT DISTINCT ON (root) channel, turn FROM tidegate.waiters
    WHERE tab::bigint = p_tab ORDER BY root, came, number LIMIT 1000) AS f;
END $$;

-- As before, but for an answer that is given again, for which nothing was taken now.
CREATE OR REPLACE FUNCTION tidegate.full_until(a tidegate.command) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  e tidegate.editions;
  v_row tidegate.rows;
  c numeric[];
  v_free numeric;
BEGIN
  SELECT * INTO v_row FROM tidegate.rows WHERE tab = a.tab AND key = a.root AND own IS NULL;
  IF NOT FOUND THEN RETURN NULL; END IF;
  e := tidegate.edition(a.tab, v_row.edition);
  IF e.levels <> 1 OR cardinality(e.rules) <> 1 OR (e.rules[1]).kind <> 5 THEN RETURN NULL; END IF;
  c := (v_row.cells[1]).n;
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

CREATE OR REPLACE FUNCTION tidegate.leave_served(a tidegate.command, p_turn numeric)
RETURNS void LANGUAGE sql AS
$$ SELECT tidegate.leave_until(a.tab, a.root, p_turn, a.now, tidegate.full_until(a)) $$;
