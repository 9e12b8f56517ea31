-- Rows: read and written by whoever holds the lock on their root's row.

-- The cells of a row whose plan has so many limits at its level.
CREATE FUNCTION tidegate.cells_of(p_row tidegate.rows, p_width integer)
RETURNS tidegate.cell[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_row.level IS NOT NULL THEN
    RETURN ARRAY[ROW(ARRAY[p_row.level, p_row.at]::numeric[])::tidegate.cell];
  END IF;
  IF p_row.cells IS NOT NULL THEN RETURN p_row.cells; END IF;
  RETURN array_fill(ROW(NULL)::tidegate.cell, ARRAY[p_width]);
END $$;

-- From when on all cells of a row equal "never seen"; null if they are.
CREATE FUNCTION tidegate.row_forget_at(p_rules tidegate.rule[], p_cells tidegate.cell[])
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_at numeric;
BEGIN
  FOR i IN 1 .. cardinality(p_cells) LOOP
    IF (p_cells[i]).n IS NOT NULL THEN
      v_at := greatest(v_at, tidegate.forget_at(p_rules[i], (p_cells[i]).n));
    END IF;
  END LOOP;
  RETURN v_at;
END $$;

-- Writes a row: its cells, by the rules of its level, which are its own or not.
CREATE FUNCTION tidegate.save_row(
  p_tab integer, p_key bytea, p_edition bigint, p_latest numeric, p_rules tidegate.rule[],
  p_is_own boolean, p_cells tidegate.cell[], p_due bigint, p_followed bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_short bytea := tidegate.short(p_key);
  v_forget_at numeric := tidegate.row_forget_at(p_rules, p_cells);
  c numeric[] := (p_cells[1]).n;
  v_own tidegate.rule[] := CASE WHEN p_is_own THEN p_rules END;
  v_level bigint;
  v_at bigint;
BEGIN
  IF v_forget_at IS NULL THEN
    p_cells := NULL;
    v_forget_at := tidegate.beginning();
  ELSIF cardinality(p_cells) = 1 AND (p_rules[1]).kind = 1 AND cardinality(c) = 2
    AND c[1] < 4611686018427387904 THEN
    v_level := c[1];
    v_at := c[2];
    p_cells := NULL;
  END IF;
  UPDATE tidegate.rows SET edition = p_edition, latest = p_latest, forget_at = v_forget_at,
    due = p_due, followed = p_followed, level = v_level, at = v_at, cells = p_cells,
    own = v_own
  WHERE tab = p_tab AND key = v_short;
  IF FOUND THEN RETURN; END IF;
  INSERT INTO tidegate.rows
    (tab, edition, latest, forget_at, due, followed, level, at, key, long_key, cells, own)
  VALUES (p_tab, p_edition, p_latest, v_forget_at, p_due, p_followed, v_level, v_at, v_short,
    CASE WHEN length(p_key) > 255 THEN p_key END, p_cells, v_own);
END $$;

-- Locks the row of a root, made if it is not there.
CREATE FUNCTION tidegate.lock_root(p_tab integer, p_root bytea, p_edition bigint)
RETURNS tidegate.rows LANGUAGE plpgsql AS $$
DECLARE
  v_short bytea := tidegate.short(p_root);
  v_row tidegate.rows;
BEGIN
  LOOP
    SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab AND key = v_short FOR UPDATE;
    IF FOUND THEN RETURN v_row; END IF;
    INSERT INTO tidegate.rows (tab, edition, latest, forget_at, due, followed, key, long_key)
    VALUES (p_tab, p_edition, -9223372036854775808, -9223372036854775808,
      9223372036854775807, p_edition, v_short, CASE WHEN length(p_root) > 255 THEN p_root END)
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
