-- Changes of limits, followed row by row (`adopt_row` of
-- `store/src/decide.rs`). A row says by which revision of the plan it was
-- written; it is carried over each since, as of when that was adopted.

CREATE FUNCTION tidegate.revision(p_tab integer, p_revision bigint)
RETURNS tidegate.revisions LANGUAGE plpgsql STABLE AS $$
DECLARE
  e tidegate.revisions;
BEGIN
  SELECT * INTO e FROM tidegate.revisions WHERE tab = p_tab AND revision = p_revision;
  IF NOT FOUND AND NOT EXISTS (SELECT FROM tidegate.sets WHERE tab = p_tab) THEN
    RAISE EXCEPTION 'the schema `tidegate` was made anew since this set was opened'
      USING HINT = 'open the store again: restart the server', ERRCODE = 'TG002';
  END IF;
  IF e.tab IS NULL THEN
    RAISE EXCEPTION 'nothing is known any more of revision % of the limits', p_revision
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

-- The uids of rules, in their order.
CREATE FUNCTION tidegate.uids(p_rules tidegate.rule[])
RETURNS numeric[] LANGUAGE sql IMMUTABLE AS
$$ SELECT ARRAY(SELECT r.uid FROM unnest(p_rules) WITH ORDINALITY AS r ORDER BY r.ordinality) $$;

