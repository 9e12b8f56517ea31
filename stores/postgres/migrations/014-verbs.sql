-- What can be asked (`contract/src/oracle.rs`). Each verb is given the cells of
-- all limits that the key reaches, and answers them as they are after it.

CREATE TYPE tidegate.outcome AS (
  cells tidegate.cell[],
  -- What `src/reply.rs` reads.
  reply numeric[],
  leases_changed boolean
);

-- A command without its path.
CREATE TYPE tidegate.command AS (
  tab integer,
  root bytea,
  key bytea,
  ends integer[],
  now bigint,
  calendars numeric[],
  amounts numeric[],
  detail integer,
  id numeric,
  until numeric,
  ask bytea,
  ending integer,
  used numeric[],
  remember boolean,
  session bigint,
  due bigint
);

CREATE FUNCTION tidegate.take(a tidegate.command, e tidegate.editions, p_cells tidegate.cell[])
RETURNS tidegate.outcome LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_step tidegate.step := tidegate.compose(e.rules, p_cells, a.amounts, a.now, a.calendars);
  v_out tidegate.outcome;
BEGIN
  IF v_step.verdict = tidegate.admit() THEN
    v_step.cells := tidegate.commit_step(
      e.rules, v_step, a.amounts, a.now, a.calendars, NULL, NULL);
  END IF;
  v_out.cells := v_step.cells;
  v_out.reply := tidegate.decision(e.rules, v_step, a.detail, a.now, NULL, NULL);
  RETURN v_out;
END $$;

CREATE FUNCTION tidegate.peek(a tidegate.command, e tidegate.editions, p_cells tidegate.cell[])
RETURNS tidegate.outcome LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_step tidegate.step := tidegate.compose(e.rules, p_cells, a.amounts, a.now, a.calendars);
  v_out tidegate.outcome;
BEGIN
  v_out.cells := v_step.cells;
  v_out.reply := tidegate.decision(e.rules, v_step, 2, a.now, NULL, NULL);
  RETURN v_out;
END $$;

-- The work is done; the answer is whether any more may start.
CREATE FUNCTION tidegate.debit(a tidegate.command, e tidegate.editions, p_cells tidegate.cell[])
RETURNS tidegate.outcome LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_step tidegate.step := tidegate.compose(e.rules, p_cells, a.amounts, a.now, a.calendars);
BEGIN
  v_step.verdicts := array_fill(tidegate.admit(), ARRAY[cardinality(p_cells)]);
  p_cells := tidegate.commit_step(e.rules, v_step, a.amounts, a.now, a.calendars, NULL, NULL);
  FOR i IN 1 .. cardinality(a.amounts) LOOP
    a.amounts[i] := least(a.amounts[i], 1);
  END LOOP;
  RETURN tidegate.peek(a, e, p_cells);
END $$;

