-- Changes of limits, followed row by row (`adopt_row` of
-- `contract/src/oracle.rs`). A row says by which edition of the plan it was
-- written; it is carried over each since, as of when that was adopted.

CREATE FUNCTION tidegate.edition(p_tab integer, p_edition bigint)
RETURNS tidegate.editions LANGUAGE plpgsql STABLE AS $$
DECLARE
  e tidegate.editions;
BEGIN
  SELECT * INTO e FROM tidegate.editions WHERE tab = p_tab AND edition = p_edition;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'nothing is known any more of edition % of the limits', p_edition
      USING HINT = 'delete the rows of this set, or give it another name', ERRCODE = 'TG001';
  END IF;
  RETURN e;
END $$;

-- The rules of one level, in the plan's order.
CREATE FUNCTION tidegate.rules_at(p_rules tidegate.rule[], p_level integer)
RETURNS tidegate.rule[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_rules tidegate.rule[] := '{}';
BEGIN
  FOR i IN 1 .. cardinality(p_rules) LOOP
    IF (p_rules[i]).level = p_level THEN v_rules := v_rules || p_rules[i]; END IF;
  END LOOP;
  RETURN v_rules;
END $$;

-- Where the limit of a uid stands; null if it is gone.
CREATE FUNCTION tidegate.position_of(p_rules tidegate.rule[], p_uid numeric)
RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  FOR i IN 1 .. cardinality(p_rules) LOOP
    IF (p_rules[i]).uid = p_uid THEN RETURN i; END IF;
  END LOOP;
  RETURN NULL;
END $$;

-- When a change is followed: as recorded by the caller's clock. The machine's
-- may have gone on by the older limits since then.
CREATE FUNCTION tidegate.moment_of(p_at bigint, p_latest bigint, p_now bigint, p_caller boolean)
RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN p_caller THEN p_at ELSE least(greatest(p_at, p_latest), p_now) END $$;

-- The cells of one level, carried over from one edition to another.
CREATE FUNCTION tidegate.adopt_cells(
  p_new tidegate.editions, p_old tidegate.editions, p_level integer, p_cells tidegate.cell[],
  p_now numeric, p_calendars numeric[])
RETURNS tidegate.cell[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_old tidegate.rule[] := tidegate.rules_at(p_old.rules, p_level);
  v_cells tidegate.cell[] := '{}';
  v_before integer;
  r tidegate.rule;
BEGIN
  FOR i IN 1 .. cardinality(p_new.rules) LOOP
    r := p_new.rules[i];
    CONTINUE WHEN r.level <> p_level;
    v_before := tidegate.position_of(v_old, r.uid);
    IF v_before IS NULL THEN
      v_cells := v_cells || ROW(NULL)::tidegate.cell;
    ELSE
      v_cells := v_cells || ROW(tidegate.adopt(r, (p_cells[v_before]).n, v_old[v_before], p_now,
        p_calendars[3 * i - 2 : 3 * i]))::tidegate.cell;
    END IF;
  END LOOP;
  RETURN v_cells;
END $$;

-- Brings the row of a key up to an edition: step by step from an older one (of
-- which the last 64 are followed one by one), at once from a newer one. Another
-- process may have other limits: then the row is carried to and fro.
CREATE FUNCTION tidegate.carry_row(
  p_tab integer, p_key bytea, p_level integer, p_edition bigint, p_now bigint,
  p_caller boolean, p_calendars numeric[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
  v_old tidegate.editions;
  v_new tidegate.editions;
  v_cells tidegate.cell[];
BEGIN
  SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab AND key = tidegate.short(p_key);
  IF NOT FOUND OR v_row.edition = p_edition THEN RETURN; END IF;
  v_old := tidegate.edition(p_tab, v_row.edition);
  v_cells := tidegate.cells_of(v_row, cardinality(tidegate.rules_at(v_old.rules, p_level)));
  IF v_row.edition > p_edition THEN
    v_new := tidegate.edition(p_tab, p_edition);
    v_cells := tidegate.adopt_cells(v_new, v_old, p_level, v_cells, p_now, p_calendars);
  ELSE
    FOR v_new IN SELECT * FROM tidegate.editions
      WHERE tab = p_tab AND edition > greatest(v_row.edition, p_edition - 65)
        AND edition <= p_edition
      ORDER BY edition
    LOOP
      v_cells := tidegate.adopt_cells(v_new, v_old, p_level, v_cells,
        tidegate.moment_of(v_new.at, v_row.latest, p_now, p_caller), v_new.calendars::numeric[]);
      v_old := v_new;
    END LOOP;
  END IF;
  PERFORM tidegate.save_row(p_tab, p_key, p_edition, v_row.latest,
    tidegate.rules_at(v_new.rules, p_level), v_cells, v_row.due, v_row.followed);
END $$;
