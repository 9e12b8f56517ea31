-- Who is next is not made to ask when the last slot has just been taken: it is told
-- by when one is back at the latest. Between a release and the next grant, its ask
-- would stand in the way.

-- If the set is slots alone, none of which is left once this take is done: when the
-- first is back by itself. Null otherwise: somebody may have room.
CREATE FUNCTION tidegate.full_until(a tidegate.command) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  e tidegate.editions;
  v_row tidegate.rows;
  v_free numeric;
BEGIN
  SELECT * INTO v_row FROM tidegate.rows WHERE tab = a.tab AND key = a.root AND own IS NULL;
  IF NOT FOUND THEN RETURN NULL; END IF;
  e := tidegate.edition(a.tab, v_row.edition);
  IF e.levels <> 1 OR cardinality(e.rules) <> 1 OR (e.rules[1]).kind <> 5 THEN RETURN NULL; END IF;
  -- The row is as it was before this take.
  v_free := (tidegate.standing(e.rules[1], (v_row.cells[1]).n, a.now))[1] - a.amounts[1];
  IF v_free > 0 THEN RETURN NULL; END IF;
  RETURN nullif(tidegate.next_due(a.tab, a.root), 9223372036854775807);
END $$;

-- One who waited has what he waited for, and gives his place up.
CREATE FUNCTION tidegate.leave_served(a tidegate.command, p_turn numeric)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_until bigint := tidegate.full_until(a);
BEGIN
  IF v_until > a.now THEN
    DELETE FROM tidegate.waiters WHERE tab = a.tab AND root = a.root AND turn = p_turn;
    PERFORM pg_notify(w.channel, w.turn || ' ' || v_until - a.now) FROM (
      SELECT channel, turn FROM tidegate.waiters
      WHERE tab = a.tab AND root = a.root AND alive_until > a.now
      ORDER BY came, number LIMIT 1) AS w;
    IF FOUND THEN RETURN; END IF;
  END IF;
  PERFORM tidegate.leave(a.tab, a.root, p_turn, a.now);
END $$;

-- As before, but for who is served.
CREATE OR REPLACE FUNCTION tidegate.stand_or_leave(
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
