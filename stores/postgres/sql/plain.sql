-- The fast paths: sets of plain limits without levels, decided with as few statements as
-- there can be. Whatever is out of the ordinary is `tidegate.decide`'s (verbs.sql).

-- A take from a lone bucket with little to make ready: an UPDATE's expressions cost more
-- to be made ready, function by function, than to be executed, and twice where the row
-- is everybody's.

-- `tidegate.take_plain`: a take from a set of one bucket, the most frequent command
-- there is, decided by one UPDATE. Answers null if it is admitted (its twin, which is
-- to tell all: the level after it); `-` and the level if it is refused; or as
-- `tidegate.decide` does. p_weight is what the amount weighs, p_patience how far the
-- clock may stand behind what was written, and then stands still. Whoever calls it
-- sees to it that p_drain is 1024 at most, and p_now, which decides, between 0 and
-- 2^52; p_caller says whether it is the caller's own.
--
-- The clock was read before anybody else's lock is waited for: if `latest` is ahead
-- of it by then, an ask that it admits is one that `latest` does. A key that no index
-- holds as it is, any row that is not plain, one with something due, and what an older
-- clock cannot say, is `tidegate.decide`'s.
DO $make$
DECLARE
  v_twin record;
BEGIN
  FOR v_twin IN
    SELECT * FROM (VALUES ('take_plain', ''), ('take_plain_and_tell',
      'RETURNING (tat - latest * p_drain)::text INTO v_answer')) AS twins (name, telling)
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
    latest = greatest(latest, p_now)
  WHERE tab = p_tab AND key = p_key AND revision = p_revision
    AND tat + p_weight <= p_now * p_drain + p_brim AND latest <= p_now + p_patience
    AND due > p_now
  %s;
  IF FOUND THEN RETURN v_answer; END IF;
  RETURN tidegate.take_slowly(p_tab, p_revision, p_now, p_caller, p_key, p_amount, p_detail,
    p_drain, p_brim, p_weight, p_patience);
END $$
    $text$, v_twin.name, v_twin.telling);
  END LOOP;
END $make$;

-- A take that the row does not admit at once.
CREATE FUNCTION tidegate.take_slowly(
  p_tab integer, p_revision bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_amount bigint, p_detail integer, p_drain bigint, p_brim bigint, p_weight bigint,
  p_patience bigint)
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
    INSERT INTO tidegate.rows (tab, revision, latest, due, followed, tat, drain, key)
    SELECT tab, p_revision, p_now, 9223372036854775807, p_revision,
      p_now * p_drain + p_weight, p_drain, p_key
    FROM tidegate.sets WHERE tab = p_tab
    ON CONFLICT DO NOTHING;
    IF FOUND THEN RETURN CASE WHEN p_detail = 2 THEN p_weight::text END; END IF;
  END IF;
  RETURN tidegate.decide(p_tab, p_revision, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
    '{}', '{}', 0, ARRAY[p_amount], p_detail, NULL, 0, NULL, 0, '{}', false, NULL);
END $$;

-- Takes, leases and their ends, of a set of buckets and slots without levels that are
-- nothing else (`PlanLimit::is_plain`). What `tidegate.decide` does of it with as few
-- statements as there can be, since all who ask stand behind the lock on the one row.
-- What a lease gives back, and what slots are, is the cells' own (bucket.sql,
-- slots.sql). Whatever is out of the ordinary is `tidegate.decide`'s.
--
-- Limits are six numbers each: kind (1 or 5), uid, capacity; of a bucket drain, weight
-- and brim. They are 2^61 at most. The key is such as an index holds it; the rest is as
-- `tidegate.decide` is given it.

