-- When a lease was granted: neither a renewal nor an adjustment changes it, and for one
-- that waited it is the end of its wait. Leases that are older than this do not have it.
--
-- A decision that grants a lease says so as its last number, behind the standings: what an
-- older server reads of it is where it was.

ALTER TABLE tidegate.leases ADD COLUMN granted_at bigint;

-- As before, and when the lease was granted.
CREATE OR REPLACE FUNCTION tidegate.decision(
  p_rules tidegate.rule[], p_step tidegate.step, p_detail integer, p_now numeric,
  p_refund_at numeric, p_lease numeric[])
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_refused integer := 0;
  v_shadowed integer := 0;
  v_kind integer := 1;
  v_cells tidegate.cell[] := p_step.cells;
  v_reply numeric[];
  v_detailed boolean;
BEGIN
  FOR i IN 1 .. cardinality(p_step.verdicts) LOOP
    IF p_step.verdicts[i] > tidegate.admit() THEN
      IF (p_rules[i]).shadow THEN
        v_shadowed := 1;
      ELSE
        v_refused := v_refused | (1 << ((p_rules[i]).level - 1));
      END IF;
    END IF;
  END LOOP;
  IF p_step.verdict = tidegate.admit() THEN v_kind := 0; END IF;
  IF p_step.verdict = tidegate.not_ever() THEN v_kind := 2; END IF;
  v_detailed := p_detail = 2 OR (p_detail = 1 AND v_kind > 0);
  v_reply := ARRAY[0, p_now, v_kind, CASE v_kind WHEN 1 THEN p_step.verdict ELSE 0 END,
    p_step.binding, v_refused, v_shadowed, p_refund_at,
    p_lease[1], p_lease[2], p_lease[3], p_lease[4], CASE WHEN v_detailed THEN 1 ELSE 0 END];
  IF v_detailed THEN
    FOR i IN 1 .. cardinality(v_cells) LOOP
      v_reply := v_reply || tidegate.standing(p_rules[i], (v_cells[i]).n, p_now);
    END LOOP;
  END IF;
  IF p_lease IS NOT NULL THEN v_reply := v_reply || p_lease[5]; END IF;
  RETURN v_reply;
END $$;

-- As before, and when the lease was granted.
CREATE OR REPLACE FUNCTION tidegate.slots_decision(
  p_kind integer, p_now bigint, p_until numeric, p_binds boolean, p_lease numeric[],
  p_detail integer, p_capacity bigint, c numeric[])
RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_binds integer := p_binds::integer;
  v_refuses integer := (p_until IS NOT NULL)::integer;
  v_reply numeric[] := ARRAY[p_kind, p_now, v_refuses, coalesce(p_until, 0), v_binds, v_binds,
    0, NULL, p_lease[1], p_lease[2], p_lease[3], p_lease[4]];
  r tidegate.rule;
BEGIN
  v_reply := v_reply || (p_detail + v_refuses >= 2)::integer::numeric;
  IF p_detail + v_refuses >= 2 THEN
    r.kind := 5;
    r.capacity := p_capacity;
    v_reply := v_reply || tidegate.standing(r, c, p_now);
  END IF;
  IF p_lease IS NOT NULL THEN v_reply := v_reply || p_lease[5]; END IF;
  RETURN v_reply::text;
END $$;

