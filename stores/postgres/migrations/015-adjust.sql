-- A lease is adjusted (`adjust` of `contract/src/oracle.rs`). It may then have several
-- charges of one limit: each is in its shares with its own place, the latest last.

-- How much of a limit a lease has taken.
CREATE FUNCTION tidegate.taken_of(p_shares numeric[], p_uid numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_taken numeric := 0;
BEGIN
  FOR s IN 1 .. cardinality(p_shares) - 3 BY 4 LOOP
    IF p_shares[s] = p_uid THEN v_taken := v_taken + p_shares[s + 1]; END IF;
  END LOOP;
  RETURN v_taken;
END $$;

-- The shares of a lease that has taken more. It remembers eight charges of one limit
-- apart; the last ones count as booked with the one before them.
CREATE FUNCTION tidegate.take_more(
  p_shares numeric[], p_uid numeric, p_amount numeric, p_place numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_count integer := 0;
  v_last integer;
BEGIN
  FOR s IN 1 .. cardinality(p_shares) - 3 BY 4 LOOP
    IF p_shares[s] = p_uid THEN
      v_count := v_count + 1;
      v_last := s;
    END IF;
  END LOOP;
  IF v_count >= 8 OR (p_shares[v_last + 2] = p_place AND p_shares[v_last + 3] = 0) THEN
    p_shares[v_last + 1] := p_shares[v_last + 1] + p_amount;
    RETURN p_shares;
  END IF;
  RETURN p_shares || ARRAY[p_uid, p_amount, p_place, 0];
END $$;

-- The shares of a lease of which that much was given back, the latest first.
CREATE FUNCTION tidegate.take_less(p_shares numeric[], p_uid numeric, p_amount numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_left numeric[] := '{}';
  v_part numeric;
BEGIN
  FOR s IN REVERSE cardinality(p_shares) - 3 .. 1 BY 4 LOOP
    v_part := CASE WHEN p_shares[s] = p_uid THEN least(p_shares[s + 1], p_amount) ELSE 0 END;
    p_amount := p_amount - v_part;
    IF p_shares[s + 1] > v_part THEN
      v_left := ARRAY[p_shares[s], p_shares[s + 1] - v_part, p_shares[s + 2], p_shares[s + 3]]
        || v_left;
    END IF;
  END LOOP;
  RETURN v_left;
END $$;

-- A cell after the end of what a lease took of its limit.
CREATE FUNCTION tidegate.end_charges(
  a tidegate.command, p_lease tidegate.leases, r tidegate.rule, p_calendar numeric[],
  c numeric[], p_taken numeric, p_used numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_charged numeric := p_taken;
BEGIN
  c := tidegate.observe(r, c, a.now, p_calendar);
  IF r.kind = 5 THEN
    IF c IS NULL THEN RETURN NULL; END IF;
    RETURN tidegate.slots_release(c, p_lease.id, p_lease.expires_at, a.now);
  END IF;
  IF r.refund AND p_lease.stage = 1 THEN v_charged := 0; END IF;
  IF p_used > v_charged THEN
    RETURN tidegate.charge(r, c, p_used - v_charged, a.now, p_calendar, NULL, NULL);
  END IF;
  RETURN tidegate.give_back(r, c, p_lease.shares, v_charged - p_used, a.now);
END $$;

-- Changes what a lease has taken, all or nothing: `used` says how much in all, null as
-- it has; `ending` is 1 if more is charged even where it does not fit. Where it is to hold
-- more slots than it does, all of them are asked for, as if what it holds was free.
CREATE FUNCTION tidegate.adjust(a tidegate.command, e tidegate.editions, p_cells tidegate.cell[])
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
      c := tidegate.observe(r, c, a.now, a.calendars[3 * i - 2 : 3 * i]);
      CONTINUE WHEN tidegate.slots_position(
        tidegate.slots_pruned(c, a.now), a.id, v_lease.expires_at) IS NULL;
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
