-- The fast paths: sets of plain limits without levels, decided with as few statements as
-- there can be. Whatever is out of the ordinary is `tidegate.decide`'s (verbs.sql).

-- A take from a single bucket with little to make ready: an UPDATE's expressions cost more
-- to be made ready, function by function, than to be executed, and twice where the row
-- is everybody's.

-- `tidegate.take_plain`: a take from a set of one bucket, the most frequent command
-- there is, decided by one UPDATE. Answers null if it is admitted (`take_plain_and_tell`, which is
-- to tell all, and `take_counted` if p_detail is 2: the level after it); `-` and the level if it
-- is refused; or as `tidegate.decide` does. `take_counted` counts in the row what was used.
-- p_weight is what the amount weighs, p_patience how far the clock may stand behind what was
-- written, and then stands still. Whoever calls it sees to it that p_drain is 1024 at most, and
-- p_now, which decides, between 0 and 2^52; p_caller says whether it is the caller's own.
--
-- The clock was read before anybody else's lock is waited for: if `latest` is ahead
-- of it by then, a request that it admits is one that `latest` does. A key that no index
-- holds as it is, any row that is not plain, one with something due, and what an older
-- clock cannot say, is `tidegate.decide`'s.
--
-- (Beyond 2^62, 4611686018427387904, what a row has counted goes to the records, so that no bigint overflows.
-- The hour is written out, as `tidegate.hour_of` has it: a function costs more than the division.)
DO $make$
DECLARE
  v_way record;
