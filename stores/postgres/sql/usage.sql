-- What was used, hour by hour (`store/src/usage.rs`; what a command changes of it,
-- `store/src/decide/used.rs`). A change is four numbers: the position of the limit in the
-- plan, the level of the key, the instant whose hour it is of, and how much more, or less, was
-- used.

-- The marks of what a lease takes of a limit: twice the level at which it is counted, if it is.
CREATE FUNCTION tidegate.marks(e tidegate.revisions, r tidegate.rule)
RETURNS integer LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN e.usage IS NOT NULL AND r.kind <> 5 THEN 2 * r.level ELSE 0 END $$;

-- What a take, a debit or a lease has charged of those limits that are admitted.
CREATE FUNCTION tidegate.used_by_step(
  e tidegate.revisions, p_step tidegate.step, p_amounts numeric[], p_now bigint)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_used numeric[];
BEGIN
  IF e.usage IS NULL THEN RETURN NULL; END IF;
  FOR i IN 1 .. cardinality(p_step.verdicts) LOOP
    IF p_amounts[i] > 0 AND p_step.verdicts[i] = tidegate.admit()
      AND (e.rules[i]).kind <> 5 THEN
      v_used := v_used || ARRAY[i, (e.rules[i]).level, p_now, p_amounts[i]];
    END IF;
  END LOOP;
  RETURN v_used;
END $$;