-- When a change is followed: the clock may have gone on by the older limits since then, or
-- stand before it again.
CREATE FUNCTION tidegate.followed_at(p_at bigint, p_latest bigint, p_now bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT least(greatest(p_at, p_latest), p_now) $$;

-- The rules that numbers say, sixteen each, as `tidegate.rule` has them.
CREATE FUNCTION tidegate.rules_of(p_numbers numeric[])
RETURNS tidegate.rule[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n numeric[] := p_numbers;
  v_rules tidegate.rule[] := '{}';
BEGIN
  FOR i IN 1 .. cardinality(n) BY 16 LOOP
    v_rules := v_rules || ROW(
      n[i], n[i + 1], n[i + 2], n[i + 3] = 1, n[i + 4] = 1, n[i + 5] = 1, n[i + 6], n[i + 7],
      n[i + 8], n[i + 9], n[i + 10], n[i + 11], n[i + 12], n[i + 13], n[i + 14], n[i + 15]
    )::tidegate.rule;
  END LOOP;
  RETURN v_rules;
END $$;

-- The states of one level, carried over from some rules to others, whose calendars
-- stand behind those of so many limits of outer levels.
CREATE FUNCTION tidegate.adopt_states(
  p_new tidegate.rule[], p_old tidegate.rule[], p_states tidegate.state[], p_now numeric,
  p_calendars numeric[], p_before integer)
RETURNS tidegate.state[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_states tidegate.state[] := '{}';
  v_written integer;
  v_at integer;
BEGIN
  FOR i IN 1 .. cardinality(p_new) LOOP
    v_written := tidegate.position_of(p_old, (p_new[i]).uid);
    v_at := 3 * (p_before + i);
    IF v_written IS NULL THEN
      v_states := v_states || ROW(NULL)::tidegate.state;
    ELSE
      v_states := v_states || ROW(tidegate.adopt(p_new[i], (p_states[v_written]).n,
        p_old[v_written], p_now, p_calendars[v_at - 2 : v_at]))::tidegate.state;
    END IF;
  END LOOP;
  RETURN v_states;
END $$;

-- How many of the limits are of outer levels.
CREATE FUNCTION tidegate.limits_before(p_rules tidegate.rule[], p_level integer)
RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_count integer := 0;
BEGIN
  FOR i IN 1 .. cardinality(p_rules) LOOP
    IF (p_rules[i]).level < p_level THEN v_count := v_count + 1; END IF;
  END LOOP;
  RETURN v_count;
END $$;

-- Brings the row of a key up to a revision, and to the rules that its key has of
-- its own (null if none): step by step from an older one (of which the last 64
-- are followed one by one), at once from a newer one. Another process may have
-- other limits: then the row is carried to and fro. A row with rules of its own
-- goes by them where a step has the same limits; where it has others, by those that all
-- keys have. A change forgets what it removes, unless the row was written since: then
-- another process goes on by the limits before it.
CREATE FUNCTION tidegate.carry_row(
  p_tab integer, p_key bytea, p_level integer, p_revision bigint, p_own tidegate.rule[],
  p_now bigint, p_caller boolean, p_calendars numeric[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
  v_new tidegate.revisions;
  v_old tidegate.rule[];
  v_rules tidegate.rule[];
  v_carried tidegate.carried;
BEGIN
  SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab AND key = tidegate.short(p_key);
  IF NOT FOUND OR (v_row.revision = p_revision AND v_row.own IS NOT DISTINCT FROM p_own) THEN
    RETURN;
  END IF;
  v_old := coalesce(v_row.own,
    tidegate.rules_at((tidegate.revision(p_tab, v_row.revision)).rules, p_level));
  -- What it has counted belongs to the names that its limits had.
  IF v_row.used_hour IS NOT NULL THEN PERFORM tidegate.move_row_usage(p_tab, v_row.key, p_now); END IF;
  v_carried.states := tidegate.states_of(v_row, cardinality(v_old));
  v_carried.retained := v_row.retained;
  IF v_row.revision >= p_revision THEN
    v_new := tidegate.revision(p_tab, p_revision);
    v_rules := coalesce(p_own, tidegate.rules_at(v_new.rules, p_level));
    v_carried := tidegate.carry(v_rules, v_old, v_carried, p_now, p_calendars,
      tidegate.limits_before(v_new.rules, p_level));
    -- All that it retains was there when it was written.
    IF v_carried.retained IS NOT NULL THEN v_row.latest := greatest(v_row.latest, p_now); END IF;
  ELSE
    FOR v_new IN SELECT * FROM tidegate.revisions
      WHERE tab = p_tab AND revision > greatest(v_row.revision, p_revision - 65)
        AND revision <= p_revision
      ORDER BY revision
    LOOP
      v_rules := tidegate.rules_at(v_new.rules, p_level);
      IF v_new.revision = p_revision THEN v_rules := coalesce(p_own, v_rules);
      ELSIF v_row.own IS NOT NULL AND tidegate.uids(v_old) = tidegate.uids(v_rules) THEN
        CONTINUE;
      END IF;
      v_row.own := NULL;
      v_carried := tidegate.carry(v_rules, v_old, v_carried,
        tidegate.followed_at(v_new.at, v_row.latest, p_now), v_new.calendars::numeric[],
        tidegate.limits_before(v_new.rules, p_level));
      IF v_new.at BETWEEN v_row.latest AND p_now THEN v_carried.retained := NULL; END IF;
      v_old := v_rules;
    END LOOP;
  END IF;
  IF v_carried.retained IS DISTINCT FROM v_row.retained THEN
    UPDATE tidegate.rows SET retained = v_carried.retained
    WHERE tab = p_tab AND key = tidegate.short(p_key);
  END IF;
  PERFORM tidegate.save_row(p_tab, p_key, p_revision, v_row.latest, v_rules, p_own IS NOT NULL,
    v_carried.states, v_row.due, v_row.followed);
END $$;

-- States of limits that the plan at hand does not know (`store/src/retained.rs`): a row
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
  v_out.states := tidegate.adopt_states(p_new, p_old, p_row.states, p_now, p_calendars, p_before);
  FOR i IN 1 .. coalesce(cardinality(p_row.retained), 0) LOOP
    v_known := p_row.retained[i];
    CONTINUE WHEN tidegate.position_of(p_old, (v_known.rule).uid) IS NOT NULL;
    v_position := tidegate.position_of(p_new, (v_known.rule).uid);
    IF v_position IS NULL THEN
      v_all := v_all || v_known;
    ELSE
      v_at := 3 * (p_before + v_position);
      v_out.states[v_position] := ROW(tidegate.adopt(p_new[v_position], v_known.n, v_known.rule,
        p_now, p_calendars[v_at - 2 : v_at]))::tidegate.state;
    END IF;
  END LOOP;
  FOR i IN 1 .. cardinality(p_old) LOOP
    IF (p_row.states[i]).n IS NOT NULL
      AND tidegate.position_of(p_new, (p_old[i]).uid) IS NULL THEN
      v_all := v_all || ROW(p_old[i], (p_row.states[i]).n)::tidegate.retained;
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
    v_short := tidegate.short(tidegate.row_name(p_key, p_ends, v_level));
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

-- Adds a revision to a set's plans, and answers its number. p_numbers are the
-- rules. The first plan of a process is no change if the newest is the same already.

CREATE FUNCTION tidegate.register(
  p_tab integer, p_is_first boolean, p_version numeric, p_at bigint, p_caller boolean,
  p_levels integer, p_keep numeric, p_numbers numeric[], p_names text[], p_calendars bigint[],
  p_usage numeric DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_rules tidegate.rule[] := tidegate.rules_of(p_numbers);
  v_newest bigint;
  v_refunds boolean := false;
  e tidegate.revisions;
BEGIN
  FOR i IN 1 .. cardinality(v_rules) LOOP
    v_refunds := v_refunds OR (v_rules[i]).refund;
  END LOOP;
  SELECT newest INTO v_newest FROM tidegate.sets WHERE tab = p_tab FOR UPDATE;
  -- It says so.
  IF NOT FOUND THEN PERFORM tidegate.revision(p_tab, 0); END IF;
  IF p_is_first THEN
    SELECT * INTO e FROM tidegate.revisions WHERE tab = p_tab AND revision = v_newest;
    IF FOUND AND e.rules = v_rules AND e.names = p_names AND e.keep = p_keep
      AND e.levels = p_levels AND e.usage IS NOT DISTINCT FROM p_usage THEN
      RETURN v_newest;
    END IF;
  END IF;
  v_newest := v_newest + 1;
  INSERT INTO tidegate.revisions
    (tab, revision, version, at, levels, keep, refunds, rules, ends, names, calendars,
      usage)
  VALUES (p_tab, v_newest, p_version, CASE WHEN p_caller THEN p_at ELSE tidegate.clock() END,
    p_levels, p_keep, v_refunds, v_rules,
    ARRAY(SELECT tidegate.limits_before(v_rules, l + 1) FROM generate_series(1, p_levels) AS l),
    p_names, p_calendars, p_usage);
  DELETE FROM tidegate.revisions WHERE tab = p_tab AND revision <= v_newest - 4096;
  UPDATE tidegate.sets SET newest = v_newest WHERE tab = p_tab;
  RETURN v_newest;
END $$;
