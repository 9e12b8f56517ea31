-- What can be asked (`store/src/decide.rs`). Each verb is given the states of
-- all limits that the key reaches, and answers them as they are after it.

CREATE TYPE tidegate.outcome AS (
  states tidegate.state[],
  -- What `src/reply.rs` reads.
  reply numeric[],
  leases_changed boolean,
  -- What it changes of usage (usage.sql).
  used numeric[]
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
  idempotency bytea,
  ending integer,
  used numeric[],
  remember boolean,
  session bigint,
  due bigint
);

CREATE FUNCTION tidegate.take(a tidegate.command, e tidegate.revisions, p_states tidegate.state[])
RETURNS tidegate.outcome LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_step tidegate.step := tidegate.compose(e.rules, p_states, a.amounts, a.now, a.calendars);
  v_out tidegate.outcome;
BEGIN
  IF v_step.verdict = tidegate.admit() THEN
    v_step.states := tidegate.commit_step(
      e.rules, v_step, a.amounts, a.now, a.calendars, NULL, NULL);
    v_out.used := tidegate.used_by_step(e, v_step, a.amounts, a.now);
  END IF;
  v_out.states := v_step.states;
  v_out.reply := tidegate.decision(e.rules, v_step, a.detail, a.now, NULL, NULL);
  RETURN v_out;
END $$;

CREATE FUNCTION tidegate.peek(a tidegate.command, e tidegate.revisions, p_states tidegate.state[])
RETURNS tidegate.outcome LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_step tidegate.step := tidegate.compose(e.rules, p_states, a.amounts, a.now, a.calendars);
  v_out tidegate.outcome;
BEGIN
  v_out.states := v_step.states;
  v_out.reply := tidegate.decision(e.rules, v_step, 2, a.now, NULL, NULL);
  RETURN v_out;
END $$;

-- The work is done; the answer is whether any more may start.
CREATE FUNCTION tidegate.debit(a tidegate.command, e tidegate.revisions, p_states tidegate.state[])
RETURNS tidegate.outcome LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_step tidegate.step := tidegate.compose(e.rules, p_states, a.amounts, a.now, a.calendars);
  v_used numeric[];
  v_out tidegate.outcome;
BEGIN
  v_step.verdicts := array_fill(tidegate.admit(), ARRAY[cardinality(p_states)]);
  p_states := tidegate.commit_step(e.rules, v_step, a.amounts, a.now, a.calendars, NULL, NULL);
  v_used := tidegate.used_by_step(e, v_step, a.amounts, a.now);
  FOR i IN 1 .. cardinality(a.amounts) LOOP
    a.amounts[i] := least(a.amounts[i], 1);
  END LOOP;
  v_out := tidegate.peek(a, e, p_states);
  v_out.used := v_used;
  RETURN v_out;
END $$;