-- As before; it notes when.
CREATE OR REPLACE FUNCTION tidegate.lease(a tidegate.command, e tidegate.editions, p_cells tidegate.cell[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
DECLARE
  v_step tidegate.step;
  v_out tidegate.outcome;
  v_known tidegate.leases;
  v_shares numeric[] := '{}';
  v_fence numeric := 0;
  r tidegate.rule;
BEGIN
  v_out.cells := p_cells;
  IF a.ask IS NOT NULL THEN
    v_known := tidegate.known(a);
    IF v_known.id IS NOT NULL THEN
      v_out.reply := ARRAY[0, a.now, 0, 0, 0, 0, 0, NULL,
        v_known.id, v_known.expires_at, v_known.fence, 1, 0, v_known.granted_at];
      RETURN v_out;
    END IF;
  END IF;
  v_step := tidegate.compose(e.rules, p_cells, a.amounts, a.now, a.calendars);
  v_out.cells := v_step.cells;
  IF v_step.verdict <> tidegate.admit() THEN
    v_out.reply := tidegate.decision(e.rules, v_step, a.detail, a.now,
      CASE WHEN e.refunds THEN nullif(a.due, 9223372036854775807) END, NULL);
    RETURN v_out;
  END IF;
  PERFORM FROM tidegate.leases WHERE tab = a.tab AND root = a.root AND id = a.id;
  IF FOUND THEN
    v_out.reply := ARRAY[5, a.now, 2, 0];
    RETURN v_out;
  END IF;
  v_step.cells := tidegate.commit_step(
    e.rules, v_step, a.amounts, a.now, a.calendars, a.id, a.until);
  FOR i IN 1 .. cardinality(p_cells) LOOP
    IF a.amounts[i] > 0 AND v_step.verdicts[i] = tidegate.admit() THEN
      r := e.rules[i];
      v_shares := v_shares || ARRAY[
        r.uid, a.amounts[i], tidegate.place(r, (v_step.cells[i]).n, a.now), 0];
      IF r.kind = 5 THEN v_fence := greatest(v_fence, (v_step.cells[i]).n[2]); END IF;
    END IF;
  END LOOP;
  INSERT INTO tidegate.leases
    (tab, stage, expires_at, due, root, id, fence, owner, ends, session, ask, shares,
      granted_at)
  VALUES (a.tab, 0, a.until, a.until, a.root, a.id, v_fence, a.key, a.ends, a.session,
    CASE WHEN a.ask IS NOT NULL THEN tidegate.ask_of(a.key, a.ask) END, v_shares, a.now);
  v_out.cells := v_step.cells;
  v_out.leases_changed := true;
  v_out.reply := tidegate.decision(e.rules, v_step, a.detail, a.now, NULL,
    ARRAY[a.id, a.until, v_fence, 0, a.now]);
  RETURN v_out;
END $$;

-- As before, and when the lease was granted.
CREATE OR REPLACE FUNCTION tidegate.in_turn(
  a tidegate.command, e tidegate.editions, p_cells tidegate.cell[], p_verb integer,
  p_turn numeric, p_kept_at bytea[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
DECLARE
  v_out tidegate.outcome;
  v_step tidegate.step;
  v_mine tidegate.leases;
BEGIN
  IF p_turn IS NOT NULL THEN
    -- An answer was lost on its way.
    SELECT * INTO v_mine FROM tidegate.leases
    WHERE tab = a.tab AND root = a.root AND id = a.id AND stage = 0;
    IF FOUND THEN
      v_out.cells := p_cells;
      v_out.reply := ARRAY[0, a.now, 0, 0, 0, 0, 0, NULL,
        v_mine.id, v_mine.expires_at, v_mine.fence, 0, 0, v_mine.granted_at];
      RETURN v_out;
    END IF;
  END IF;
  -- It has its lease already.
  IF p_verb = 1 AND (tidegate.known(a)).id IS NOT NULL THEN
    RETURN tidegate.lease(a, e, p_cells);
  END IF;
  IF p_kept_at IS NULL AND p_verb = 1 THEN RETURN tidegate.lease(a, e, p_cells); END IF;
  IF p_kept_at IS NULL THEN RETURN tidegate.take(a, e, p_cells); END IF;
  v_step := tidegate.compose(e.rules, p_cells, a.amounts, a.now, a.calendars);
  IF v_step.verdict = tidegate.admit() THEN
    v_step.verdict := tidegate.later(a.now, 1);
    v_step.binding := 0;
  END IF;
  v_out.cells := v_step.cells;
  v_out.reply := tidegate.decision(e.rules, v_step, a.detail, a.now,
    CASE WHEN p_verb = 1 AND e.refunds THEN nullif(a.due, 9223372036854775807) END, NULL);
  RETURN v_out;
END $$;

-- As before; it notes when.
CREATE OR REPLACE FUNCTION tidegate.lease_slots(
  p_tab integer, p_edition bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_uid bigint, p_capacity bigint, p_amount bigint, p_detail integer, p_id numeric,
  p_until bigint, p_turn numeric DEFAULT NULL, p_channel text DEFAULT NULL,
  p_ahead bigint DEFAULT 0, p_alive bigint DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
  c numeric[];
  v_now bigint;
  v_until numeric;
  v_first record;
  v_is_kept boolean := false;
  v_excess numeric;
  v_due bigint;
BEGIN
  SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab AND key = p_key FOR UPDATE;
  v_now := CASE WHEN p_caller THEN p_now ELSE tidegate.instant(v_row.latest) END;
  -- An id that is known is an answer that was lost, or a mistake.
  IF tidegate.is_settled(v_row, p_edition, v_now) IS NOT TRUE OR EXISTS (
    SELECT FROM tidegate.leases WHERE tab = p_tab AND root = p_key AND id = p_id) THEN
    RETURN tidegate.decide(p_tab, p_edition, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
      '{}', '{}', 1, ARRAY[p_amount], p_detail, p_id, p_until, NULL, 0, '{}', false, NULL,
      p_turn, p_channel, p_ahead, p_alive);
  END IF;
  c := (v_row.cells[1]).n;
  IF v_row.line_until > v_now THEN
    SELECT turn, came INTO v_first FROM tidegate.waiters
    WHERE tab::bigint = p_tab AND root = p_key AND (alive_until > v_now OR turn = p_turn)
    ORDER BY came, number LIMIT 1;
    -- On a clock that has stepped back, or with a priority, it may be ahead of them.
    v_is_kept := FOUND AND v_first.turn IS DISTINCT FROM p_turn AND (p_turn IS NULL
      OR v_first.came <= tidegate.earlier(v_now, p_ahead)
      OR tidegate.kept_at(p_tab, p_key, ARRAY[p_key], p_turn, p_ahead, v_now) IS NOT NULL);
  END IF;
  v_excess := coalesce(tidegate.slots_held(c, v_now), 0) + p_amount - p_capacity;

  IF v_is_kept OR v_excess > 0 THEN
    IF tidegate.free_ended(p_tab, p_key, v_now) THEN
      RETURN tidegate.lease_slots(p_tab, p_edition, p_now, p_caller, p_key, p_uid, p_capacity,
        p_amount, p_detail, p_id, p_until, p_turn, p_channel, p_ahead, p_alive);
    END IF;
    IF p_turn IS NOT NULL THEN
      PERFORM tidegate.stay(p_tab, p_key, p_turn, p_channel, p_ahead, p_alive, v_now,
        ARRAY[p_key], ARRAY[p_key], v_row.line_until);
    END IF;
    -- Nothing that a crash may not take back.
    PERFORM set_config('synchronous_commit', 'off', true);
    v_until := CASE WHEN v_excess > 0 THEN tidegate.slots_freed(c, v_excess, v_now)
      ELSE tidegate.later(v_now, 1) END;
    RETURN tidegate.slots_decision(CASE WHEN v_is_kept AND p_turn IS NOT NULL THEN 7 ELSE 0 END,
      v_now, v_until, v_excess > 0, NULL, p_detail, p_capacity, c);
  END IF;

  v_until := CASE WHEN p_caller THEN p_until
    ELSE tidegate.later(p_until, v_now::numeric - p_now) END;
  v_due := least(v_row.due, v_until);
  c := tidegate.slots_grant(c, p_id, p_amount, v_until, v_now);
  INSERT INTO tidegate.leases
    (tab, stage, expires_at, due, root, id, fence, owner, ends, shares, granted_at)
  VALUES (p_tab, 0, v_until, v_until, p_key, p_id, c[2], p_key, ARRAY[length(p_key)],
    ARRAY[p_uid, p_amount, 0, 0], v_now);
  UPDATE tidegate.rows SET latest = v_now, forget_at = tidegate.slots_forget_at(c), due = v_due,
    cells = ARRAY[ROW(c)::tidegate.cell]
  WHERE tab = p_tab AND key = p_key;
  IF p_turn IS NOT NULL AND v_row.line_until > v_now THEN
    PERFORM tidegate.leave_until(p_tab, p_key, p_turn, v_now,
      CASE WHEN c[1] >= p_capacity THEN v_due END);
  END IF;
  RETURN tidegate.slots_decision(0, v_now, NULL, false, ARRAY[p_id, v_until, c[2], 0, v_now],
    p_detail, p_capacity, c);
END $$;

-- As before, and when the lease was granted.
CREATE OR REPLACE FUNCTION tidegate.adjust(a tidegate.command, e tidegate.editions, p_cells tidegate.cell[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
DECLARE
  v_out tidegate.outcome;
  v_lease tidegate.leases;
  v_taken numeric[] := '{}';
  v_target numeric[] := '{}';
  v_held boolean[];
  v_step tidegate.step;
  v_calendar numeric[];
  v_is_admitted boolean;
  v_more numeric;
  v_place numeric;
  c numeric[];
  r tidegate.rule;
BEGIN
  v_out.cells := p_cells;
  SELECT * INTO v_lease FROM tidegate.leases
  WHERE tab = a.tab AND root = a.root AND id = a.id AND owner = a.key;
  IF NOT FOUND THEN
    v_out.reply := ARRAY[5, a.now, 0, 0];
    RETURN v_out;
  END IF;
  IF v_lease.stage <> 0 OR v_lease.expires_at <= a.now THEN
    v_out.reply := ARRAY[5, a.now, 1, least(v_lease.expires_at, a.now)];
    RETURN v_out;
  END IF;
  a.amounts := array_fill(0::numeric, ARRAY[cardinality(p_cells)]);
  v_out.cells := p_cells;
  v_held := array_fill(false, ARRAY[cardinality(p_cells)]);
  FOR i IN 1 .. cardinality(p_cells) LOOP
    r := e.rules[i];
    v_taken[i] := tidegate.taken_of(v_lease.shares, r.uid);
    v_target[i] := coalesce(a.used[i], v_taken[i]);
    CONTINUE WHEN v_target[i] = v_taken[i];
    IF r.kind = 5 THEN
      CONTINUE WHEN v_target[i] < v_taken[i];
      a.amounts[i] := v_target[i];
      c := (p_cells[i]).n;
      CONTINUE WHEN c IS NULL;
      c := tidegate.slots_pruned(
        tidegate.observe(r, c, a.now, a.calendars[3 * i - 2 : 3 * i]), a.now);
      CONTINUE WHEN tidegate.slots_position(c, a.id, v_lease.expires_at) IS NULL;
      v_held[i] := true;
      v_out.cells[i] := ROW(c)::tidegate.cell;
      p_cells[i] := ROW(
        tidegate.slots_release(c, a.id, v_lease.expires_at, a.now))::tidegate.cell;
    ELSIF a.ending = 0 THEN
      a.amounts[i] := greatest(v_target[i] - v_taken[i], 0);
    END IF;
  END LOOP;
  v_step := tidegate.compose(e.rules, p_cells, a.amounts, a.now, a.calendars);
  v_is_admitted := v_step.verdict = tidegate.admit();
  -- What was held stays held as it was, and becomes more.
  FOR i IN 1 .. cardinality(p_cells) LOOP
    CONTINUE WHEN NOT v_held[i];
    v_step.cells[i] := v_out.cells[i];
    a.amounts[i] := 0;
  END LOOP;
  IF v_is_admitted THEN
    v_step.cells := tidegate.commit_step(
      e.rules, v_step, a.amounts, a.now, a.calendars, a.id, v_lease.expires_at);
  END IF;
  FOR i IN 1 .. cardinality(p_cells) LOOP
    CONTINUE WHEN v_target[i] = v_taken[i];
    CONTINUE WHEN NOT v_is_admitted OR v_step.verdicts[i] <> tidegate.admit();
    r := e.rules[i];
    v_more := v_target[i] - v_taken[i];
    c := (v_step.cells[i]).n;
    IF r.kind = 5 THEN
      IF c IS NOT NULL AND v_target[i] = 0 THEN
        c := tidegate.slots_release(c, a.id, v_lease.expires_at, a.now);
      ELSIF c IS NOT NULL THEN
        c := tidegate.slots_resize(c, a.id, v_lease.expires_at, v_target[i], a.now);
      END IF;
      v_step.cells[i] := ROW(c)::tidegate.cell;
      v_lease.shares := tidegate.take_less(v_lease.shares, r.uid, v_taken[i]);
      IF v_target[i] > 0 THEN
        v_lease.shares := tidegate.take_more(v_lease.shares, r.uid, v_target[i], 0);
      END IF;
      -- It was granted anew.
      IF a.amounts[i] > 0 THEN v_lease.fence := greatest(v_lease.fence, c[2]); END IF;
    ELSIF v_more > 0 THEN
      IF v_more > a.amounts[i] THEN
        v_calendar := a.calendars[3 * i - 2 : 3 * i];
        c := tidegate.charge(r, c, v_more, a.now, v_calendar, a.id, v_lease.expires_at);
        v_step.cells[i] := ROW(c)::tidegate.cell;
      END IF;
      v_place := tidegate.place(r, c, a.now);
      v_lease.shares := tidegate.take_more(v_lease.shares, r.uid, v_more, v_place);
    ELSE
      v_step.cells[i] := ROW(
        tidegate.give_back(r, c, v_lease.shares, -v_more, a.now))::tidegate.cell;
      v_lease.shares := tidegate.take_less(v_lease.shares, r.uid, -v_more);
    END IF;
  END LOOP;
  v_out.cells := v_step.cells;
  IF NOT v_is_admitted THEN
    v_out.reply := tidegate.decision(e.rules, v_step, a.detail, a.now,
      CASE WHEN e.refunds THEN nullif(a.due, 9223372036854775807) END, NULL);
    RETURN v_out;
  END IF;
  UPDATE tidegate.leases SET shares = v_lease.shares, fence = v_lease.fence
  WHERE tab = a.tab AND root = a.root AND id = a.id;
  v_out.leases_changed := true;
  v_out.reply := tidegate.decision(e.rules, v_step, a.detail, a.now, NULL,
    ARRAY[a.id, v_lease.expires_at, v_lease.fence, 1, v_lease.granted_at]);
  RETURN v_out;
END $$;
