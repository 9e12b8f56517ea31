-- An idempotency key finds a lease for as long as it is held. One that was settled,
-- released or cancelled, or has expired, is nobody's: an ask by its key is an ask like
-- any other, or two would hold what there is one of.

DROP INDEX tidegate.leases_ask;
CREATE INDEX leases_ask ON tidegate.leases (tab, ask) WHERE ask IS NOT NULL AND stage = 0;

-- The lease that an ask was given before, if it is held.
CREATE FUNCTION tidegate.known(a tidegate.command) RETURNS tidegate.leases
LANGUAGE plpgsql AS $$
DECLARE
  v_known tidegate.leases;
BEGIN
  IF a.ask IS NULL THEN RETURN NULL; END IF;
  SELECT * INTO v_known FROM tidegate.leases
  WHERE tab = a.tab AND ask = tidegate.ask_of(a.key, a.ask) AND stage = 0
    AND expires_at > a.now;
  -- It ended with its session, which has ended.
  IF pg_try_advisory_xact_lock(tidegate.session_lock(v_known.session)) THEN RETURN NULL; END IF;
  RETURN v_known;
END $$;

-- As before, with the lease that is held.
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
        v_known.id, v_known.expires_at, v_known.fence, 1, 0];
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
    (tab, stage, expires_at, due, root, id, fence, owner, ends, session, ask, shares)
  VALUES (a.tab, 0, a.until, a.until, a.root, a.id, v_fence, a.key, a.ends, a.session,
    CASE WHEN a.ask IS NOT NULL THEN tidegate.ask_of(a.key, a.ask) END, v_shares);
  v_out.cells := v_step.cells;
  v_out.leases_changed := true;
  v_out.reply := tidegate.decision(e.rules, v_step, a.detail, a.now, NULL,
    ARRAY[a.id, a.until, v_fence, 0]);
  RETURN v_out;
END $$;

-- As before, with the lease that is held.
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
        v_mine.id, v_mine.expires_at, v_mine.fence, 0, 0];
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
