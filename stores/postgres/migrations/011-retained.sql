-- States of limits that the plan at hand does not know (`contract/src/retained.rs`): a row
-- that goes to and fro between servers of different plans retains them, so that no server
-- makes a limit begin anew that it does not know.

-- From when on all of it equals "never seen"; null if there is none.
CREATE FUNCTION tidegate.retained_forget_at(p_retained tidegate.retained[])
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_at numeric;
BEGIN
  FOR i IN 1 .. coalesce(cardinality(p_retained), 0) LOOP
    v_at := greatest(v_at, tidegate.forget_at((p_retained[i]).rule, (p_retained[i]).n));
  END LOOP;
  RETURN v_at;
END $$;

-- The same carried over from some rules to others: what these do not know goes aside, and
-- what they know comes from there. What is spent goes; of more than 16 what is spent first.
CREATE FUNCTION tidegate.carry(
  p_new tidegate.rule[], p_old tidegate.rule[], p_row tidegate.carried, p_now numeric,
  p_calendars numeric[], p_before integer)
RETURNS tidegate.carried LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_out tidegate.carried;
  v_all tidegate.retained[] := '{}';
  v_known tidegate.retained;
  v_position integer;
  v_at integer;
BEGIN
  v_out.cells := tidegate.adopt_cells(p_new, p_old, p_row.cells, p_now, p_calendars, p_before);
  FOR i IN 1 .. coalesce(cardinality(p_row.retained), 0) LOOP
    v_known := p_row.retained[i];
    CONTINUE WHEN tidegate.position_of(p_old, (v_known.rule).uid) IS NOT NULL;
    v_position := tidegate.position_of(p_new, (v_known.rule).uid);
    IF v_position IS NULL THEN
      v_all := v_all || v_known;
    ELSE
      v_at := 3 * (p_before + v_position);
      v_out.cells[v_position] := ROW(tidegate.adopt(p_new[v_position], v_known.n, v_known.rule,
        p_now, p_calendars[v_at - 2 : v_at]))::tidegate.cell;
    END IF;
  END LOOP;
  FOR i IN 1 .. cardinality(p_old) LOOP
    IF (p_row.cells[i]).n IS NOT NULL
      AND tidegate.position_of(p_new, (p_old[i]).uid) IS NULL THEN
      v_all := v_all || ROW(p_old[i], (p_row.cells[i]).n)::tidegate.retained;
    END IF;
  END LOOP;
  IF cardinality(v_all) > 0 THEN
    SELECT array_agg(ROW(k.rule, k.n)::tidegate.retained ORDER BY k.place) INTO v_out.retained
    FROM (
      SELECT u.rule, u.n, u.place FROM unnest(v_all) WITH ORDINALITY AS u (rule, n, place)
      WHERE tidegate.forget_at(u.rule, u.n) > p_now
      ORDER BY tidegate.forget_at(u.rule, u.n) DESC LIMIT 16) AS k;
  END IF;
  RETURN v_out;
END $$;

-- Of what a key's rows retain, slots of a lease are held until another instant, or given
-- back if there is none.
CREATE FUNCTION tidegate.move_retained_slots(
  p_tab integer, p_key bytea, p_ends integer[], p_id numeric, p_expires_at bigint,
  p_until bigint, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_short bytea;
  v_retained tidegate.retained[];
  r tidegate.rule;
  c numeric[];
BEGIN
  FOR v_level IN 1 .. cardinality(p_ends) LOOP
    v_short := tidegate.short(substring(p_key FROM 1 FOR p_ends[v_level]));
    SELECT retained INTO v_retained FROM tidegate.rows WHERE tab = p_tab AND key = v_short;
    FOR i IN 1 .. coalesce(cardinality(v_retained), 0) LOOP
      r := (v_retained[i]).rule;
      CONTINUE WHEN r.kind <> 5;
      c := tidegate.observe(r, (v_retained[i]).n, p_now, '{}');
      IF p_until IS NULL THEN c := tidegate.slots_release(c, p_id, p_expires_at, p_now);
      ELSE c := tidegate.slots_renew(c, p_id, p_expires_at, p_until, p_now);
      END IF;
      v_retained[i] := ROW(r, c)::tidegate.retained;
    END LOOP;
    UPDATE tidegate.rows SET retained = v_retained,
      forget_at = greatest(forget_at, tidegate.retained_forget_at(v_retained))
    WHERE tab = p_tab AND key = v_short AND retained IS NOT NULL;
  END LOOP;
END $$;

-- Whether a lease took of a limit that is not among the rules.
CREATE FUNCTION tidegate.took_of_others(p_rules tidegate.rule[], p_shares numeric[])
RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  FOR s IN 1 .. cardinality(p_shares) - 3 BY 4 LOOP
    IF tidegate.position_of(p_rules, p_shares[s]) IS NULL THEN RETURN true; END IF;
  END LOOP;
  RETURN false;
END $$;