BEGIN
  FOR v_way IN
    SELECT * FROM (VALUES
      ('take_plain', '', '', '', ''),
      ('take_plain_and_tell', '', '',
        'RETURNING (tat - latest * p_drain)::text INTO v_answer', ''),
      ('take_counted',
        ', used[1] = used[1] + p_amount',
        'AND used_hour = greatest(latest, p_now) / 3600000000 AND used[1] <= 4611686018427387904',
        'RETURNING CASE WHEN p_detail = 2 THEN (tat - latest * p_drain)::text END INTO v_answer',
        ', true'))
      AS ways (name, counted, in_hour, returned, passed)
  LOOP
    EXECUTE format($text$
CREATE FUNCTION tidegate.%I(
  p_tab integer, p_revision bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_amount bigint, p_detail integer, p_drain bigint, p_brim bigint, p_weight bigint,
  p_patience bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_answer text;
BEGIN
  UPDATE tidegate.rows SET
    tat = greatest(tat, p_now * p_drain) + p_weight,
    latest = greatest(latest, p_now)%s
  WHERE tab = p_tab AND key = p_key AND revision = p_revision
    AND tat + p_weight <= p_now * p_drain + p_brim AND latest <= p_now + p_patience
    AND due > p_now %s
  %s;
  IF FOUND THEN RETURN v_answer; END IF;
  RETURN tidegate.take_slowly(p_tab, p_revision, p_now, p_caller, p_key, p_amount, p_detail,
    p_drain, p_brim, p_weight, p_patience%s);
END $$;
    $text$, v_way.name, v_way.counted, v_way.in_hour, v_way.returned, v_way.passed);
  END LOOP;
END $make$;

-- Has a plain row count the hour of `p_now`: what it has of another goes to the records. False if it counts
-- that hour already, or is no plain row.
CREATE FUNCTION tidegate.begin_hour(
  p_tab integer, p_revision bigint, p_key bytea, p_now bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
  v_hour integer;
BEGIN
  SELECT * INTO v_row FROM tidegate.rows
  WHERE tab = p_tab AND key = p_key AND revision = p_revision AND tat IS NOT NULL FOR UPDATE;
  v_hour := tidegate.hour_of(greatest(v_row.latest, p_now));
  IF NOT FOUND OR (v_row.used_hour = v_hour AND v_row.used[1] <= 4611686018427387904) THEN
    RETURN false;
  END IF;
  IF v_row.used_hour IS NOT NULL THEN PERFORM tidegate.record_row_usage(v_row, p_now); END IF;
  UPDATE tidegate.rows SET used_hour = v_hour, used = '{0}' WHERE tab = p_tab AND key = p_key;
  RETURN true;
END $$;

-- A take that the row does not admit at once.
CREATE FUNCTION tidegate.take_slowly(
  p_tab integer, p_revision bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_amount bigint, p_detail integer, p_drain bigint, p_brim bigint, p_weight bigint,
  p_patience bigint, p_counted boolean DEFAULT false)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_tat bigint;
  v_at bigint;
  v_plain boolean;
BEGIN
  -- A refusal changes nothing, and takes no lock.
  SELECT tat, greatest(p_now, latest),
    revision = p_revision AND tat IS NOT NULL AND latest <= p_now + p_patience
      AND due > greatest(p_now, latest)
  INTO v_tat, v_at, v_plain
  FROM tidegate.rows WHERE tab = p_tab AND key = p_key;
  IF v_plain AND v_tat > v_at * p_drain + p_brim - p_weight THEN
    RETURN '-' || greatest(v_tat - v_at * p_drain, 0);
  END IF;
  -- A key never seen, of a set that is there. (A root that has leases has a row.)
  IF v_plain IS NULL AND length(p_key) < 256 THEN
    INSERT INTO tidegate.rows
      (tab, revision, latest, due, followed, tat, drain, key, used_hour, used)
    SELECT tab, p_revision, p_now, 9223372036854775807, p_revision,
      p_now * p_drain + p_weight, p_drain, p_key,
      CASE WHEN p_counted THEN tidegate.hour_of(p_now) END,
      CASE WHEN p_counted THEN ARRAY[p_amount] END
    FROM tidegate.sets WHERE tab = p_tab
    ON CONFLICT DO NOTHING;
    IF FOUND THEN RETURN CASE WHEN p_detail = 2 THEN p_weight::text END; END IF;
  END IF;
  IF v_plain AND p_counted AND tidegate.begin_hour(p_tab, p_revision, p_key, p_now) THEN
    RETURN tidegate.take_counted(p_tab, p_revision, p_now, p_caller, p_key, p_amount, p_detail,
      p_drain, p_brim, p_weight, p_patience);
  END IF;
  RETURN tidegate.decide(p_tab, p_revision, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
    '{}', '{}', 0, ARRAY[p_amount], p_detail, NULL, 0, NULL, 0, '{}', false, NULL);
END $$;

-- Takes, leases and their ends, of a set of buckets and slots without levels that are
-- nothing else (`PlanLimit::is_simple`): one straight way, since all who ask stand behind
-- the lock on the one row. What it costs is its statements, and then every operator that
-- it comes by, for each is made ready anew in each transaction: so a row and a lease are
-- read by one statement and written by the place where that found them, and what seldom
-- happens is in a function of its own. What a lease gives back, and what slots are, is
-- the states' own (bucket.sql, slots.sql). Whatever is out of the ordinary is
-- `tidegate.decide`'s, and nothing is written before that is known.
--
-- Limits are six numbers each: kind (1 or 5), uid, capacity; drain, weight and brim, which
-- are 0, 1 and the capacity of slots. They are 2^61 at most. The key is such as an index
-- holds it; the rest is as `tidegate.decide` is given it.
--
-- p_counted: the plan counts usage.
--
-- A row is ordinary that this plan wrote, with nothing due. Ended leases are forgotten
-- many at a time, and not at each command: what is due may be so late (100,000
-- microseconds), and a lease that has expired until it is ended. For nothing comes back with
-- it (no limit refunds), and no other command but `tidegate.decide` meets a lease that is not
-- held.

-- A limit as all other functions know it.
CREATE FUNCTION tidegate.plain_rule(p_limits bigint[], p_position integer)
RETURNS tidegate.rule LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n integer := 6 * p_position;
  r tidegate.rule;
BEGIN
  r.level := 1;
  r.kind := p_limits[n - 5];
  r.shadow := false;
  r.capacity := p_limits[n - 3];
  r.drain := p_limits[n - 2];
  r.weight := p_limits[n - 1];
  r.brim := p_limits[n];
  -- What drains in 2^47 microseconds above the brim.
  r.most := r.brim + r.drain * 140737488355328;
  RETURN r;
END $$;

-- How much of a limit is used, a bucket's level or the slots that are held; null if its
-- state is out of the ordinary: some of it is forgiven, or the clock stands behind it.
CREATE FUNCTION tidegate.plain_used(c numeric[], p_kind bigint, p_drain bigint, p_now bigint)
RETURNS numeric LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN c IS NULL THEN 0
     WHEN p_kind = 5 THEN CASE WHEN c[3] > p_now THEN NULL
       WHEN c[4] <= p_now THEN tidegate.slots_held(c, p_now) ELSE c[1] END
     WHEN c[2] > p_now OR (c[3] IS NULL AND cardinality(c) > 2) THEN NULL
     ELSE greatest(c[1] - (p_now - c[2]) * p_drain, 0) END $$;

-- Whether others stand in line before one who asks.
CREATE FUNCTION tidegate.is_kept(
  p_tab integer, p_key bytea, p_turn numeric, p_ahead bigint, p_now bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_first record;
BEGIN
  SELECT turn, came INTO v_first FROM tidegate.waiters
  WHERE tab::bigint = p_tab AND root = p_key AND (alive_until > p_now OR turn = p_turn)
  ORDER BY came, number LIMIT 1;
  -- On a clock that has stepped back, or with a priority, it may be ahead of them.
  RETURN FOUND AND v_first.turn IS DISTINCT FROM p_turn AND (p_turn IS NULL
    OR v_first.came <= tidegate.earlier(p_now, p_ahead)
    OR tidegate.kept_at(p_tab, p_key, ARRAY[p_key], p_turn, p_ahead, p_now) IS NOT NULL);
END $$;

-- As `tidegate.decide` does it.
CREATE FUNCTION tidegate.take_generally(
  p_tab integer, p_revision bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_amounts bigint[], p_detail integer, p_id numeric, p_until bigint, p_idempotency bytea,
  p_turn numeric, p_channel text, p_ahead bigint, p_alive bigint, p_least bigint[])
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN tidegate.decide(p_tab, p_revision, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
    '{}', '{}', CASE WHEN p_id IS NULL THEN 0 ELSE 1 END, p_amounts, p_detail, p_id, p_until,
    p_idempotency, 0, coalesce(p_least, '{}'), false, NULL, p_turn, p_channel, p_ahead, p_alive);
END $$;

-- A take that the row does not admit, or that somebody else is before: the row is ordinary. Of one
-- that may be partial p_amounts are what it takes, of the p_asked that it asks for.
CREATE FUNCTION tidegate.refuse_set(
  p_tab integer, p_revision bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_limits bigint[], p_amounts bigint[], p_detail integer, p_id numeric, p_until bigint,
  p_idempotency bytea, p_turn numeric, p_channel text, p_ahead bigint, p_alive bigint, p_at bigint,
  p_is_kept boolean, p_asked bigint[], p_least bigint[])
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
  v_states tidegate.state[];
  v_step tidegate.step;
  v_rules tidegate.rule[] := '{}';
  v_verdicts numeric[] := '{}';
  v_binding integer := 0;
  v_excess numeric;
  v_reply numeric[];
  n integer;
BEGIN
  SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab AND key = p_key;
  v_states := tidegate.states_of(v_row, cardinality(p_amounts));
  FOR i IN 1 .. cardinality(p_amounts) LOOP
    n := 6 * i;
    v_rules[i] := tidegate.plain_rule(p_limits, i);
    v_verdicts[i] := tidegate.admit();
    v_excess := tidegate.plain_used((v_states[i]).n, p_limits[n - 5], p_limits[n - 2], p_at)
      + p_amounts[i] * p_limits[n - 1] - p_limits[n];
    EXIT WHEN v_excess IS NULL;
    CONTINUE WHEN v_excess <= 0 OR p_amounts[i] = 0;
    v_verdicts[i] := CASE WHEN p_limits[n - 5] = 5
      THEN tidegate.slots_freed((v_states[i]).n, v_excess, p_at)
      ELSE tidegate.later(p_at, tidegate.div_up(v_excess, p_limits[n - 2])) END;
    IF v_binding = 0 OR v_verdicts[i] > v_verdicts[v_binding] THEN v_binding := i; END IF;
  END LOOP;
  -- A lease that is known is an answer that was lost, or a mistake; and one whose session
  -- has ended may make room.
  IF v_excess IS NULL OR (p_id IS NOT NULL AND (
    EXISTS (SELECT FROM tidegate.leases WHERE tab = p_tab AND root = p_key AND id = p_id)
    OR tidegate.free_ended(p_tab, p_key, p_at))) THEN
    RETURN tidegate.take_generally(p_tab, p_revision, p_now, p_caller, p_key, p_asked,
      p_detail, p_id, p_until, p_idempotency, p_turn, p_channel, p_ahead, p_alive, p_least);
  END IF;
  IF p_turn IS NOT NULL THEN
    PERFORM tidegate.stay(p_tab, p_key, p_turn, p_channel, p_ahead, p_alive, p_at,
      ARRAY[p_key], ARRAY[p_key], v_row.line_until);
  END IF;
  -- Nothing that a crash may not take back.
  PERFORM set_config('synchronous_commit', 'off', true);
  v_step := ROW(CASE v_binding WHEN 0 THEN tidegate.later(p_at, 1) ELSE v_verdicts[v_binding] END,
    v_binding, v_verdicts, v_states)::tidegate.step;
  v_reply := tidegate.decision(v_rules, v_step, p_detail, p_at, NULL, NULL);
  IF p_is_kept AND p_turn IS NOT NULL THEN v_reply[1] := 7; END IF;
  RETURN v_reply::text;
END $$;

-- What is told of a take that was admitted, with the standings.
CREATE FUNCTION tidegate.tell_set(
  p_limits bigint[], p_states tidegate.state[], p_now bigint, p_lease numeric[])
RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_rules tidegate.rule[] := '{}';
BEGIN
  FOR i IN 1 .. cardinality(p_states) LOOP
    v_rules[i] := tidegate.plain_rule(p_limits, i);
  END LOOP;
  RETURN tidegate.decision(v_rules, ROW(tidegate.admit(), 0, '{}', p_states)::tidegate.step, 2,
    p_now, NULL, p_lease)::text;
END $$;

-- A bucket's state after a take, where leases may still give some of it back.
CREATE FUNCTION tidegate.low_water_charge(
  c numeric[], p_level numeric, p_weight bigint, p_now bigint, p_leased boolean)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  c[1] := p_level;
  c[2] := p_now;
  c := tidegate.low_water_note(c, p_level, p_now);
  c[1] := p_level + p_weight;
  IF p_leased THEN c[4] := greatest(tidegate.later(c[4], 1), p_now); END IF;
  RETURN c;
END $$;

-- Of each limit as much as fits, and of the least at least, as `tidegate.as_much_as_fits` has it;
-- null where a state is out of the ordinary.
CREATE FUNCTION tidegate.plain_parts(
  p_limits bigint[], p_amounts bigint[], p_least bigint[], p_states tidegate.state[], p_now bigint)
RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_parts bigint[] := p_amounts;
  v_used numeric;
  v_left numeric;
BEGIN
  FOR n IN 6 .. cardinality(p_limits) BY 6 LOOP
    v_used := tidegate.plain_used((p_states[n / 6]).n, p_limits[n - 5], p_limits[n - 2], p_now);
    IF v_used IS NULL THEN RETURN NULL; END IF;
    v_left := CASE WHEN v_used = 0 THEN p_limits[n - 3]
      ELSE greatest(div(p_limits[n] - v_used, p_limits[n - 1]), 0) END;
    v_parts[n / 6] := greatest(least(p_amounts[n / 6], v_left),
      least(coalesce(p_least[n / 6], 0), p_amounts[n / 6]));
  END LOOP;
  RETURN v_parts;
END $$;

-- So much of each limit, if all of it is there: with p_id as a lease, and with p_least of each limit as
-- much as fits, and so much at least.
CREATE FUNCTION tidegate.take_set(
  p_tab integer, p_revision bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_limits bigint[], p_amounts bigint[], p_detail integer, p_id numeric, p_until bigint,
  p_idempotency bytea, p_turn numeric DEFAULT NULL, p_channel text DEFAULT NULL,
  p_ahead bigint DEFAULT 0, p_alive bigint DEFAULT 0, p_counted boolean DEFAULT false,
  p_least bigint[] DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_row_at tid;
  v_now bigint;
  v_until bigint;
  v_amounts bigint[] := p_amounts;
  v_reply text;
  v_latest bigint;
  v_due bigint;
  v_line_until bigint;
  v_forget_at numeric;
  v_is_known boolean;
  v_is_kept boolean;
  v_states tidegate.state[];
  c numeric[];
  v_used numeric;
  v_weight bigint;
  v_fence numeric := 0;
  v_shares numeric[] := '{}';
  v_marks integer := CASE WHEN p_counted THEN 2 ELSE 0 END;
  v_row_hour integer;
  v_row_usage bigint[];
  v_is_new_hour boolean := false;
BEGIN
  SELECT r.ctid, CASE WHEN p_caller IS FALSE THEN tidegate.clock() ELSE p_now END, r.latest, r.due,
    r.line_until, r.forget_at, r.states, r.used_hour, r.used,
    r.revision = p_revision AND r.followed >= p_revision AND r.own IS NULL AND r.retained IS NULL
  INTO v_row_at, v_now, v_latest, v_due, v_line_until, v_forget_at, v_states, v_row_hour,
    v_row_usage, v_is_known
  FROM tidegate.rows r WHERE r.tab = p_tab AND r.key = p_key FOR UPDATE;
  IF (v_is_known AND v_states IS NOT NULL AND v_latest <= v_now AND v_due > v_now - 100000
    AND v_line_until <= v_now AND p_idempotency IS NULL) IS NOT TRUE THEN
    IF v_row_at IS NULL THEN
      -- A key never seen.
      v_now := CASE WHEN p_caller IS FALSE THEN tidegate.clock() ELSE p_now END;
      v_latest := v_now;
      v_due := 9223372036854775807;
      v_line_until := v_now;
      v_is_known := true;
    END IF;
    -- As `tidegate.instant` has it.
    IF v_latest > v_now AND v_latest <= v_now + 10000000 AND p_caller IS NOT TRUE THEN
      v_now := v_latest;
    END IF;
    IF NOT v_is_known OR v_latest > v_now OR v_due <= v_now - 100000 OR (p_idempotency IS NOT NULL
      AND EXISTS (SELECT FROM tidegate.leases
        WHERE tab = p_tab AND idempotency = tidegate.idempotency_of(p_key, p_idempotency)
          AND stage = 0)) THEN
      RETURN tidegate.take_generally(p_tab, p_revision, p_now, p_caller, p_key, p_amounts,
        p_detail, p_id, p_until, p_idempotency, p_turn, p_channel, p_ahead, p_alive, p_least);
    END IF;
    IF v_line_until > v_now THEN
      -- The clock was looked at before the row was locked: others may have come since.
      v_now := CASE WHEN p_caller IS FALSE THEN greatest(v_now, tidegate.clock()) ELSE v_now END;
      v_is_kept := tidegate.is_kept(p_tab, p_key, p_turn, p_ahead, v_now);
    END IF;
    IF v_row_at IS NULL THEN
      v_states := array_fill(ROW(NULL)::tidegate.state, ARRAY[cardinality(p_amounts)]);
    ELSIF v_states IS NULL THEN
      SELECT tidegate.states_of(r, cardinality(p_amounts)), tidegate.forget_at(r)
      INTO v_states, v_forget_at
      FROM tidegate.rows r WHERE r.tab = p_tab AND r.key = p_key;
    END IF;
  END IF;

  v_until := CASE WHEN p_caller THEN p_until
    ELSE tidegate.later(p_until, v_now::numeric - p_now) END;
  IF p_least IS NOT NULL THEN
    v_amounts := coalesce(
      tidegate.plain_parts(p_limits, p_amounts, p_least, v_states, v_now), p_amounts);
  END IF;
  FOR n IN 6 .. cardinality(p_limits) BY 6 LOOP
    c := (v_states[n / 6]).n;
    v_weight := v_amounts[n / 6] * p_limits[n - 1];
    v_used := tidegate.plain_used(c, p_limits[n - 5], p_limits[n - 2], v_now);
    IF v_used IS NULL OR v_is_kept OR (v_weight > 0 AND v_used + v_weight > p_limits[n]) THEN
      RETURN tidegate.refuse_set(p_tab, p_revision, p_now, p_caller, p_key, p_limits, v_amounts,
        p_detail, p_id, p_until, p_idempotency, p_turn, p_channel, p_ahead, p_alive, v_now, v_is_kept,
        p_amounts, p_least);
    ELSIF p_limits[n - 5] = 1 AND v_weight > 0 THEN
      c := CASE WHEN c[4] >= v_now OR (v_used > 0 AND cardinality(c) > 2)
          THEN tidegate.low_water_charge(c, v_used, v_weight, v_now, p_id IS NOT NULL)
        WHEN p_id IS NULL THEN ARRAY[v_used + v_weight, v_now]
        ELSE ARRAY[v_used + v_weight, v_now, v_now, v_now] END;
      v_forget_at := greatest(v_forget_at, c[4] + 1,
        tidegate.later(v_now, tidegate.div_up(c[1], p_limits[n - 2])));
      v_shares := v_shares || ARRAY[p_limits[n - 4], v_amounts[n / 6], c[4], v_marks];
      v_states[n / 6] := ROW(c)::tidegate.state;
    ELSIF p_id IS NOT NULL AND v_weight > 0 THEN
      -- Mostly it is the last to expire, and none has.
      c := CASE WHEN c[4] <= v_now OR c[greatest(cardinality(c) - 2, 4)] > v_until OR c IS NULL
          THEN tidegate.slots_grant(c, p_id, v_weight, v_until, v_now)
        ELSE (ARRAY[v_used + v_weight, least(greatest(c[2] + 1, v_now), 18446744073709551615),
          v_now] || c[4 :]) || ARRAY[v_until, p_id, v_weight] END;
      v_fence := greatest(v_fence, c[2]);
      v_forget_at := greatest(v_forget_at, c[cardinality(c) - 2], tidegate.later(c[2], 1));
      v_shares := v_shares || ARRAY[p_limits[n - 4], v_weight, 0, 0];
      v_states[n / 6] := ROW(c)::tidegate.state;
    END IF;
  END LOOP;

  IF p_counted THEN
    v_is_new_hour := v_row_hour IS DISTINCT FROM greatest(v_now / 3600000000, 0)
      OR 4611686018427387904 < ANY (v_row_usage);
    IF v_is_new_hour THEN
      v_row_hour := greatest(v_now / 3600000000, 0);
      v_row_usage := array_fill(0::bigint, ARRAY[cardinality(p_amounts)]);
    END IF;
    FOR i IN 1 .. cardinality(p_amounts) LOOP
      IF p_limits[6 * i - 5] = 1 THEN v_row_usage[i] := v_row_usage[i] + v_amounts[i]; END IF;
    END LOOP;
  END IF;
  IF v_row_at IS NULL THEN
    -- Of a set that is there. (A root that has leases has a row.)
    INSERT INTO tidegate.rows
      (tab, revision, latest, forget_at, due, followed, key, states, used_hour, used)
    SELECT tab, p_revision, v_now, coalesce(v_forget_at, -9223372036854775808),
      CASE WHEN p_id IS NULL THEN v_due ELSE least(v_due, v_until) END, p_revision, p_key, v_states,
      v_row_hour, v_row_usage
    FROM tidegate.sets WHERE tab = p_tab AND NOT EXISTS (
      SELECT FROM tidegate.leases WHERE tab = p_tab AND root = p_key AND id = p_id)
    ON CONFLICT DO NOTHING;
    v_due := CASE WHEN FOUND THEN v_due END;
  END IF;
  IF p_id IS NOT NULL AND v_due IS NOT NULL THEN
    INSERT INTO tidegate.leases
      (tab, stage, expires_at, due, root, id, fence, owner, ends, idempotency, shares, granted_at,
        counted)
    VALUES (p_tab, 0, v_until, v_until, p_key, p_id, v_fence, p_key, ARRAY[length(p_key)],
      CASE WHEN p_idempotency IS NOT NULL
        THEN tidegate.idempotency_of(p_key, p_idempotency) END, v_shares, v_now,
      p_counted)
    ON CONFLICT (tab, root, id) DO NOTHING;
    v_due := CASE WHEN FOUND THEN least(v_due, v_until) END;
  END IF;
  -- Somebody else has made the row meanwhile, or there is a lease of that id.
  IF v_due IS NULL THEN
    RETURN tidegate.take_generally(p_tab, p_revision, p_now, p_caller, p_key, p_amounts,
      p_detail, p_id, p_until, p_idempotency, p_turn, p_channel, p_ahead, p_alive, p_least);
  END IF;
  IF v_row_at IS NOT NULL THEN
    IF v_is_new_hour THEN
      PERFORM tidegate.record_row_usage(r, v_now) FROM tidegate.rows r
      WHERE r.ctid = v_row_at AND r.used_hour IS NOT NULL;
    END IF;
    UPDATE tidegate.rows SET latest = v_now, forget_at = v_forget_at, due = v_due,
      states = v_states, tat = NULL, drain = NULL, used_hour = v_row_hour, used = v_row_usage
    WHERE ctid = v_row_at;
  END IF;
  IF p_detail = 2 OR p_turn IS NOT NULL THEN
    IF p_turn IS NOT NULL AND v_line_until > v_now THEN
      -- Of slots alone, if none is left: when the first is back by itself.
      PERFORM tidegate.leave_until(p_tab, p_key, p_turn, v_now,
        CASE WHEN cardinality(p_amounts) = 1 AND p_limits[1] = 5 AND c[1] >= p_limits[3]
          THEN c[4] END::bigint);
    END IF;
    IF p_detail = 2 THEN
      v_reply := tidegate.tell_set(p_limits, v_states, v_now,
        CASE WHEN p_id IS NOT NULL THEN ARRAY[p_id, v_until, v_fence, 0, v_now] END);
      -- As `tidegate.decide` tells of one that may be partial.
      RETURN CASE WHEN p_least IS NULL THEN v_reply ELSE concat('{9', rtrim(substr(v_reply, 3), '}'),
        ',', array_to_string(v_amounts, ','), ',', cardinality(v_amounts), '}') END;
    END IF;
  END IF;
  RETURN CASE WHEN p_id IS NULL
    THEN concat('{0,', v_now, ',0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,0}')
    ELSE concat('{0,', v_now, ',0,0,0,0,0,NULL,', p_id, ',', v_until, ',', v_fence, ',0,0,', v_now,
      '}') END;
END $$;

-- The end of a lease of it: p_keep is for how long it is remembered, if it is to be.
CREATE FUNCTION tidegate.end_set(
  p_tab integer, p_revision bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_limits bigint[], p_keep numeric, p_id numeric, p_ending integer, p_used bigint[],
  p_remember boolean, p_counted boolean)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_row_at tid;
  v_lease_at tid;
  v_now bigint;
  v_latest bigint;
  v_due bigint;
  v_line_until bigint;
  v_until bigint;
  v_is_known boolean;
  v_remember boolean;
  v_states tidegate.state[];
  v_shares numeric[];
  v_forget_at numeric;
  v_uses numeric[];
  v_known_until numeric;
  v_used numeric;
  v_waits boolean := false;
  v_granted_at bigint;
  v_is_counted boolean;
  v_row_hour integer;
  v_row_usage bigint[];
  v_more numeric[];
  v_more_of_records numeric[];
  v_at integer;
  c numeric[];
  s integer := 1;
BEGIN
  -- Somebody else may have had the row's lock meanwhile: a lease that was read as it was
  -- before that is not found where it was when it is written.
  SELECT r.ctid, l.ctid, CASE WHEN p_caller IS FALSE THEN tidegate.clock() ELSE p_now END, r.latest,
    r.due, r.line_until, r.states, l.expires_at, l.shares, p_remember OR l.idempotency IS NOT NULL,
    l.granted_at, l.counted AND p_counted, r.used_hour, r.used,
    r.revision = p_revision AND r.followed >= p_revision AND r.own IS NULL
      AND r.retained IS NULL AND l.stage < 2,
    CASE WHEN l.stage = 0 THEN tidegate.later(l.expires_at, p_keep) ELSE l.due END
  INTO v_row_at, v_lease_at, v_now, v_latest, v_due, v_line_until, v_states, v_until, v_shares,
    v_remember, v_granted_at, v_is_counted, v_row_hour, v_row_usage, v_is_known, v_known_until
  FROM tidegate.rows r, tidegate.leases l
  WHERE r.tab = p_tab AND r.key = p_key
    AND l.tab = p_tab AND l.root = p_key AND l.id = p_id AND l.owner = p_key
  FOR UPDATE OF r;
  IF v_latest > v_now AND v_latest <= v_now + 10000000 AND p_caller IS NOT TRUE THEN
    v_now := v_latest;
  END IF;
  -- It may have expired, and be remembered: nothing came back by that. Nothing else was due before it
  -- expired.
  v_is_known := v_is_known AND v_latest <= v_now AND v_known_until > v_now
    AND (v_due > v_now - 100000 OR v_due >= v_until);
  v_uses[1] := (v_until <= v_now)::integer;
  FOR n IN 6 .. cardinality(p_limits) BY 6 LOOP
    EXIT WHEN v_is_known IS NOT TRUE;
    c := (v_states[n / 6]).n;
    IF v_shares[s] = p_limits[n - 4] THEN
      v_used := tidegate.used_of(p_ending, p_used[n / 6], v_shares[s + 1]);
      v_uses := v_uses || ARRAY[v_shares[s], v_shares[s + 1], v_used];
      IF p_limits[n - 5] = 5 THEN
        -- Slots that were a rate when they were taken are counted as one.
        v_is_known := v_shares[s + 3] = 0;
        EXIT WHEN NOT v_is_known;
        v_at := array_position(c, p_id, 5);
        IF c[3] <= v_now AND c[4] > v_now AND v_at % 3 = 2 AND c[v_at - 1] = v_until THEN
          c := (ARRAY[c[1] - c[v_at + 1]] || c[2 : v_at - 2]) || c[v_at + 2 :];
        ELSE
          v_is_known := c[3] <= v_now;
          EXIT WHEN v_is_known IS NOT TRUE;
          c := tidegate.slots_release(c, p_id, v_until, v_now);
        END IF;
        v_states[n / 6] := ROW(c)::tidegate.state;
      ELSE
        v_waits := true;
        v_is_known := v_shares[s + 3] IN (0, 2) AND c[2] <= v_now
          AND (c[3] IS NOT NULL OR cardinality(c) = 2);
        -- What was not counted when it was taken is not counted less.
        IF v_is_counted AND (v_shares[s + 3] = 2 OR v_used > v_shares[s + 1]) THEN
          v_more[n / 6] := v_used - v_shares[s + 1];
        END IF;
        IF v_is_known AND v_used <> v_shares[s + 1] THEN
          c := CASE WHEN v_used < v_shares[s + 1]
            THEN tidegate.bucket_refund(tidegate.plain_rule(p_limits, n / 6), c,
              v_shares[s + 1] - v_used, v_shares[s + 2], v_now)
            ELSE tidegate.bucket_charge(tidegate.plain_rule(p_limits, n / 6), c,
              v_used - v_shares[s + 1], v_now, false) END;
          v_states[n / 6] := ROW(c)::tidegate.state;
        END IF;
      END IF;
      s := s + 4;
    ELSE
      -- What was not taken is charged by `tidegate.decide`.
      v_is_known := p_ending <> 0 OR coalesce(p_used[n / 6], 0) = 0;
    END IF;
    v_forget_at := greatest(v_forget_at, CASE WHEN c IS NULL THEN NULL
      WHEN p_limits[n - 5] = 5 THEN greatest(tidegate.later(c[2], 1),
        CASE WHEN cardinality(c) > 3 THEN c[cardinality(c) - 2] END)
      WHEN c[3] IS NULL AND cardinality(c) > 2
        THEN tidegate.bucket_forget_at(tidegate.plain_rule(p_limits, n / 6), c)
      ELSE greatest(c[4] + 1, tidegate.later(c[2], tidegate.div_up(c[1], p_limits[n - 2]))) END);
  END LOOP;
  -- Shares that are left are of other limits, or more than one of a limit.
  v_is_known := v_is_known AND s > cardinality(v_shares);
  IF v_is_known AND v_remember THEN
    -- That may be before anything is due: then nothing is found, and it is set anew. In
    -- which order those of one instant are forgotten is all the same.
    v_due := least(v_due, tidegate.later(v_now, p_keep));
    UPDATE tidegate.leases SET stage = 2, settlement = v_uses,
      due = tidegate.later(v_now, p_keep)
    WHERE ctid = v_lease_at;
    v_is_known := FOUND;
  ELSIF v_is_known THEN
    DELETE FROM tidegate.leases WHERE ctid = v_lease_at;
    v_is_known := FOUND;
  END IF;
  IF v_is_known AND v_until <= v_now THEN v_due := tidegate.next_due(p_tab, p_key); END IF;
  IF v_is_known IS NOT TRUE THEN
    RETURN tidegate.decide(p_tab, p_revision, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
      '{}', '{}', 4, '{}', 0, p_id, 0, NULL, p_ending, p_used, p_remember, NULL);
  END IF;
  FOR i IN coalesce(array_lower(v_more, 1), 1) .. coalesce(array_upper(v_more, 1), 0) LOOP
    IF v_row_hour = tidegate.hour_of(v_granted_at) AND v_row_usage[i] <= 4611686018427387904
      AND v_row_usage[i] + v_more[i] >= 0 THEN
      v_row_usage[i] := v_row_usage[i] + v_more[i];
    ELSIF v_more[i] <> 0 THEN
      v_more_of_records := v_more_of_records || ARRAY[i, 1, v_granted_at, v_more[i]];
    END IF;
  END LOOP;
  -- A row of which no limit has a state is as never seen.
  UPDATE tidegate.rows SET latest = v_now, due = v_due, states = v_states, used = v_row_usage,
    forget_at = coalesce(v_forget_at, -9223372036854775808)
  WHERE ctid = v_row_at;
  IF v_more_of_records IS NOT NULL THEN
    PERFORM tidegate.use_more(p_tab, p_key, ARRAY[length(p_key)],
      tidegate.revision(p_tab, p_revision), v_more_of_records, v_now);
  END IF;
  IF v_line_until > v_now THEN PERFORM tidegate.wake(p_tab, p_key, v_now); END IF;
  -- A crash may take back that slots were given back: then they are free at the lease's
  -- expiry. Whoever has them before that waits for the disk himself, and for this with it.
  IF NOT v_waits THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  RETURN concat('{1,', v_now, ',', v_uses[1], ',0', substr(v_uses::text, 3));
END $$;
