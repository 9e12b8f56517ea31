-- Rows: read and written by whoever holds the lock on their root's row.

-- From when on a row equals one never seen.
CREATE FUNCTION tidegate.forget_at(p_row tidegate.rows) RETURNS numeric
LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(p_row.forget_at, tidegate.div_up(p_row.tat, p_row.drain)) $$;

-- The states of a row whose plan has so many limits at its level.
CREATE FUNCTION tidegate.states_of(p_row tidegate.rows, p_width integer)
RETURNS tidegate.state[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_row.tat IS NOT NULL THEN
    RETURN ARRAY[ROW(ARRAY[
      greatest(p_row.tat - p_row.latest * p_row.drain, 0), p_row.latest]::numeric[])::tidegate.state];
  END IF;
  IF p_row.states IS NOT NULL THEN RETURN p_row.states; END IF;
  RETURN array_fill(ROW(NULL)::tidegate.state, ARRAY[p_width]);
END $$;

-- From when on all states of a row equal "never seen"; null if they are.
CREATE FUNCTION tidegate.row_forget_at(p_rules tidegate.rule[], p_states tidegate.state[])
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_at numeric;
BEGIN
  FOR i IN 1 .. cardinality(p_states) LOOP
    IF (p_states[i]).n IS NOT NULL THEN
      v_at := greatest(v_at, tidegate.forget_at(p_rules[i], (p_states[i]).n));
    END IF;
  END LOOP;
  RETURN v_at;
END $$;

-- Writes a row: its states, by the rules of its level, which are its own or not. A row
-- that retains something is none that is plain, and is kept for as long as that matters.
CREATE FUNCTION tidegate.save_row(
  p_tab integer, p_key bytea, p_revision bigint, p_latest numeric, p_rules tidegate.rule[],
  p_is_own boolean, p_states tidegate.state[], p_due bigint, p_followed bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_short bytea := tidegate.short(p_key);
  v_forget_at numeric := tidegate.row_forget_at(p_rules, p_states);
  c numeric[] := (p_states[1]).n;
  v_own tidegate.rule[] := CASE WHEN p_is_own THEN p_rules END;
  v_tat bigint;
  v_drain bigint;
BEGIN
  IF v_forget_at IS NULL THEN
    p_states := NULL;
    v_forget_at := tidegate.beginning();
  ELSIF NOT p_is_own AND cardinality(p_states) = 1
    AND tidegate.is_plain(p_rules[1], c, p_latest)
    AND NOT EXISTS (SELECT FROM tidegate.rows WHERE tab = p_tab AND key = v_short
      AND (line_until > p_latest OR retained IS NOT NULL)) THEN
    v_drain := (p_rules[1]).drain;
    v_tat := p_latest * v_drain + c[1];
    p_states := NULL;
    v_forget_at := NULL;
  END IF;
  UPDATE tidegate.rows SET revision = p_revision, latest = p_latest, due = p_due,
    forget_at = CASE WHEN retained IS NULL THEN v_forget_at
      ELSE greatest(v_forget_at, tidegate.retained_forget_at(retained)) END,
    followed = p_followed, tat = v_tat, drain = v_drain, states = p_states, own = v_own
  WHERE tab = p_tab AND key = v_short;
  IF FOUND THEN RETURN; END IF;
  INSERT INTO tidegate.rows
    (tab, revision, latest, forget_at, due, followed, tat, drain, key, long_key, states, own)
  VALUES (p_tab, p_revision, p_latest, v_forget_at, p_due, p_followed, v_tat, v_drain, v_short,
    CASE WHEN length(p_key) > 255 THEN p_key END, p_states, v_own);
END $$;

-- Locks the row of a root, made if it is not there.
CREATE FUNCTION tidegate.lock_root(p_tab integer, p_root bytea, p_revision bigint)
RETURNS tidegate.rows LANGUAGE plpgsql AS $$
DECLARE
  v_short bytea := tidegate.short(p_root);
  v_row tidegate.rows;
BEGIN
  LOOP
    SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab AND key = v_short FOR UPDATE;
    IF FOUND THEN RETURN v_row; END IF;
    INSERT INTO tidegate.rows (tab, revision, latest, forget_at, due, followed, key, long_key)
    VALUES (p_tab, p_revision, -9223372036854775808, -9223372036854775808,
      9223372036854775807, p_revision, v_short, CASE WHEN length(p_root) > 255 THEN p_root END)
    ON CONFLICT DO NOTHING
    RETURNING * INTO v_row;
    IF FOUND THEN RETURN v_row; END IF;
  END LOOP;
END $$;

-- The instant of a decision: the caller's, or the machine's, which for one row
-- only goes forward. A clock up to ten seconds behind what was written (another
-- machine's, before a failover) stands still; beyond, it has stepped back, and
-- each limit takes note of it by itself.
CREATE FUNCTION tidegate.instant(p_latest bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := tidegate.clock();
BEGIN
  RETURN CASE WHEN p_latest BETWEEN v_now AND v_now + 10000000 THEN p_latest ELSE v_now END;
END $$;

-- Whether a bucket by this rule, with this state, can be a plain row written at an
-- instant: the numbers of `tidegate.take_plain` stay within 63 bits until 2112.
CREATE FUNCTION tidegate.is_plain(r tidegate.rule, c numeric[], p_latest numeric)
RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT r.kind = 1 AND cardinality(c) = 2 AND c[2] = p_latest
     AND c[1] < 4611686018427387904 AND r.drain <= 1024
     AND p_latest BETWEEN 0 AND 4503599627370496 $$;

-- Makes a plain row one like all others. It is, where somebody stands in line: what
-- reads plain rows need not look.
CREATE FUNCTION tidegate.make_general(p_tab integer, p_root bytea) RETURNS void
LANGUAGE sql AS $$
  UPDATE tidegate.rows r SET tat = NULL, drain = NULL, forget_at = tidegate.forget_at(r),
    states = tidegate.states_of(r, 1)
  WHERE tab = p_tab AND key = p_root AND tat IS NOT NULL
$$;

-- The latest instant that a state which a rule wrote tells of.
CREATE FUNCTION tidegate.latest(r tidegate.rule, c numeric[]) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN CASE r.kind
    WHEN 1 THEN c[2]
    WHEN 2 THEN c[1]
    WHEN 3 THEN least(c[cardinality(c) - 1] * r.step, tidegate.never())
    WHEN 4 THEN CASE WHEN cardinality(c) > 1 THEN c[cardinality(c) - 1] END
    END;
END $$;