-- An idempotency key belongs to its key: the two, told apart by a length.
CREATE FUNCTION tidegate.ask_of(p_key bytea, p_ask bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE AS
$$ SELECT sha256(int4send(length(p_key)) || p_key || p_ask) $$;

-- A take that is held as a lease, or the lease that the ask was given before.
CREATE FUNCTION tidegate.lease(a tidegate.command, e tidegate.editions, p_cells tidegate.cell[])
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

-- What an ending says was used, of so much taken. Endings: 0 settle, 1 release,
-- 2 fail, 3 cancel.
CREATE FUNCTION tidegate.used_of(p_ending integer, p_used numeric, p_taken numeric)
RETURNS numeric LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN p_ending = 0 THEN coalesce(p_used, p_taken)
     WHEN p_ending = 3 OR (p_ending = 2 AND p_used = 1) THEN 0
     ELSE p_taken END $$;

-- The same of the plan's limit at a position.
CREATE FUNCTION tidegate.used_of(
  a tidegate.command, p_position integer, p_taken numeric)
RETURNS numeric LANGUAGE sql IMMUTABLE AS
$$ SELECT tidegate.used_of(a.ending, a.used[p_position], p_taken) $$;

-- Ends the shares of a lease, all charges of a limit together; the reply is what was
-- used: uid, taken, used of each. Limits that were not taken are charged first: left out
-- by the ask, or added since. (A shadow that would have refused goes on as if it had.)
CREATE FUNCTION tidegate.end_shares(
  a tidegate.command, e tidegate.editions, p_lease tidegate.leases, p_cells tidegate.cell[])
RETURNS tidegate.outcome LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_out tidegate.outcome;
  v_uses numeric[] := '{}';
  v_done numeric[] := '{}';
  v_calendar numeric[];
  v_position integer;
  v_uid numeric;
  v_taken numeric;
  v_used numeric;
  r tidegate.rule;
BEGIN
  IF a.ending = 0 THEN
    FOR i IN 1 .. cardinality(p_cells) LOOP
      r := e.rules[i];
      CONTINUE WHEN coalesce(a.used[i], 0) = 0 OR r.shadow OR r.kind = 5
        OR tidegate.taken_of(p_lease.shares, r.uid) > 0;
      v_calendar := a.calendars[3 * i - 2 : 3 * i];
      p_cells[i] := ROW(tidegate.charge(r,
        tidegate.observe(r, (p_cells[i]).n, a.now, v_calendar),
        a.used[i], a.now, v_calendar, NULL, NULL))::tidegate.cell;
      v_uses := v_uses || ARRAY[r.uid, 0, a.used[i]];
    END LOOP;
  END IF;
  FOR s IN 1 .. cardinality(p_lease.shares) - 3 BY 4 LOOP
    v_uid := p_lease.shares[s];
    CONTINUE WHEN v_uid = ANY (v_done);
    v_done := v_done || v_uid;
    v_position := tidegate.position_of(e.rules, v_uid);
    v_taken := tidegate.taken_of(p_lease.shares, v_uid);
    v_used := v_taken;
    IF v_position IS NOT NULL THEN
      v_used := tidegate.used_of(a, v_position, v_taken);
      IF v_position <= cardinality(p_cells) THEN
        p_cells[v_position] := ROW(tidegate.end_charges(a, p_lease, e.rules[v_position],
          a.calendars[3 * v_position - 2 : 3 * v_position], (p_cells[v_position]).n,
          v_taken, v_used))::tidegate.cell;
      END IF;
    END IF;
    v_uses := v_uses || ARRAY[v_uid, v_taken, v_used];
  END LOOP;
  v_out.cells := p_cells;
  v_out.reply := v_uses;
  RETURN v_out;
END $$;

CREATE FUNCTION tidegate.end_lease(
  a tidegate.command, e tidegate.editions, p_cells tidegate.cell[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
DECLARE
  v_out tidegate.outcome;
  v_lease tidegate.leases;
  v_settlement numeric[];
BEGIN
  v_out.cells := p_cells;
  SELECT * INTO v_lease FROM tidegate.leases
  WHERE tab = a.tab AND root = a.root AND id = a.id AND owner = a.key;
  IF NOT FOUND THEN
    v_out.reply := ARRAY[5, a.now, 0, 0];
    RETURN v_out;
  END IF;
  IF v_lease.stage = 2 THEN
    v_settlement := v_lease.settlement;
    v_out.reply := ARRAY[1, a.now, v_settlement[1], 1]
      || v_settlement[2 : cardinality(v_settlement)];
    RETURN v_out;
  END IF;
  v_out := tidegate.end_shares(a, e, v_lease, p_cells);
  IF tidegate.took_of_others(e.rules, v_lease.shares) THEN
    PERFORM tidegate.move_retained_slots(
      a.tab, a.key, a.ends, a.id, v_lease.expires_at, NULL, a.now);
  END IF;
  v_settlement := (v_lease.expires_at <= a.now)::integer::numeric || v_out.reply;
  IF a.remember OR v_lease.ask IS NOT NULL THEN
    UPDATE tidegate.leases SET stage = 2, settlement = v_settlement, number = DEFAULT,
      due = tidegate.later(a.now, e.keep)
    WHERE tab = a.tab AND root = a.root AND id = a.id;
  ELSE
    DELETE FROM tidegate.leases WHERE tab = a.tab AND root = a.root AND id = a.id;
  END IF;
  v_out.leases_changed := true;
  v_out.reply := ARRAY[1, a.now, v_settlement[1], 0] || v_out.reply;
  RETURN v_out;
END $$;

CREATE FUNCTION tidegate.renew(
  a tidegate.command, e tidegate.editions, p_cells tidegate.cell[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
DECLARE
  v_out tidegate.outcome;
  v_lease tidegate.leases;
  v_position integer;
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
  FOR s IN 1 .. cardinality(v_lease.shares) - 3 BY 4 LOOP
    v_position := tidegate.position_of(e.rules, v_lease.shares[s]);
    CONTINUE WHEN v_position IS NULL OR v_position > cardinality(p_cells);
    r := e.rules[v_position];
    c := tidegate.observe(r, (p_cells[v_position]).n, a.now, '{}');
    IF r.kind = 5 AND c IS NOT NULL THEN
      c := tidegate.slots_renew(c, a.id, v_lease.expires_at, a.until, a.now);
    END IF;
    p_cells[v_position] := ROW(c)::tidegate.cell;
  END LOOP;
  IF tidegate.took_of_others(e.rules, v_lease.shares) THEN
    PERFORM tidegate.move_retained_slots(
      a.tab, a.key, a.ends, a.id, v_lease.expires_at, a.until::bigint, a.now);
  END IF;
  UPDATE tidegate.leases SET expires_at = a.until, due = a.until, number = DEFAULT
  WHERE tab = a.tab AND root = a.root AND id = a.id;
  v_out.cells := p_cells;
  v_out.leases_changed := true;
  v_out.reply := ARRAY[2, a.now];
  RETURN v_out;
END $$;

-- Forgets what was used of the key's own limits, with those that its row retains. Slots
-- stay with their holders, and what a lease took before is not given back after.
CREATE FUNCTION tidegate.reset(
  a tidegate.command, e tidegate.editions, p_cells tidegate.cell[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
DECLARE
  v_out tidegate.outcome;
  v_level integer := cardinality(a.ends);
  v_own numeric[] := '{}';
  v_retained tidegate.retained[];
  v_left tidegate.retained[];
  v_lease tidegate.leases;
BEGIN
  FOR i IN 1 .. cardinality(p_cells) LOOP
    CONTINUE WHEN (e.rules[i]).level <> v_level;
    v_own := v_own || (e.rules[i]).uid;
    IF (e.rules[i]).kind <> 5 OR ((p_cells[i]).n)[2] IS NULL THEN
      p_cells[i] := ROW(NULL)::tidegate.cell;
    END IF;
  END LOOP;
  SELECT retained INTO v_retained FROM tidegate.rows
  WHERE tab = a.tab AND key = tidegate.short(a.key);
  FOR i IN 1 .. coalesce(cardinality(v_retained), 0) LOOP
    v_own := v_own || ((v_retained[i]).rule).uid;
    IF ((v_retained[i]).rule).kind = 5 THEN v_left := v_left || v_retained[i]; END IF;
  END LOOP;
  IF v_left IS DISTINCT FROM v_retained THEN
    UPDATE tidegate.rows SET retained = v_left
    WHERE tab = a.tab AND key = tidegate.short(a.key);
  END IF;
  FOR v_lease IN SELECT * FROM tidegate.leases
    WHERE tab = a.tab AND root = a.root
      AND substring(owner FROM 1 FOR ends[v_level]) = a.key
  LOOP
    FOR s IN 1 .. cardinality(v_lease.shares) - 3 BY 4 LOOP
      IF v_lease.shares[s] = ANY (v_own) THEN v_lease.shares[s + 3] := 1; END IF;
    END LOOP;
    UPDATE tidegate.leases SET shares = v_lease.shares
    WHERE tab = a.tab AND root = a.root AND id = v_lease.id;
  END LOOP;
  v_out.cells := p_cells;
  v_out.reply := ARRAY[2, a.now];
  RETURN v_out;
END $$;

-- The lease that an ask was given before, if it is held.
CREATE FUNCTION tidegate.known(a tidegate.command) RETURNS tidegate.leases
LANGUAGE plpgsql AS $$
DECLARE
  v_known tidegate.leases;
BEGIN
  IF a.ask IS NULL THEN RETURN NULL; END IF;
  -- One whose session has ended has ended with it; the ask may have another since.
  SELECT * INTO v_known FROM tidegate.leases
  WHERE tab = a.tab AND ask = tidegate.ask_of(a.key, a.ask) AND stage = 0
    AND expires_at > a.now AND tidegate.is_over(session) IS NOT TRUE;
  RETURN v_known;
END $$;