-- So much less of a limit was used by a lease, its latest charge first: each where it was
-- counted, which may be another level than the limit has now.
CREATE FUNCTION tidegate.used_less(
  p_lease tidegate.leases, p_position integer, p_uid numeric, p_amount numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_used numeric[];
  v_part numeric;
  v_level numeric;
BEGIN
  FOR s IN REVERSE cardinality(p_lease.shares) - 3 .. 1 BY 4 LOOP
    CONTINUE WHEN p_lease.shares[s] <> p_uid;
    v_part := least(p_lease.shares[s + 1], p_amount);
    p_amount := p_amount - v_part;
    v_level := div(p_lease.shares[s + 3], 2);
    IF v_part > 0 AND v_level > 0 THEN
      v_used := v_used || ARRAY[p_position, v_level, p_lease.granted_at, -v_part];
    END IF;
  END LOOP;
  RETURN v_used;
END $$;

-- What a lease changes that is about to hold another amount of a limit. What is held is not used,
-- and takes the place of what was.
CREATE FUNCTION tidegate.used_by_adjustment(
  e tidegate.revisions, p_lease tidegate.leases, p_position integer, p_before numeric,
  p_after numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_used numeric[];
  r tidegate.rule := e.rules[p_position];
BEGIN
  IF p_after > p_before AND r.kind <> 5 THEN
    RETURN ARRAY[p_position, r.level, p_lease.granted_at, p_after - p_before];
  END IF;
  RETURN tidegate.used_less(p_lease, p_position, r.uid,
    p_before - CASE WHEN r.kind = 5 THEN 0 ELSE p_after END);
END $$;

-- What the end of a lease with these uses (uid, taken, used of each) changes. What its limits
-- gave back when it expired was taken out then.
CREATE FUNCTION tidegate.used_by_end(
  e tidegate.revisions, p_lease tidegate.leases, p_uses numeric[])
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_used numeric[];
  v_position integer;
  v_before numeric;
  r tidegate.rule;
BEGIN
  IF e.usage IS NULL OR NOT p_lease.counted THEN RETURN NULL; END IF;
  FOR u IN 1 .. cardinality(p_uses) - 2 BY 3 LOOP
    v_position := tidegate.position_of(e.rules, p_uses[u]);
    CONTINUE WHEN v_position IS NULL;
    r := e.rules[v_position];
    v_before := CASE WHEN r.refund AND p_lease.stage = 1 THEN 0 ELSE p_uses[u + 1] END;
    IF p_uses[u + 2] < v_before THEN
      v_used := v_used
        || tidegate.used_less(p_lease, v_position, r.uid, v_before - p_uses[u + 2]);
    ELSIF p_uses[u + 2] > v_before AND r.kind <> 5 THEN
      v_used := v_used
        || ARRAY[v_position, r.level, p_lease.granted_at, p_uses[u + 2] - v_before];
    END IF;
  END LOOP;
  RETURN v_used;
END $$;

-- What the expiry of a lease changes: what its limits give back by themselves was not used.
CREATE FUNCTION tidegate.used_by_expiry(e tidegate.revisions, p_lease tidegate.leases)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_used numeric[];
  v_position integer;
  v_level numeric;
BEGIN
  IF e.usage IS NULL OR NOT p_lease.counted THEN RETURN NULL; END IF;
  FOR s IN 1 .. cardinality(p_lease.shares) - 3 BY 4 LOOP
    v_position := tidegate.position_of(e.rules, p_lease.shares[s]);
    v_level := div(p_lease.shares[s + 3], 2);
    IF (e.rules[v_position]).refund AND v_level > 0 THEN
      v_used := v_used
        || ARRAY[v_position, v_level, p_lease.granted_at, -p_lease.shares[s + 1]];
    END IF;
  END LOOP;
  RETURN v_used;
END $$;

-- Notes that so much more, or less, was used of a row and a limit, by their names, in an hour.
-- (What is there is changed where it is: to insert and find that it is there costs twice that.)
CREATE FUNCTION tidegate.note_use(
  p_tab integer, p_row bytea, p_limit text, p_hour integer, p_over_at bigint, p_amount numeric)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tidegate.usage SET over_at = p_over_at,
    amount = greatest(least(amount + p_amount, 9223372036854775807), 0)
  WHERE tab = p_tab AND key = tidegate.short(p_row) AND hour = p_hour AND name = p_limit;
  IF NOT FOUND THEN
    PERFORM tidegate.note_first_use(p_tab, p_row, p_limit, p_hour, p_over_at, p_amount);
  END IF;
END $$;

-- The same, where there is likely to be no record yet.
CREATE FUNCTION tidegate.note_first_use(
  p_tab integer, p_row bytea, p_limit text, p_hour integer, p_over_at bigint, p_amount numeric)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO tidegate.usage AS kept (tab, key, long_key, hour, name, amount, over_at)
  VALUES (p_tab, tidegate.short(p_row), CASE WHEN length(p_row) > 255 THEN p_row END, p_hour,
    p_limit, greatest(p_amount, 0), p_over_at)
  ON CONFLICT (tab, key, hour, name) DO UPDATE SET over_at = excluded.over_at,
    amount = greatest(least(kept.amount + p_amount, 9223372036854775807), 0);
END $$;

-- The hour of an instant, and until when what was used in it is kept.
CREATE FUNCTION tidegate.hour_of(p_at numeric) RETURNS integer LANGUAGE sql IMMUTABLE AS
$$ SELECT greatest(floor(p_at / 3600000000), 0)::integer $$;
CREATE FUNCTION tidegate.over_at(p_hour integer, p_usage numeric) RETURNS bigint
LANGUAGE sql IMMUTABLE AS
$$ SELECT tidegate.later((p_hour + 1) * 3600000000::numeric, p_usage)::bigint $$;

-- Keeps what was used of a key and its ancestors, by whoever holds the lock on their root's
-- row. What is over is not noted again.
CREATE FUNCTION tidegate.use_more(
  p_tab integer, p_key bytea, p_ends integer[], e tidegate.revisions, p_used numeric[],
  p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_over_at bigint;
  v_of record;
BEGIN
  FOR v_of IN
    SELECT tidegate.row_name(p_key, p_ends, p_used[i + 1]::integer) AS row,
      tidegate.hour_of(p_used[i + 2]) AS hour, e.names[p_used[i]::integer] AS name,
      p_used[i + 3] AS amount
    FROM generate_series(1, cardinality(p_used) - 3, 4) AS i
    ORDER BY tidegate.short(tidegate.row_name(p_key, p_ends, p_used[i + 1]::integer)), 2, 3
  LOOP
    v_over_at := tidegate.over_at(v_of.hour, e.usage);
    CONTINUE WHEN v_over_at <= p_now OR v_of.row IS NULL;
    -- Less than nothing was used by no name: so all that was is in one place first.
    IF v_of.amount < 0 THEN
      PERFORM tidegate.move_row_usage(p_tab, tidegate.short(v_of.row), p_now, v_of.hour);
    END IF;
    PERFORM tidegate.note_use(p_tab, v_of.row, v_of.name, v_of.hour, v_over_at, v_of.amount);
  END LOOP;
END $$;

-- Adds to the records what a row says that was used, by whoever holds the lock on that row. What is
-- over is not noted again; and nothing, once its revision is forgotten.
CREATE FUNCTION tidegate.record_row_usage(p_row tidegate.rows, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  e tidegate.revisions;
  v_over_at bigint;
  v_of record;
BEGIN
  SELECT * INTO e FROM tidegate.revisions WHERE tab = p_row.tab AND revision = p_row.revision;
  IF e.usage IS NULL THEN RETURN; END IF;
  v_over_at := tidegate.over_at(p_row.used_hour, e.usage);
  IF v_over_at <= p_now THEN RETURN; END IF;
  -- Whoever locks several records does it in the order of row, hour and name.
  FOR v_of IN SELECT name, amount FROM unnest(e.names, p_row.used) AS used (name, amount)
    WHERE amount <> 0 ORDER BY name
  LOOP
    PERFORM tidegate.note_first_use(p_row.tab, coalesce(p_row.long_key, p_row.key), v_of.name,
      p_row.used_hour, v_over_at, v_of.amount);
  END LOOP;
END $$;

-- Moves to the records what a row has counted, in p_hour if that is said: it is read under its lock, for
-- another may have moved it.
CREATE FUNCTION tidegate.move_row_usage(
  p_tab integer, p_key bytea, p_now bigint, p_hour integer DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
BEGIN
  SELECT * INTO v_row FROM tidegate.rows
  WHERE tab = p_tab AND key = p_key AND used_hour = coalesce(p_hour, used_hour) FOR UPDATE;
  IF FOUND THEN
    UPDATE tidegate.rows SET used_hour = NULL, used = NULL WHERE tab = p_tab AND key = p_key;
    PERFORM tidegate.record_row_usage(v_row, p_now);
  END IF;
END $$;