-- An idempotency key belongs to its key: the two, told apart by a length.
CREATE FUNCTION tidegate.idempotency_of(p_key bytea, p_idempotency bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE AS
$$ SELECT sha256(int4send(length(p_key)) || p_key || p_idempotency) $$;

-- A take that is held as a lease, or the lease that the request was given before.
CREATE FUNCTION tidegate.lease(a tidegate.command, e tidegate.revisions, p_states tidegate.state[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
DECLARE
  v_step tidegate.step;
  v_out tidegate.outcome;
  v_known tidegate.leases;
  v_shares numeric[] := '{}';
  v_fence numeric := 0;
  r tidegate.rule;
BEGIN
  v_out.states := p_states;
  IF a.idempotency IS NOT NULL THEN
    v_known := tidegate.known(a);
    IF v_known.id IS NOT NULL THEN
      v_out.reply := ARRAY[0, a.now, 0, 0, 0, 0, 0, NULL,
        v_known.id, v_known.expires_at, v_known.fence, 1, 0, v_known.granted_at];
      RETURN v_out;
    END IF;
  END IF;
  v_step := tidegate.compose(e.rules, p_states, a.amounts, a.now, a.calendars);
  v_out.states := v_step.states;
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
  v_step.states := tidegate.commit_step(
    e.rules, v_step, a.amounts, a.now, a.calendars, a.id, a.until);
  FOR i IN 1 .. cardinality(p_states) LOOP
    IF a.amounts[i] > 0 AND v_step.verdicts[i] = tidegate.admit() THEN
      r := e.rules[i];
      v_shares := v_shares || ARRAY[
        r.uid, a.amounts[i], tidegate.reference(r, (v_step.states[i]).n, a.now),
        tidegate.marks(e, r)];
      IF r.kind = 5 THEN v_fence := greatest(v_fence, (v_step.states[i]).n[2]); END IF;
    END IF;
  END LOOP;
  INSERT INTO tidegate.leases
    (tab, stage, expires_at, due, root, id, fence, owner, ends, session, idempotency, shares,
      granted_at, counted)
  VALUES (a.tab, 0, a.until, a.until, a.root, a.id, v_fence, a.key, a.ends, a.session,
    CASE WHEN a.idempotency IS NOT NULL THEN tidegate.idempotency_of(a.key, a.idempotency) END,
    v_shares, a.now, e.usage IS NOT NULL);
  v_out.used := tidegate.used_by_step(e, v_step, a.amounts, a.now);
  v_out.states := v_step.states;
  v_out.leases_changed := true;
  v_out.reply := tidegate.decision(e.rules, v_step, a.detail, a.now, NULL,
    ARRAY[a.id, a.until, v_fence, 0, a.now]);
  RETURN v_out;
END $$;

-- Of each limit as much of the amounts as fits, and of the least at least: then it is for the
-- limits to refuse. Of a shadow, which refuses nobody, all.
CREATE FUNCTION tidegate.as_much_as_fits(
  a tidegate.command, e tidegate.revisions, p_states tidegate.state[])
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_taken numeric[] := '{}';
  v_amount numeric;
  v_standing numeric[];
  r tidegate.rule;
  c numeric[];
BEGIN
  FOR i IN 1 .. cardinality(p_states) LOOP
    r := e.rules[i];
    c := (p_states[i]).n;
    v_amount := coalesce(a.amounts[i], 0);
    IF NOT r.shadow THEN
      IF c IS NOT NULL THEN
        c := tidegate.observe(r, c, a.now, a.calendars[3 * i - 2 : 3 * i]);
      END IF;
      v_standing := tidegate.standing(r, c, a.now);
      v_amount := greatest(least(v_amount, v_standing[1]), least(coalesce(a.used[i], 0), v_amount));
    END IF;
    v_taken[i] := v_amount;
  END LOOP;
  RETURN v_taken;
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
-- by the request, or added since. (A shadow that would have refused goes on as if it had.)
CREATE FUNCTION tidegate.end_shares(
  a tidegate.command, e tidegate.revisions, p_lease tidegate.leases, p_states tidegate.state[])
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
    FOR i IN 1 .. cardinality(p_states) LOOP
      r := e.rules[i];
      CONTINUE WHEN coalesce(a.used[i], 0) = 0 OR r.shadow OR r.kind = 5
        OR tidegate.took(p_lease.shares, r.uid);
      v_calendar := a.calendars[3 * i - 2 : 3 * i];
      p_states[i] := ROW(tidegate.charge(r,
        tidegate.observe(r, (p_states[i]).n, a.now, v_calendar),
        a.used[i], a.now, v_calendar, NULL, NULL))::tidegate.state;
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
      IF v_position <= cardinality(p_states) THEN
        p_states[v_position] := ROW(tidegate.end_charges(a, p_lease, e.rules[v_position],
          a.calendars[3 * v_position - 2 : 3 * v_position], (p_states[v_position]).n,
          v_taken, v_used))::tidegate.state;
      END IF;
    END IF;
    v_uses := v_uses || ARRAY[v_uid, v_taken, v_used];
  END LOOP;
  v_out.states := p_states;
  v_out.reply := v_uses;
  RETURN v_out;
END $$;

CREATE FUNCTION tidegate.end_lease(
  a tidegate.command, e tidegate.revisions, p_states tidegate.state[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
DECLARE
  v_out tidegate.outcome;
  v_lease tidegate.leases;
  v_settlement numeric[];
BEGIN
  v_out.states := p_states;
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
  v_out := tidegate.end_shares(a, e, v_lease, p_states);
  v_out.used := tidegate.used_by_end(e, v_lease, v_out.reply);
  IF tidegate.took_of_others(e.rules, v_lease.shares) THEN
    PERFORM tidegate.move_retained_slots(
      a.tab, a.key, a.ends, a.id, v_lease.expires_at, NULL, a.now);
  END IF;
  v_settlement := (v_lease.expires_at <= a.now)::integer::numeric || v_out.reply;
  IF a.remember OR v_lease.idempotency IS NOT NULL THEN
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
  a tidegate.command, e tidegate.revisions, p_states tidegate.state[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
DECLARE
  v_out tidegate.outcome;
  v_lease tidegate.leases;
  v_position integer;
  c numeric[];
  r tidegate.rule;
BEGIN
  v_out.states := p_states;
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
    CONTINUE WHEN v_position IS NULL OR v_position > cardinality(p_states);
    r := e.rules[v_position];
    c := tidegate.observe(r, (p_states[v_position]).n, a.now, '{}');
    IF r.kind = 5 AND c IS NOT NULL THEN
      c := tidegate.slots_renew(c, a.id, v_lease.expires_at, a.until, a.now);
    END IF;
    p_states[v_position] := ROW(c)::tidegate.state;
  END LOOP;
  IF tidegate.took_of_others(e.rules, v_lease.shares) THEN
    PERFORM tidegate.move_retained_slots(
      a.tab, a.key, a.ends, a.id, v_lease.expires_at, a.until::bigint, a.now);
  END IF;
  UPDATE tidegate.leases SET expires_at = a.until, due = a.until, number = DEFAULT
  WHERE tab = a.tab AND root = a.root AND id = a.id;
  v_out.states := p_states;
  v_out.leases_changed := true;
  v_out.reply := ARRAY[2, a.now];
  RETURN v_out;
END $$;

-- Forgets what was used of the key's own limits, with those that its row retains. Slots
-- stay with their holders, and what a lease took before is not given back after.
CREATE FUNCTION tidegate.reset(
  a tidegate.command, e tidegate.revisions, p_states tidegate.state[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
DECLARE
  v_out tidegate.outcome;
  v_level integer := cardinality(a.ends);
  v_name bytea := tidegate.row_name(a.key, a.ends, v_level);
  v_own numeric[] := '{}';
  v_retained tidegate.retained[];
  v_left tidegate.retained[];
  v_lease tidegate.leases;
BEGIN
  FOR i IN 1 .. cardinality(p_states) LOOP
    CONTINUE WHEN (e.rules[i]).level <> v_level;
    v_own := v_own || (e.rules[i]).uid;
    IF (e.rules[i]).kind <> 5 OR ((p_states[i]).n)[2] IS NULL THEN
      p_states[i] := ROW(NULL)::tidegate.state;
    END IF;
  END LOOP;
  SELECT retained INTO v_retained FROM tidegate.rows
  WHERE tab = a.tab AND key = tidegate.short(v_name);
  FOR i IN 1 .. coalesce(cardinality(v_retained), 0) LOOP
    v_own := v_own || ((v_retained[i]).rule).uid;
    IF ((v_retained[i]).rule).kind = 5 THEN v_left := v_left || v_retained[i]; END IF;
  END LOOP;
  IF v_left IS DISTINCT FROM v_retained THEN
    UPDATE tidegate.rows SET retained = v_left
    WHERE tab = a.tab AND key = tidegate.short(v_name);
  END IF;
  FOR v_lease IN SELECT * FROM tidegate.leases
    WHERE tab = a.tab AND root = a.root
      AND tidegate.row_name(owner, ends, v_level) = v_name
  LOOP
    FOR s IN 1 .. cardinality(v_lease.shares) - 3 BY 4 LOOP
      IF v_lease.shares[s] = ANY (v_own) THEN
        v_lease.shares[s + 3] := v_lease.shares[s + 3] - v_lease.shares[s + 3] % 2 + 1;
      END IF;
    END LOOP;
    UPDATE tidegate.leases SET shares = v_lease.shares
    WHERE tab = a.tab AND root = a.root AND id = v_lease.id;
  END LOOP;
  v_out.states := p_states;
  v_out.reply := ARRAY[2, a.now];
  RETURN v_out;
END $$;

-- The lease that a request was given before, if it is held.
CREATE FUNCTION tidegate.known(a tidegate.command) RETURNS tidegate.leases
LANGUAGE plpgsql AS $$
DECLARE
  v_known tidegate.leases;
BEGIN
  IF a.idempotency IS NULL THEN RETURN NULL; END IF;
  -- One whose session has ended has ended with it; the request may have another since.
  SELECT * INTO v_known FROM tidegate.leases
  WHERE tab = a.tab AND idempotency = tidegate.idempotency_of(a.key, a.idempotency) AND stage = 0
    AND expires_at > a.now AND tidegate.is_over(session) IS NOT TRUE;
  RETURN v_known;
END $$;

-- A lease is adjusted (`adjust` of `store/src/decide.rs`). It may then have several
-- charges of one limit: each is in its shares with its own reference, the latest last.

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

-- Whether a lease was granted some of a limit, though that may all have come back.
CREATE FUNCTION tidegate.took(p_shares numeric[], p_uid numeric)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  FOR s IN 1 .. cardinality(p_shares) - 3 BY 4 LOOP
    IF p_shares[s] = p_uid THEN RETURN true; END IF;
  END LOOP;
  RETURN false;
END $$;

-- The shares of a lease that has taken more, of which nothing is forgotten. It remembers eight charges of one limit
-- apart, and one more for each level at which none of them is counted; the last ones count as booked with the one
-- before them that is counted at the same level.
CREATE FUNCTION tidegate.take_more(
  p_shares numeric[], p_uid numeric, p_amount numeric, p_reference numeric, p_marks numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_count integer := 0;
  v_last integer;
  v_alike integer;
BEGIN
  FOR s IN 1 .. cardinality(p_shares) - 3 BY 4 LOOP
    IF p_shares[s] = p_uid THEN
      v_count := v_count + 1;
      v_last := s;
      IF div(p_shares[s + 3], 2) = div(p_marks, 2) THEN v_alike := s; END IF;
    END IF;
  END LOOP;
  -- It has come back, and counts no more.
  IF p_shares[v_last + 1] = 0 THEN
    p_shares[v_last + 1] := p_amount;
    p_shares[v_last + 2] := p_reference;
    p_shares[v_last + 3] := p_marks;
    RETURN p_shares;
  END IF;
  IF v_count >= 8 AND (p_shares[v_last + 2] <> p_reference OR p_shares[v_last + 3] <> p_marks) THEN
    v_last := v_alike;
  ELSIF p_shares[v_last + 2] <> p_reference OR p_shares[v_last + 3] <> p_marks THEN
    v_last := NULL;
  END IF;
  IF v_last IS NOT NULL THEN
    p_shares[v_last + 1] := p_shares[v_last + 1] + p_amount;
    RETURN p_shares;
  END IF;
  RETURN p_shares || ARRAY[p_uid, p_amount, p_reference, p_marks];
END $$;

-- The shares of a lease of which that much was given back, the latest first. If that is all, it
-- is as if it had never taken of it, unless that stays.
CREATE FUNCTION tidegate.take_less(
  p_shares numeric[], p_uid numeric, p_amount numeric, p_stays boolean)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_left numeric[] := '{}';
  v_part numeric;
  v_first integer;
BEGIN
  IF p_stays AND tidegate.taken_of(p_shares, p_uid) <= p_amount THEN
    FOR s IN REVERSE cardinality(p_shares) - 3 .. 1 BY 4 LOOP
      IF p_shares[s] = p_uid THEN v_first := s; END IF;
    END LOOP;
  END IF;
  FOR s IN REVERSE cardinality(p_shares) - 3 .. 1 BY 4 LOOP
    v_part := CASE WHEN p_shares[s] = p_uid THEN least(p_shares[s + 1], p_amount) ELSE 0 END;
    p_amount := p_amount - v_part;
    IF p_shares[s] <> p_uid OR p_shares[s + 1] > v_part OR s = v_first THEN
      v_left := ARRAY[p_shares[s], p_shares[s + 1] - v_part, p_shares[s + 2], p_shares[s + 3]]
        || v_left;
    END IF;
  END LOOP;
  RETURN v_left;
END $$;

-- A state after the end of what a lease took of its limit.
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
CREATE FUNCTION tidegate.adjust(a tidegate.command, e tidegate.revisions, p_states tidegate.state[])
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
  v_reference numeric;
  c numeric[];
  r tidegate.rule;
BEGIN
  v_out.states := p_states;
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
  a.amounts := array_fill(0::numeric, ARRAY[cardinality(p_states)]);
  v_out.states := p_states;
  v_held := array_fill(false, ARRAY[cardinality(p_states)]);
  FOR i IN 1 .. cardinality(p_states) LOOP
    r := e.rules[i];
    v_taken[i] := tidegate.taken_of(v_lease.shares, r.uid);
    -- A shadow that would have refused goes on as if it had.
    v_target[i] := CASE WHEN r.shadow AND NOT tidegate.took(v_lease.shares, r.uid) THEN 0
      ELSE coalesce(a.used[i], v_taken[i]) END;
    CONTINUE WHEN v_target[i] = v_taken[i];
    IF r.kind = 5 THEN
      CONTINUE WHEN v_target[i] < v_taken[i];
      a.amounts[i] := v_target[i];
      c := (p_states[i]).n;
      CONTINUE WHEN c IS NULL;
      c := tidegate.observe(r, c, a.now, a.calendars[3 * i - 2 : 3 * i]);
      CONTINUE WHEN tidegate.slots_position(
        tidegate.slots_pruned(c, a.now), a.id, v_lease.expires_at) IS NULL;
      v_held[i] := true;
      v_out.states[i] := ROW(c)::tidegate.state;
      p_states[i] := ROW(
        tidegate.slots_release(c, a.id, v_lease.expires_at, a.now))::tidegate.state;
    ELSIF a.ending = 0 THEN
      a.amounts[i] := greatest(v_target[i] - v_taken[i], 0);
    END IF;
  END LOOP;
  v_step := tidegate.compose(e.rules, p_states, a.amounts, a.now, a.calendars);
  v_is_admitted := v_step.verdict = tidegate.admit();
  -- What was held stays held as it was, and becomes more.
  FOR i IN 1 .. cardinality(p_states) LOOP
    CONTINUE WHEN NOT v_held[i];
    v_step.states[i] := v_out.states[i];
    a.amounts[i] := 0;
  END LOOP;
  IF v_is_admitted THEN
    v_step.states := tidegate.commit_step(
      e.rules, v_step, a.amounts, a.now, a.calendars, a.id, v_lease.expires_at);
  END IF;
  FOR i IN 1 .. cardinality(p_states) LOOP
    CONTINUE WHEN v_target[i] = v_taken[i];
    CONTINUE WHEN NOT v_is_admitted OR v_step.verdicts[i] <> tidegate.admit();
    r := e.rules[i];
    v_more := v_target[i] - v_taken[i];
    IF v_lease.counted AND e.usage IS NOT NULL THEN
      v_out.used := v_out.used
        || tidegate.used_by_adjustment(e, v_lease, i, v_taken[i], v_target[i]);
    END IF;
    c := (v_step.states[i]).n;
    IF r.kind = 5 THEN
      IF c IS NOT NULL AND v_target[i] = 0 THEN
        c := tidegate.slots_release(c, a.id, v_lease.expires_at, a.now);
      ELSIF c IS NOT NULL THEN
        c := tidegate.slots_resize(c, a.id, v_lease.expires_at, v_target[i], a.now);
      END IF;
      v_step.states[i] := ROW(c)::tidegate.state;
      v_lease.shares := tidegate.take_less(v_lease.shares, r.uid, v_taken[i], r.shadow);
      IF v_target[i] > 0 THEN
        v_lease.shares := tidegate.take_more(v_lease.shares, r.uid, v_target[i], 0, 0);
      END IF;
      -- It was granted anew.
      IF a.amounts[i] > 0 THEN v_lease.fence := greatest(v_lease.fence, c[2]); END IF;
    ELSIF v_more > 0 THEN
      IF v_more > a.amounts[i] THEN
        v_calendar := a.calendars[3 * i - 2 : 3 * i];
        c := tidegate.charge(r, c, v_more, a.now, v_calendar, a.id, v_lease.expires_at);
        v_step.states[i] := ROW(c)::tidegate.state;
      END IF;
      v_reference := tidegate.reference(r, c, a.now);
      v_lease.shares := tidegate.take_more(v_lease.shares, r.uid, v_more, v_reference,
        CASE WHEN v_lease.counted THEN tidegate.marks(e, r) ELSE 0 END);
    ELSE
      v_step.states[i] := ROW(
        tidegate.give_back(r, c, v_lease.shares, -v_more, a.now))::tidegate.state;
      v_lease.shares := tidegate.take_less(v_lease.shares, r.uid, -v_more, r.shadow);
    END IF;
  END LOOP;
  v_out.states := v_step.states;
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

-- How a command is decided.

-- What a verb makes of the states: 0 take, 1 take as a lease, 2 debit, 3 peek, 4 end,
-- 5 renew, 6 reset, 8 adjust.
CREATE FUNCTION tidegate.do_verb(
  p_verb integer, a tidegate.command, e tidegate.revisions, p_states tidegate.state[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
BEGIN
  CASE p_verb
    WHEN 0 THEN RETURN tidegate.take(a, e, p_states);
    WHEN 1 THEN RETURN tidegate.lease(a, e, p_states);
    WHEN 2 THEN RETURN tidegate.debit(a, e, p_states);
    WHEN 3 THEN RETURN tidegate.peek(a, e, p_states);
    WHEN 4 THEN RETURN tidegate.end_lease(a, e, p_states);
    WHEN 5 THEN RETURN tidegate.renew(a, e, p_states);
    WHEN 6 THEN RETURN tidegate.reset(a, e, p_states);
    WHEN 8 THEN RETURN tidegate.adjust(a, e, p_states);
  END CASE;
END $$;

-- One command on one key and its ancestors, wholly or not at all. A translation
-- of the crates `core` and `store`: whoever changes a rule there changes it
-- here, and the differential test finds who did not.
--
-- p_now is the caller's clock, by which the other instants are meant; it decides
-- only if p_caller says so. In a batch (batch.sql) p_now is the instant of the batch by the
-- server's clock, and decides: then p_caller is null. p_ends says where each ancestor, and the key, ends in it.
-- p_rules are the numbers of all limits as they decide here, if a key of the path
-- has some of its own, and p_own says which levels have.
-- A lease ends with p_session, if that is not null; a lease that is refused looks
-- first whether one has ended.
-- Verbs: as `tidegate.do_verb` has them, and 7: bring the rows up to the plan, and say
-- whether the last matters.
-- p_turn is the place of a request that may wait, and null for any other; p_channel is
-- where it listens, p_ahead how much earlier than it did it counts as having come,
-- p_alive for how long it is taken for alive. All are microseconds.
CREATE FUNCTION tidegate.decide(
  p_tab integer, p_revision bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_ends integer[], p_rules numeric[], p_own boolean[], p_calendars bigint[], p_verb integer, p_amounts bigint[],
  p_detail integer, p_id numeric, p_until bigint, p_idempotency bytea, p_ending integer,
  p_used bigint[], p_remember boolean, p_session bigint, p_turn numeric DEFAULT NULL,
  p_channel text DEFAULT NULL, p_ahead bigint DEFAULT 0, p_alive bigint DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  a tidegate.command;
  e tidegate.revisions := tidegate.revision(p_tab, p_revision);
  v_root bytea := tidegate.short(tidegate.row_name(p_key, p_ends, 1));
  v_now bigint := p_now;
  v_due bigint;
  v_depth integer := cardinality(p_ends);
  v_rows tidegate.rows[];
  v_row tidegate.rows;
  v_latest bigint;
  v_foreign boolean := false;
  v_own tidegate.rule[];
  v_locked boolean := true;
  v_kept tidegate.state[] := '{}';
  v_states tidegate.state[];
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
    v_row := tidegate.lock_root(p_tab, tidegate.row_name(p_key, p_ends, 1), p_revision);
  END IF;
  FOR v_level IN 1 .. v_depth LOOP
    IF v_level > 1 THEN
      SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab
        AND key = tidegate.short(tidegate.row_name(p_key, p_ends, v_level));
    END IF;
    IF p_own[v_level] THEN v_own := tidegate.rules_at(e.rules, v_level); ELSE v_own := NULL; END IF;
    v_rows[v_level] := v_row;
    v_latest := greatest(v_latest, v_row.latest);
    v_foreign := v_foreign OR coalesce(v_row.revision <> p_revision, false)
      OR (v_row.tab IS NOT NULL AND v_row.own IS DISTINCT FROM v_own);
  END LOOP;
  IF v_foreign AND NOT v_locked THEN
    v_rows[1] := tidegate.lock_root(p_tab, tidegate.row_name(p_key, p_ends, 1), p_revision);
    v_locked := true;
  END IF;
  IF NOT p_caller THEN
    v_now := tidegate.instant(v_latest);
  ELSIF p_caller IS NULL AND v_latest BETWEEN v_now AND v_now + 10000000 THEN
    v_now := v_latest;
  END IF;

  IF v_locked AND (v_foreign OR (v_rows[1]).due <= v_now OR (v_rows[1]).followed < p_revision) THEN
    IF NOT tidegate.catch_up(p_tab, v_root, p_revision, v_now, p_caller) THEN
      RETURN ARRAY[4, v_now]::text;
    END IF;
    FOR v_level IN 1 .. v_depth LOOP
      v_own := CASE WHEN p_own[v_level] THEN tidegate.rules_at(e.rules, v_level) END;
      PERFORM tidegate.carry_row(p_tab, tidegate.row_name(p_key, p_ends, v_level), v_level,
        p_revision, v_own, v_now, p_caller, p_calendars::numeric[]);
      SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab
        AND key = tidegate.short(tidegate.row_name(p_key, p_ends, v_level));
      v_rows[v_level] := v_row;
    END LOOP;
  END IF;

  IF p_verb = 7 THEN
    v_row := v_rows[v_depth];
    RETURN ARRAY[6, v_now, CASE WHEN v_row.forget_at > v_now THEN 1 ELSE 0 END]::text;
  END IF;
  FOR v_level IN 1 .. v_depth LOOP
    v_kept := v_kept || tidegate.states_of(
      v_rows[v_level], e.ends[v_level] - coalesce(e.ends[v_level - 1], 0));
  END LOOP;
  v_due := (v_rows[1]).due;
  a := ROW(p_tab, v_root, p_key, p_ends, v_now, p_calendars, p_amounts, p_detail, p_id,
    CASE WHEN p_caller THEN p_until ELSE tidegate.later(p_until, v_now::numeric - p_now) END,
    p_idempotency, p_ending, p_used, p_remember, p_session, v_due)::tidegate.command;
  IF p_verb = 1 AND cardinality(p_used) > 0 THEN
    -- It may be partial, and p_used says the least.
    a.amounts := tidegate.as_much_as_fits(a, e, v_kept);
  END IF;
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
    RETURN tidegate.decide(p_tab, p_revision, p_now, p_caller, p_key, p_ends, p_rules, p_own,
      p_calendars, p_verb, p_amounts, p_detail, p_id, p_until, p_idempotency, p_ending, p_used,
      p_remember, p_session, p_turn, p_channel, p_ahead, p_alive);
  END IF;
  IF p_verb = 1 AND cardinality(p_used) > 0 AND v_out.reply[1] = 0 AND v_out.reply[3] = 0 THEN
    v_out.reply[1] := 9;
    v_out.reply := v_out.reply || a.amounts || cardinality(a.amounts)::numeric;
  END IF;
  IF p_turn IS NOT NULL THEN
    v_out.reply := tidegate.stand_or_leave(a, v_out.reply, p_turn, p_channel, p_ahead, p_alive,
      v_path, v_kept_at, (v_rows[1]).line_until);
  ELSIF v_in_line AND p_verb IN (4, 5, 6, 8) THEN
    PERFORM tidegate.wake(p_tab, v_root, v_now);
  END IF;
  PERFORM tidegate.use_more(p_tab, p_key, p_ends, e, v_out.used, v_now)
  WHERE v_out.used IS NOT NULL;
  IF NOT v_locked OR (v_out.states = v_kept AND v_out.leases_changed IS NULL
    AND v_out.used IS NULL) THEN
    -- Nothing that a crash may not take back: no disk is waited for, with the root's
    -- row locked.
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN v_out.reply::text;
  END IF;

  IF v_out.leases_changed THEN v_due := tidegate.next_due(p_tab, v_root); END IF;
  v_states := v_out.states;
  FOR v_level IN 1 .. v_depth LOOP
    v_row := v_rows[v_level];
    v_to := e.ends[v_level];
    IF (v_level = 1 AND v_due <> v_row.due)
      OR v_states[v_from : v_to] IS DISTINCT FROM v_kept[v_from : v_to] THEN
      PERFORM tidegate.save_row(p_tab, tidegate.row_name(p_key, p_ends, v_level), p_revision,
        v_now, e.rules[v_from : v_to], coalesce(p_own[v_level], false), v_states[v_from : v_to],
        CASE v_level WHEN 1 THEN v_due ELSE 9223372036854775807 END,
        CASE v_level WHEN 1 THEN v_row.followed ELSE p_revision END);
    END IF;
    v_from := v_to + 1;
  END LOOP;
  RETURN v_out.reply::text;
END $$;