-- Whether nothing is to be done about a row before it is used. Ended leases are forgotten
-- many at a time, and not at each command: what is due may be so late (microseconds).
-- For nothing comes back with it (no limit refunds), and no command but
-- `tidegate.decide` meets a lease that is not held.
CREATE FUNCTION tidegate.is_settled(
  r tidegate.rows, p_revision bigint, p_now bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT r.revision = p_revision AND r.followed >= p_revision AND r.own IS NULL
     AND r.due > p_now - 100000 AND r.latest <= p_now AND r.retained IS NULL $$;

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

-- A bucket's cell at the latest instant that it knows; what is out of the ordinary about
-- it is null: some of it is forgiven, or the clock stands behind it.
CREATE FUNCTION tidegate.plain_level(c numeric[], p_drain bigint, p_now bigint)
RETURNS numeric LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN c IS NULL THEN 0
     WHEN c[2] > p_now OR (c[3] IS NULL AND cardinality(c) > 2) THEN NULL
     ELSE greatest(c[1] - (p_now - c[2]) * p_drain, 0) END $$;

-- So much of each limit, if all of it is there: with p_id as a lease.
CREATE FUNCTION tidegate.take_set(
  p_tab integer, p_revision bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_limits bigint[], p_amounts bigint[], p_detail integer, p_id numeric, p_until bigint,
  p_ask bytea, p_turn numeric DEFAULT NULL, p_channel text DEFAULT NULL,
  p_ahead bigint DEFAULT 0, p_alive bigint DEFAULT 0)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
  v_cells tidegate.cell[];
  c numeric[];
  v_now bigint;
  v_until numeric;
  v_count integer := cardinality(p_amounts);
  v_levels numeric[] := '{}';
  v_step tidegate.step;
  v_rules tidegate.rule[] := '{}';
  v_verdicts numeric[] := '{}';
  v_binding integer := 0;
  v_excess numeric;
  v_ordinary boolean;
  v_place numeric;
  v_shares numeric[] := '{}';
  v_fence numeric := 0;
  v_forget_at numeric;
  v_reply numeric[];
  v_first record;
  v_is_kept boolean := false;
  n integer;
BEGIN
  SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab AND key = p_key FOR UPDATE;
  -- A key never seen, of a set that is there.
  IF NOT FOUND AND EXISTS (SELECT FROM tidegate.sets WHERE tab = p_tab) THEN
    v_row := tidegate.lock_root(p_tab, p_key, p_revision);
  END IF;
  v_now := CASE WHEN p_caller THEN p_now ELSE tidegate.instant(v_row.latest) END;
  v_cells := coalesce(v_row.cells, tidegate.cells_of(v_row, v_count));
  v_ordinary := tidegate.is_settled(v_row, p_revision, v_now) IS TRUE
    AND (p_ask IS NULL OR NOT EXISTS (SELECT FROM tidegate.leases
      WHERE tab = p_tab AND ask = tidegate.ask_of(p_key, p_ask) AND stage = 0));
  IF v_ordinary AND v_row.line_until > v_now THEN
    SELECT turn, came INTO v_first FROM tidegate.waiters
    WHERE tab::bigint = p_tab AND root = p_key AND (alive_until > v_now OR turn = p_turn)
    ORDER BY came, number LIMIT 1;
    -- On a clock that has stepped back, or with a priority, it may be ahead of them.
    v_is_kept := FOUND AND v_first.turn IS DISTINCT FROM p_turn AND (p_turn IS NULL
      OR v_first.came <= tidegate.earlier(v_now, p_ahead)
      OR tidegate.kept_at(p_tab, p_key, ARRAY[p_key], p_turn, p_ahead, v_now) IS NOT NULL);
  END IF;

  FOR i IN 1 .. CASE WHEN v_ordinary THEN v_count ELSE 0 END LOOP
    n := 6 * i;
    c := (v_cells[i]).n;
    IF p_amounts[i] = 0 THEN
      -- A clock that stands behind a limit is noted, whatever is asked for.
      v_excess := CASE WHEN c[CASE p_limits[n - 5] WHEN 1 THEN 2 ELSE 3 END] > v_now
        THEN NULL ELSE 0 END;
    ELSIF p_limits[n - 5] = 1 THEN
      v_levels[i] := tidegate.plain_level(c, p_limits[n - 2], v_now);
      v_excess := v_levels[i] + p_amounts[i] * p_limits[n - 1] - p_limits[n];
    ELSE
      v_excess := CASE WHEN c IS NULL THEN 0 WHEN c[3] <= v_now THEN
        tidegate.slots_held(c, v_now) END + p_amounts[i] - p_limits[n - 3];
    END IF;
    IF v_excess > 0 THEN
      v_verdicts[i] := CASE WHEN p_limits[n - 5] = 5
        THEN tidegate.slots_freed(c, v_excess, v_now)
        ELSE tidegate.later(v_now, tidegate.div_up(v_excess, p_limits[n - 2])) END;
      IF v_binding = 0 OR v_verdicts[i] > v_verdicts[v_binding] THEN v_binding := i; END IF;
    ELSIF v_excess IS NULL THEN
      v_ordinary := false;
      EXIT;
    END IF;
  END LOOP;

  -- A lease that is known is an answer that was lost, or a mistake.
  IF NOT v_ordinary OR (p_id IS NOT NULL AND (v_is_kept OR v_binding > 0) AND EXISTS (
    SELECT FROM tidegate.leases WHERE tab = p_tab AND root = p_key AND id = p_id)) THEN
    RETURN tidegate.decide(p_tab, p_revision, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
      '{}', '{}', CASE WHEN p_id IS NULL THEN 0 ELSE 1 END, p_amounts, p_detail, p_id, p_until,
      p_ask, 0, '{}', false, NULL, p_turn, p_channel, p_ahead, p_alive);
  END IF;

  IF v_is_kept OR v_binding > 0 THEN
    IF p_id IS NOT NULL AND tidegate.free_ended(p_tab, p_key, v_now) THEN
      RETURN tidegate.take_set(p_tab, p_revision, p_now, p_caller, p_key, p_limits, p_amounts,
        p_detail, p_id, p_until, p_ask, p_turn, p_channel, p_ahead, p_alive);
    END IF;
    IF p_turn IS NOT NULL THEN
      PERFORM tidegate.stay(p_tab, p_key, p_turn, p_channel, p_ahead, p_alive, v_now,
        ARRAY[p_key], ARRAY[p_key], v_row.line_until);
    END IF;
    -- Nothing that a crash may not take back.
    PERFORM set_config('synchronous_commit', 'off', true);
    v_step := ROW(coalesce(v_verdicts[v_binding], tidegate.later(v_now, 1)), v_binding,
      v_verdicts, v_cells)::tidegate.step;
    FOR i IN 1 .. v_count LOOP
      v_rules[i] := tidegate.plain_rule(p_limits, i);
      v_step.verdicts[i] := coalesce(v_verdicts[i], tidegate.admit());
    END LOOP;
    v_reply := tidegate.decision(v_rules, v_step, p_detail, v_now, NULL, NULL);
    IF v_is_kept AND p_turn IS NOT NULL THEN v_reply[1] := 7; END IF;
    RETURN v_reply::text;
  END IF;

  v_until := CASE WHEN p_caller THEN p_until
    ELSE tidegate.later(p_until, v_now::numeric - p_now) END;
  v_forget_at := v_row.forget_at;
  FOR i IN 1 .. v_count LOOP
    CONTINUE WHEN p_amounts[i] = 0;
    n := 6 * i;
    c := (v_cells[i]).n;
    v_place := 0;
    IF p_limits[n - 5] = 1 THEN
      IF c[4] >= v_now OR (cardinality(c) > 2 AND v_levels[i] > 0) THEN
        -- Leases may still give some of it back.
        c[1] := v_levels[i];
        c[2] := v_now;
        c := tidegate.lows_note(c, v_levels[i], v_now);
        IF p_id IS NOT NULL THEN c[4] := greatest(tidegate.later(c[4], 1), v_now); END IF;
      ELSIF p_id IS NULL THEN
        c := ARRAY[0, v_now];
      ELSE
        c := ARRAY[0, v_now, v_now, v_now];
      END IF;
      c[1] := v_levels[i] + p_amounts[i] * p_limits[n - 1];
      v_place := c[4];
      v_forget_at := greatest(v_forget_at, c[4] + 1,
        tidegate.later(v_now, tidegate.div_up(c[1], p_limits[n - 2])));
    ELSE
      CONTINUE WHEN p_id IS NULL;
      c := tidegate.slots_grant(c, p_id, p_amounts[i], v_until, v_now);
      v_fence := greatest(v_fence, c[2]);
      v_forget_at := greatest(v_forget_at, tidegate.slots_forget_at(c));
    END IF;
    v_cells[i] := ROW(c)::tidegate.cell;
    v_shares := v_shares || ARRAY[p_limits[n - 4], p_amounts[i], v_place, 0];
  END LOOP;
  IF p_id IS NOT NULL THEN
    INSERT INTO tidegate.leases
      (tab, stage, expires_at, due, root, id, fence, owner, ends, ask, shares, granted_at)
    VALUES (p_tab, 0, v_until, v_until, p_key, p_id, v_fence, p_key, ARRAY[length(p_key)],
      CASE WHEN p_ask IS NOT NULL THEN tidegate.ask_of(p_key, p_ask) END, v_shares, v_now)
    ON CONFLICT (tab, root, id) DO NOTHING;
    IF NOT FOUND THEN
      RETURN tidegate.decide(p_tab, p_revision, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
        '{}', '{}', 1, p_amounts, p_detail, p_id, p_until, p_ask, 0, '{}', false, NULL, p_turn,
        p_channel, p_ahead, p_alive);
    END IF;
  END IF;
  UPDATE tidegate.rows SET latest = v_now, forget_at = v_forget_at,
    due = CASE WHEN p_id IS NULL THEN due ELSE least(due, v_until) END, cells = v_cells,
    tat = NULL, drain = NULL
  WHERE tab = p_tab AND key = p_key;
  IF p_turn IS NOT NULL AND v_row.line_until > v_now THEN
    -- Of slots alone, if none is left: when the first is back by itself.
    PERFORM tidegate.leave_until(p_tab, p_key, p_turn, v_now,
      CASE WHEN v_count = 1 AND p_limits[1] = 5 AND c[1] >= p_limits[3] THEN c[4] END::bigint);
  END IF;
  IF p_detail < 2 THEN
    RETURN CASE WHEN p_id IS NULL THEN
      ARRAY[0, v_now, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0]::text
      ELSE ARRAY[0, v_now, 0, 0, 0, 0, 0, NULL, p_id, v_until, v_fence, 0, 0, v_now]::text END;
  END IF;
  v_step := ROW(tidegate.admit(), 0, '{}', v_cells)::tidegate.step;
  FOR i IN 1 .. v_count LOOP v_rules[i] := tidegate.plain_rule(p_limits, i); END LOOP;
  RETURN tidegate.decision(v_rules, v_step, p_detail, v_now, NULL,
    CASE WHEN p_id IS NOT NULL THEN ARRAY[p_id, v_until, v_fence, 0, v_now] END)::text;
END $$;

-- The end of a lease of it: p_keep is for how long it is remembered, if it is to be.
CREATE FUNCTION tidegate.end_set(
  p_tab integer, p_revision bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_limits bigint[], p_keep numeric, p_id numeric, p_ending integer, p_used bigint[],
  p_remember boolean)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
  v_lease tidegate.leases;
  v_cells tidegate.cell[];
  c numeric[];
  v_now bigint;
  v_due bigint := 9223372036854775807;
  v_forget_at numeric;
  v_ordinary boolean;
  v_uses numeric[] := '{}';
  v_uid numeric;
  v_taken numeric;
  v_used numeric;
  v_waits boolean := false;
  n integer;
  s integer := 1;
BEGIN
  SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab AND key = p_key FOR UPDATE;
  v_now := CASE WHEN p_caller THEN p_now ELSE tidegate.instant(v_row.latest) END;
  v_cells := v_row.cells;
  SELECT * INTO v_lease FROM tidegate.leases
  WHERE tab = p_tab AND root = p_key AND id = p_id AND owner = p_key AND stage = 0;
  v_ordinary := FOUND AND v_lease.expires_at > v_now
    AND tidegate.is_settled(v_row, p_revision, v_now) IS TRUE;
  FOR i IN 1 .. cardinality(p_limits) / 6 LOOP
    EXIT WHEN v_ordinary IS NOT TRUE;
    n := 6 * i;
    c := (v_cells[i]).n;
    v_uid := p_limits[n - 4];
    IF v_lease.shares[s] = v_uid THEN
      v_taken := v_lease.shares[s + 1];
      v_used := tidegate.used_of(p_ending, p_used[i], v_taken);
      v_uses := v_uses || ARRAY[v_uid, v_taken, v_used];
      IF p_limits[n - 5] = 5 THEN
        v_ordinary := c[3] <= v_now;
        EXIT WHEN v_ordinary IS NOT TRUE;
        c := tidegate.slots_release(c, p_id, v_lease.expires_at, v_now);
      ELSE
        v_waits := true;
        v_ordinary := c IS NOT NULL AND v_lease.shares[s + 3] = 0
          AND tidegate.plain_level(c, p_limits[n - 2], v_now) IS NOT NULL;
        EXIT WHEN NOT v_ordinary;
        IF v_used < v_taken THEN
          c := tidegate.bucket_refund(tidegate.plain_rule(p_limits, i), c, v_taken - v_used,
            v_lease.shares[s + 2], v_now);
        ELSIF v_used > v_taken THEN
          c := tidegate.bucket_charge(tidegate.plain_rule(p_limits, i), c, v_used - v_taken,
            v_now, false);
        END IF;
      END IF;
      v_cells[i] := ROW(c)::tidegate.cell;
      s := s + 4;
    ELSE
      -- What was not taken is charged by `tidegate.decide`.
      v_ordinary := p_ending <> 0 OR coalesce(p_used[i], 0) = 0;
    END IF;
    CONTINUE WHEN c IS NULL;
    v_forget_at := greatest(v_forget_at, CASE
      WHEN p_limits[n - 5] = 5 THEN tidegate.slots_forget_at(c)
      WHEN c[3] IS NULL AND cardinality(c) > 2
        THEN tidegate.bucket_forget_at(tidegate.plain_rule(p_limits, i), c)
      ELSE greatest(c[4] + 1, tidegate.later(c[2], tidegate.div_up(c[1], p_limits[n - 2]))) END);
  END LOOP;
  -- Shares that are left are of other limits, or more than one of a limit.
  IF v_ordinary IS NOT TRUE OR s <= cardinality(v_lease.shares) THEN
    RETURN tidegate.decide(p_tab, p_revision, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
      '{}', '{}', 4, '{}', 0, p_id, 0, NULL, p_ending, p_used, p_remember, NULL);
  END IF;
  IF p_remember OR v_lease.ask IS NOT NULL THEN
    v_due := tidegate.later(v_now, p_keep);
    UPDATE tidegate.leases SET stage = 2, settlement = 0::numeric || v_uses, number = DEFAULT,
      due = v_due
    WHERE tab = p_tab AND root = p_key AND id = p_id;
  ELSE
    DELETE FROM tidegate.leases WHERE tab = p_tab AND root = p_key AND id = p_id;
  END IF;
  -- That may be before anything is due: then nothing is found, and it is set anew.
  UPDATE tidegate.rows SET latest = v_now, forget_at = v_forget_at, due = least(due, v_due),
    cells = v_cells
  WHERE tab = p_tab AND key = p_key;
  IF v_row.line_until > v_now THEN PERFORM tidegate.wake(p_tab, p_key, v_now); END IF;
  -- A crash may take back that slots were given back: then they are free at the lease's
  -- expiry. Whoever has them before that waits for the disk himself, and for this with it.
  IF NOT v_waits THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  RETURN (ARRAY[1, v_now, 0, 0]::numeric[] || v_uses)::text;
END $$;
