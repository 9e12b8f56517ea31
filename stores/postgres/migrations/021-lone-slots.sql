-- A set of slots alone, without levels: semaphores and mutexes. What `tidegate.decide`
-- does of it, with as few statements as there can be, since requests that wait stand behind
-- the lock on the one row. The arithmetic is the cells' own (007-slots.sql). Whatever is
-- out of the ordinary is `tidegate.decide`'s.

-- Whether nothing is to be done about a row of slots before it is used. What a row
-- retains is for `tidegate.decide`.
CREATE FUNCTION tidegate.is_settled(
  r tidegate.rows, p_edition bigint, p_now bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT r.edition = p_edition AND r.followed >= p_edition AND r.own IS NULL
     AND r.due > p_now AND r.latest <= p_now AND r.retained IS NULL
     AND coalesce((r.cells[1]).n[3] <= p_now, true) $$;

-- A decision about them in numbers, as `tidegate.decision` has it.
CREATE FUNCTION tidegate.slots_decision(
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

-- So many slots as a lease; p_amount is no more than p_capacity, and the key such as
-- an index holds it. The rest is as `tidegate.decide` is given it.
CREATE FUNCTION tidegate.lease_slots(
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

-- The end of such a lease: p_keep is for how long it is remembered, if it is to be.
CREATE FUNCTION tidegate.end_slots(
  p_tab integer, p_edition bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_uid bigint, p_keep numeric, p_id numeric, p_ending integer, p_used bigint[],
  p_remember boolean)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
  v_lease tidegate.leases;
  c numeric[];
  v_now bigint;
  v_use numeric[];
  v_due bigint := 9223372036854775807;
BEGIN
  SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab AND key = p_key FOR UPDATE;
  v_now := CASE WHEN p_caller THEN p_now ELSE tidegate.instant(v_row.latest) END;
  c := (v_row.cells[1]).n;
  SELECT * INTO v_lease FROM tidegate.leases
  WHERE tab = p_tab AND root = p_key AND id = p_id AND owner = p_key AND stage = 0;
  IF c IS NULL OR v_lease.shares[1] IS DISTINCT FROM p_uid OR cardinality(v_lease.shares) <> 4
    OR tidegate.is_settled(v_row, p_edition, v_now) IS NOT TRUE THEN
    RETURN tidegate.decide(p_tab, p_edition, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
      '{}', '{}', 4, '{}', 0, p_id, 0, NULL, p_ending, p_used, p_remember, NULL);
  END IF;
  v_use := v_lease.shares[1 : 2]
    || tidegate.used_of(p_ending, p_used[1], v_lease.shares[2]);
  IF p_remember OR v_lease.ask IS NOT NULL THEN
    v_due := tidegate.later(v_now, p_keep);
    UPDATE tidegate.leases SET stage = 2, settlement = 0::numeric || v_use, number = DEFAULT,
      due = v_due
    WHERE tab = p_tab AND root = p_key AND id = p_id;
  ELSE
    DELETE FROM tidegate.leases WHERE tab = p_tab AND root = p_key AND id = p_id;
  END IF;
  IF v_lease.due > v_row.due THEN v_due := least(v_row.due, v_due);
  ELSE v_due := tidegate.next_due(p_tab, p_key);
  END IF;
  c := tidegate.slots_release(c, p_id, v_lease.expires_at, v_now);
  UPDATE tidegate.rows SET latest = v_now, forget_at = tidegate.slots_forget_at(c), due = v_due,
    cells = ARRAY[ROW(c)::tidegate.cell]
  WHERE tab = p_tab AND key = p_key;
  IF v_row.line_until > v_now THEN PERFORM tidegate.wake(p_tab, p_key, v_now); END IF;
  -- A crash may take it back: then the slots are free at the lease's expiry. Whoever
  -- has them before that waits for the disk himself, and for this with it.
  PERFORM set_config('synchronous_commit', 'off', true);
  RETURN (ARRAY[1, v_now, 0, 0]::numeric[] || v_use)::text;
END $$;
