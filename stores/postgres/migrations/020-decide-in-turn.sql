-- `tidegate.decide` and `tidegate.decide_bucket` with an eye for those who wait
-- (019-line.sql): nobody takes before them, and what gives back wakes who is next.
DROP FUNCTION tidegate.decide;

-- One command on one key and its ancestors, wholly or not at all. A translation
-- of the crates `core` and `contract`: whoever changes a rule there changes it
-- here, and the differential test finds who did not.
--
-- p_now is the caller's clock, by which the other instants are meant; it decides
-- only if p_caller says so. p_ends says where each ancestor ends in the key.
-- p_rules are the numbers of all limits as they decide here, if a key of the path
-- has some of its own, and p_own says which levels have.
-- A lease ends with p_session, if that is not null; a lease that is refused looks
-- first whether one has ended.
-- Verbs: 0 take, 1 take as a lease, 2 debit, 3 peek, 4 end, 5 renew, 6 reset, 7
-- bring the rows up to the plan, and say whether the last matters.
-- p_turn is the place of an ask that may wait, and null for any other; p_channel is
-- where it listens, p_ahead how much earlier than it did it counts as having come,
-- p_alive for how long it is taken for alive. All are microseconds.
CREATE FUNCTION tidegate.decide(
  p_tab integer, p_edition bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_ends integer[], p_rules numeric[], p_own boolean[], p_calendars bigint[], p_verb integer, p_amounts bigint[],
  p_detail integer, p_id numeric, p_until bigint, p_ask bytea, p_ending integer,
  p_used bigint[], p_remember boolean, p_session bigint, p_turn numeric DEFAULT NULL,
  p_channel text DEFAULT NULL, p_ahead bigint DEFAULT 0, p_alive bigint DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  a tidegate.command;
  e tidegate.editions := tidegate.edition(p_tab, p_edition);
  v_root bytea := tidegate.short(substring(p_key FROM 1 FOR p_ends[1]));
  v_now bigint := p_now;
  v_due bigint;
  v_depth integer := cardinality(p_ends);
  v_rows tidegate.rows[];
  v_row tidegate.rows;
  v_latest bigint;
  v_foreign boolean := false;
  v_own tidegate.rule[];
  v_locked boolean := true;
  v_kept tidegate.cell[] := '{}';
  v_cells tidegate.cell[];
  v_from integer := 1;
  v_to integer;
  v_out tidegate.outcome;
  v_in_line boolean;
  v_path bytea[];
  v_kept_at bytea[];
BEGIN
  IF p_rules IS NOT NULL THEN e.rules := tidegate.rules_of(p_rules); END IF;
  IF p_verb IN (3, 7) THEN
    -- To look at a root that nobody has used makes no row.
    SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab AND key = v_root FOR UPDATE;
    v_locked := FOUND;
  ELSE
    v_row := tidegate.lock_root(p_tab, substring(p_key FROM 1 FOR p_ends[1]), p_edition);
  END IF;
  FOR v_level IN 1 .. v_depth LOOP
    IF v_level > 1 THEN
      SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab
        AND key = tidegate.short(substring(p_key FROM 1 FOR p_ends[v_level]));
    END IF;
    IF p_own[v_level] THEN v_own := tidegate.rules_at(e.rules, v_level); ELSE v_own := NULL; END IF;
    v_rows[v_level] := v_row;
    v_latest := greatest(v_latest, v_row.latest);
    v_foreign := v_foreign OR coalesce(v_row.edition <> p_edition, false)
      OR (v_row.tab IS NOT NULL AND v_row.own IS DISTINCT FROM v_own);
  END LOOP;
  IF v_foreign AND NOT v_locked THEN
    v_rows[1] := tidegate.lock_root(p_tab, substring(p_key FROM 1 FOR p_ends[1]), p_edition);
    v_locked := true;
  END IF;
  IF NOT p_caller THEN v_now := tidegate.instant(v_latest); END IF;

  IF v_locked AND (v_foreign OR (v_rows[1]).due <= v_now OR (v_rows[1]).followed < p_edition) THEN
    IF NOT tidegate.catch_up(p_tab, v_root, p_edition, v_now, p_caller) THEN
      RETURN ARRAY[4, v_now]::text;
    END IF;
    FOR v_level IN 1 .. v_depth LOOP
      v_own := CASE WHEN p_own[v_level] THEN tidegate.rules_at(e.rules, v_level) END;
      PERFORM tidegate.carry_row(p_tab, substring(p_key FROM 1 FOR p_ends[v_level]), v_level,
        p_edition, v_own, v_now, p_caller, p_calendars::numeric[]);
      SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab
        AND key = tidegate.short(substring(p_key FROM 1 FOR p_ends[v_level]));
      v_rows[v_level] := v_row;
    END LOOP;
  END IF;

  IF p_verb = 7 THEN
    v_row := v_rows[v_depth];
    RETURN ARRAY[6, v_now, CASE WHEN v_row.forget_at > v_now THEN 1 ELSE 0 END]::text;
  END IF;
  FOR v_level IN 1 .. v_depth LOOP
    v_kept := v_kept || tidegate.cells_of(
      v_rows[v_level], e.ends[v_level] - coalesce(e.ends[v_level - 1], 0));
  END LOOP;
  v_due := (v_rows[1]).due;
  a := ROW(p_tab, v_root, p_key, p_ends, v_now, p_calendars, p_amounts, p_detail, p_id,
    CASE WHEN p_caller THEN p_until ELSE tidegate.later(p_until, v_now::numeric - p_now) END,
    p_ask, p_ending, p_used, p_remember, p_session, v_due)::tidegate.command;
  v_in_line := p_turn IS NOT NULL OR coalesce((v_rows[1]).line_until > v_now, false);
  IF v_in_line AND p_verb < 2 THEN
    v_path := tidegate.path_of(p_key, p_ends);
    v_kept_at := tidegate.kept_at(p_tab, v_root, v_path, p_turn, p_ahead, v_now);
    v_out := tidegate.in_turn(a, e, v_kept, p_verb, p_turn, v_kept_at);
  ELSIF p_verb = 0 THEN v_out := tidegate.take(a, e, v_kept);
  ELSIF p_verb = 1 THEN v_out := tidegate.lease(a, e, v_kept);
  ELSIF p_verb = 2 THEN v_out := tidegate.debit(a, e, v_kept);
  ELSIF p_verb = 3 THEN v_out := tidegate.peek(a, e, v_kept);
  ELSIF p_verb = 4 THEN v_out := tidegate.end_lease(a, e, v_kept);
  ELSIF p_verb = 5 THEN v_out := tidegate.renew(a, e, v_kept);
  ELSE v_out := tidegate.reset(a, e, v_kept);
  END IF;
  IF p_verb = 1 AND v_out.reply[3] <> 0
    AND tidegate.free_ended(p_tab, v_root, v_now) THEN
    RETURN tidegate.decide(p_tab, p_edition, p_now, p_caller, p_key, p_ends, p_rules, p_own,
      p_calendars, p_verb, p_amounts, p_detail, p_id, p_until, p_ask, p_ending, p_used,
      p_remember, p_session, p_turn, p_channel, p_ahead, p_alive);
  END IF;
  IF p_turn IS NOT NULL THEN
    v_out.reply := tidegate.stand_or_leave(a, v_out.reply, p_turn, p_channel, p_ahead, p_alive,
      v_path, v_kept_at, (v_rows[1]).line_until);
  ELSIF v_in_line AND p_verb IN (4, 5, 6) THEN
    PERFORM tidegate.wake(p_tab, v_root, v_now);
  END IF;
  IF NOT v_locked OR (v_out.cells = v_kept AND v_out.leases_changed IS NULL) THEN
    -- Nothing that a crash may not take back: no disk is waited for, with the root's
    -- row locked.
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN v_out.reply::text;
  END IF;

  IF v_out.leases_changed THEN v_due := tidegate.next_due(p_tab, v_root); END IF;
  v_cells := v_out.cells;
  FOR v_level IN 1 .. v_depth LOOP
    v_row := v_rows[v_level];
    v_to := e.ends[v_level];
    IF (v_level = 1 AND v_due <> v_row.due)
      OR v_cells[v_from : v_to] IS DISTINCT FROM v_kept[v_from : v_to] THEN
      PERFORM tidegate.save_row(p_tab, substring(p_key FROM 1 FOR p_ends[v_level]), p_edition,
        v_now, e.rules[v_from : v_to], coalesce(p_own[v_level], false), v_cells[v_from : v_to],
        CASE v_level WHEN 1 THEN v_due ELSE 9223372036854775807 END,
        CASE v_level WHEN 1 THEN v_row.followed ELSE p_edition END);
    END IF;
    v_from := v_to + 1;
  END LOOP;
  RETURN v_out.reply::text;
END $$;

-- Answers as `tidegate.decide` does, or `admit` where there is nothing more to say.
-- p_weight is what the amount weighs; p_patience how far the clock may stand
-- behind what was written, and then stands still. A key that no index holds as it
-- is, any row that is not plain, and one for which somebody waits, is
-- `tidegate.decide`'s.
CREATE OR REPLACE FUNCTION tidegate.decide_bucket(
  p_tab integer, p_edition bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_amount bigint, p_detail integer, p_drain bigint, p_unit bigint, p_brim bigint,
  p_weight bigint, p_patience bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := CASE WHEN p_caller THEN p_now ELSE tidegate.clock() END;
  v_level bigint;
  v_at bigint;
  v_plain boolean;
BEGIN
  UPDATE tidegate.rows SET
    level = tidegate.plain_level(level, at, greatest(v_now, latest), p_drain) + p_weight,
    at = greatest(v_now, latest),
    latest = greatest(v_now, latest),
    forget_at = greatest(v_now, latest) + (p_drain - 1 + p_weight
      + tidegate.plain_level(level, at, greatest(v_now, latest), p_drain)) / p_drain
  WHERE tab = p_tab AND key = p_key AND edition = p_edition AND level IS NOT NULL
    AND own IS NULL AND latest <= v_now + p_patience AND at <= greatest(v_now, latest)
    AND due > greatest(v_now, latest) AND line_until <= greatest(v_now, latest)
    AND tidegate.plain_level(level, at, greatest(v_now, latest), p_drain) <= p_brim - p_weight
  RETURNING level, at INTO v_level, v_at;
  IF v_at IS NOT NULL THEN
    IF p_detail < 2 THEN RETURN 'admit'; END IF;
    RETURN '{0,' || v_at || ',0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,1,'
      || tidegate.plain_standing(v_level, v_at, p_drain, p_unit, p_brim) || '}';
  END IF;
  -- A refusal changes nothing, and takes no lock.
  SELECT tidegate.plain_level(level, at, greatest(v_now, latest), p_drain), greatest(v_now, latest),
    edition = p_edition AND level IS NOT NULL AND own IS NULL AND latest <= v_now + p_patience
      AND at <= greatest(v_now, latest) AND due > greatest(v_now, latest)
      AND line_until <= greatest(v_now, latest)
  INTO v_level, v_at, v_plain
  FROM tidegate.rows WHERE tab = p_tab AND key = p_key;
  IF v_plain AND v_level > p_brim - p_weight THEN
    RETURN '{0,' || v_at
      || ',1,' || v_at + (v_level + p_weight - p_brim + p_drain - 1) / p_drain
      || ',1,1,0,NULL,NULL,NULL,NULL,NULL,'
      || CASE WHEN p_detail = 0 THEN '0'
         ELSE '1,' || tidegate.plain_standing(v_level, v_at, p_drain, p_unit, p_brim) END || '}';
  END IF;
  -- A key never seen. (A root that has leases has a row.)
  IF v_plain IS NULL AND length(p_key) < 256 AND p_detail < 2 THEN
    INSERT INTO tidegate.rows
      (tab, edition, latest, forget_at, due, followed, level, at, key)
    VALUES (p_tab, p_edition, v_now, v_now + (p_weight + p_drain - 1) / p_drain,
      9223372036854775807, p_edition, p_weight, v_now, p_key)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN RETURN 'admit'; END IF;
  END IF;
  RETURN tidegate.decide(p_tab, p_edition, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
    '{}', '{}', 0, ARRAY[p_amount], p_detail, NULL, 0, NULL, 0, '{}', false, NULL);
END $$;
