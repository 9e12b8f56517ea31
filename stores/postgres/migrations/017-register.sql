-- Adds an edition to a set's plans, and answers its number. p_numbers are the
-- rules. The first plan of a process is no change if the newest is the same already.

CREATE FUNCTION tidegate.register(
  p_tab integer, p_is_first boolean, p_version numeric, p_at bigint, p_caller boolean,
  p_levels integer, p_keep numeric, p_numbers numeric[], p_names text[], p_calendars bigint[])
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_rules tidegate.rule[] := tidegate.rules_of(p_numbers);
  v_newest bigint;
  v_refunds boolean := false;
  e tidegate.editions;
BEGIN
  FOR i IN 1 .. cardinality(v_rules) LOOP
    v_refunds := v_refunds OR (v_rules[i]).refund;
  END LOOP;
  SELECT newest INTO v_newest FROM tidegate.sets WHERE tab = p_tab FOR UPDATE;
  -- It says so.
  IF NOT FOUND THEN PERFORM tidegate.edition(p_tab, 0); END IF;
  IF p_is_first THEN
    SELECT * INTO e FROM tidegate.editions WHERE tab = p_tab AND edition = v_newest;
    IF FOUND AND e.rules = v_rules AND e.names = p_names AND e.keep = p_keep
      AND e.levels = p_levels THEN
      RETURN v_newest;
    END IF;
  END IF;
  v_newest := v_newest + 1;
  INSERT INTO tidegate.editions
    (tab, edition, version, at, levels, keep, refunds, rules, ends, names, calendars)
  VALUES (p_tab, v_newest, p_version, CASE WHEN p_caller THEN p_at ELSE tidegate.clock() END,
    p_levels, p_keep, v_refunds, v_rules,
    ARRAY(SELECT tidegate.limits_before(v_rules, l + 1) FROM generate_series(1, p_levels) AS l),
    p_names, p_calendars);
  DELETE FROM tidegate.editions WHERE tab = p_tab AND edition <= v_newest - 4096;
  UPDATE tidegate.sets SET newest = v_newest WHERE tab = p_tab;
  RETURN v_newest;
END $$;
