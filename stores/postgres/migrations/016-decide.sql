-- How a command is decided.

-- What a verb makes of the cells: 0 take, 1 take as a lease, 2 debit, 3 peek, 4 end,
-- 5 renew, 6 reset, 8 adjust.
CREATE FUNCTION tidegate.do_verb(
  p_verb integer, a tidegate.command, e tidegate.editions, p_cells tidegate.cell[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
BEGIN
  CASE p_verb
    WHEN 0 THEN RETURN tidegate.take(a, e, p_cells);
    WHEN 1 THEN RETURN tidegate.lease(a, e, p_cells);
    WHEN 2 THEN RETURN tidegate.debit(a, e, p_cells);
    WHEN 3 THEN RETURN tidegate.peek(a, e, p_cells);
    WHEN 4 THEN RETURN tidegate.end_lease(a, e, p_cells);
    WHEN 5 THEN RETURN tidegate.renew(a, e, p_cells);
    WHEN 6 THEN RETURN tidegate.reset(a, e, p_cells);
    WHEN 8 THEN RETURN tidegate.adjust(a, e, p_cells);
  END CASE;
END $$;

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
-- Verbs: as `tidegate.do_verb` has them, and 7: bring the rows up to the plan, and say
-- whether the last matters.
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
  ELSE
    v_out := tidegate.do_verb(p_verb, a, e, v_kept);
  END IF;
  IF p_verb IN (1, 8) AND v_out.reply[3] <> 0
    AND tidegate.free_ended(p_tab, v_root, v_now) THEN
    RETURN tidegate.decide(p_tab, p_edition, p_now, p_caller, p_key, p_ends, p_rules, p_own,
      p_calendars, p_verb, p_amounts, p_detail, p_id, p_until, p_ask, p_ending, p_used,
      p_remember, p_session, p_turn, p_channel, p_ahead, p_alive);
  END IF;
  IF p_turn IS NOT NULL THEN
    v_out.reply := tidegate.stand_or_leave(a, v_out.reply, p_turn, p_channel, p_ahead, p_alive,
      v_path, v_kept_at, (v_rows[1]).line_until);
  ELSIF v_in_line AND p_verb IN (4, 5, 6, 8) THEN
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
