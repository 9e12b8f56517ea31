-- What is due about leases (`retire` of the memory store, `expire` of
-- `store/src/decide.rs`): by whoever holds the lock on their root's row.

-- When something is to be done about a root's leases next.
CREATE FUNCTION tidegate.next_due(p_tab integer, p_root bytea) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_due bigint;
BEGIN
  SELECT due INTO v_due FROM tidegate.leases
  WHERE tab::bigint = p_tab AND root = p_root ORDER BY due LIMIT 1;
  RETURN coalesce(v_due, 9223372036854775807);
END $$;

-- Gives back, into the rows of its owner, what a lease's limits give back when
-- it expires. (A row that other limits wrote meanwhile is left to them; one that
-- goes by rules of its own goes on by them.)
CREATE FUNCTION tidegate.give_back(
  p_lease tidegate.leases, e tidegate.revisions, p_now bigint, p_caller boolean)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
  v_rules tidegate.rule[];
  v_states tidegate.state[];
  v_key bytea;
  v_position integer;
  r tidegate.rule;
BEGIN
  FOR i IN 1 .. cardinality(p_lease.shares) - 3 BY 4 LOOP
    v_position := tidegate.position_of(e.rules, p_lease.shares[i]);
    CONTINUE WHEN v_position IS NULL OR p_lease.shares[i + 3] % 2 <> 0;
    r := e.rules[v_position];
    CONTINUE WHEN NOT r.refund OR p_lease.ends[r.level] IS NULL;
    v_key := tidegate.row_name(p_lease.owner, p_lease.ends, r.level);
    PERFORM tidegate.carry_row(
      p_lease.tab, v_key, r.level, e.revision, NULL, p_now, p_caller, '{}')
    FROM tidegate.rows WHERE tab = p_lease.tab AND key = tidegate.short(v_key)
      AND revision < e.revision AND own IS NULL;
    SELECT * INTO v_row FROM tidegate.rows
    WHERE tab = p_lease.tab AND key = tidegate.short(v_key)
      AND (revision = e.revision OR (own IS NOT NULL AND revision < e.revision));
    CONTINUE WHEN NOT FOUND;
    v_rules := coalesce(v_row.own, tidegate.rules_at(e.rules, r.level));
    v_states := tidegate.states_of(v_row, cardinality(v_rules));
    v_position := tidegate.position_of(v_rules, r.uid);
    CONTINUE WHEN v_position IS NULL;
    v_states[v_position] := ROW(tidegate.refund(v_rules[v_position], (v_states[v_position]).n,
      p_lease.shares[i + 1], p_lease.shares[i + 2], p_now))::tidegate.state;
    PERFORM tidegate.save_row(p_lease.tab, v_key, v_row.revision, v_row.latest, v_rules,
      v_row.own IS NOT NULL, v_states, v_row.due, v_row.followed);
  END LOOP;
END $$;

-- A state after so much was given back where it was charged, the latest first.
CREATE FUNCTION tidegate.give_back(
  r tidegate.rule, c numeric[], p_shares numeric[], p_amount numeric, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_part numeric;
BEGIN
  FOR s IN REVERSE cardinality(p_shares) - 3 .. 1 BY 4 LOOP
    CONTINUE WHEN p_shares[s] <> r.uid;
    v_part := least(p_shares[s + 1], p_amount);
    p_amount := p_amount - v_part;
    IF v_part > 0 AND p_shares[s + 3] % 2 = 0 THEN
      c := tidegate.refund(r, c, v_part, p_shares[s + 2], p_now);
    END IF;
  END LOOP;
  RETURN c;
END $$;

-- Deals with what is due by a revision of the plan: with so many leases at most. How many
-- more there could have been; if none, that may not be all.
CREATE FUNCTION tidegate.retire(
  p_tab integer, p_root bytea, e tidegate.revisions, p_now bigint, p_caller boolean,
  p_most integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_lease tidegate.leases;
  v_left integer := p_most;
  v_deleted integer;
BEGIN
  WHILE v_left > 0 LOOP
    SELECT * INTO v_lease FROM tidegate.leases
    WHERE tab::bigint = p_tab AND root = p_root AND due <= p_now ORDER BY due, number LIMIT 1;
    EXIT WHEN NOT FOUND;
    IF v_lease.stage <> 0 THEN
      -- Nobody else writes them. By their ids all leases of the root would be read.
      DELETE FROM tidegate.leases WHERE ctid = ANY (ARRAY(
        SELECT place FROM (
          SELECT ctid AS place, stage FROM tidegate.leases
          WHERE tab::bigint = p_tab AND root = p_root AND due <= p_now
          ORDER BY due, number LIMIT v_left) AS first
        WHERE stage <> 0));
      GET DIAGNOSTICS v_deleted = ROW_COUNT;
      v_left := v_left - v_deleted;
    ELSE
      IF e.refunds THEN
        PERFORM tidegate.give_back(v_lease, e, p_now, p_caller);
        PERFORM tidegate.use_more(p_tab, v_lease.owner, v_lease.ends, e,
          tidegate.used_by_expiry(e, v_lease), p_now);
      END IF;
      UPDATE tidegate.leases SET stage = 1, number = DEFAULT,
        due = tidegate.later(v_lease.expires_at, e.keep)
      WHERE tab = p_tab AND root = p_root AND id = v_lease.id;
      v_left := v_left - 1;
    END IF;
  END LOOP;
  RETURN v_left;
END $$;

-- Brings the leases of a root up to an instant: what has expired before a change
-- of limits did so under those of its time. Whether that was all: no call looks at more
-- than so many leases, whatever changed meanwhile, so that none takes long. (What a call has
-- deleted it still goes over to find the next: twice as many take it four times as long.)
CREATE FUNCTION tidegate.catch_up(
  p_tab integer, p_root bytea, p_revision bigint, p_now bigint, p_caller boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
  v_old tidegate.revisions;
  v_new tidegate.revisions;
  v_left integer := 500;
  v_followed bigint;
BEGIN
  SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab AND key = p_root;
  IF v_row.due = 9223372036854775807 THEN
    UPDATE tidegate.rows SET followed = p_revision
    WHERE tab = p_tab AND key = p_root AND followed < p_revision;
    RETURN true;
  END IF;
  v_followed := v_row.followed;
  IF v_followed < p_revision THEN
    v_old := tidegate.revision(p_tab, v_followed);
    FOR v_new IN SELECT * FROM tidegate.revisions
      WHERE tab = p_tab AND revision > v_followed AND revision <= p_revision ORDER BY revision
    LOOP
      v_left := tidegate.retire(p_tab, p_root, v_old,
        tidegate.followed_at(v_new.at, -9223372036854775808, p_now), p_caller, v_left);
      EXIT WHEN v_left = 0;
      v_old := v_new;
      v_followed := v_new.revision;
    END LOOP;
  END IF;
  IF v_left > 0 THEN
    v_left := tidegate.retire(
      p_tab, p_root, tidegate.revision(p_tab, p_revision), p_now, p_caller, v_left);
  END IF;
  UPDATE tidegate.rows SET due = tidegate.next_due(p_tab, p_root), followed = v_followed
  WHERE tab = p_tab AND key = p_root;
  RETURN v_left > 0;
END $$;

-- The advisory lock that a session holds for as long as it lasts.
CREATE FUNCTION tidegate.session_lock(p_session bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS
$$ SELECT (1952801894::bigint << 32) + p_session $$;

-- Whether a session has ended; null without one. Whoever looks shares the lock with others
-- who look: they are not to take each other for the session.
CREATE FUNCTION tidegate.is_over(p_session bigint) RETURNS boolean LANGUAGE sql AS
$$ SELECT pg_try_advisory_xact_lock_shared(tidegate.session_lock(p_session)) $$;

-- Begins a session that ends when this connection does; answers its number.
CREATE FUNCTION tidegate.begin_session() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_session bigint := nextval('tidegate.sessions');
BEGIN
  PERFORM pg_advisory_lock(tidegate.session_lock(v_session));
  RETURN v_session;
END $$;

-- Takes a lease's slots out of the rows of its owner, by whatever rules wrote
-- them, those that a row retains with them.
CREATE FUNCTION tidegate.free_slots(p_lease tidegate.leases, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
  v_rules tidegate.rule[];
  v_states tidegate.state[];
  v_key bytea;
BEGIN
  PERFORM tidegate.move_retained_slots(p_lease.tab, p_lease.owner, p_lease.ends, p_lease.id,
    p_lease.expires_at, NULL, p_now);
  FOR v_level IN 1 .. cardinality(p_lease.ends) LOOP
    v_key := tidegate.row_name(p_lease.owner, p_lease.ends, v_level);
    SELECT * INTO v_row FROM tidegate.rows
    WHERE tab = p_lease.tab AND key = tidegate.short(v_key) AND states IS NOT NULL;
    CONTINUE WHEN NOT FOUND;
    v_rules := coalesce(v_row.own,
      tidegate.rules_at((tidegate.revision(p_lease.tab, v_row.revision)).rules, v_level));
    v_states := v_row.states;
    FOR i IN 1 .. cardinality(v_rules) LOOP
      CONTINUE WHEN (v_rules[i]).kind <> 5 OR (v_states[i]).n IS NULL;
      v_states[i] := ROW(tidegate.slots_release(
        (v_states[i]).n, p_lease.id, p_lease.expires_at, p_now))::tidegate.state;
    END LOOP;
    PERFORM tidegate.save_row(p_lease.tab, v_key, v_row.revision, v_row.latest, v_rules,
      v_row.own IS NOT NULL, v_states, v_row.due, v_row.followed);
  END LOOP;
END $$;

-- Leases under a root whose sessions have ended expire now. Whether there were any that
-- had not: one may be expired for a while before `tidegate.retire` comes to it.
CREATE FUNCTION tidegate.free_ended(p_tab integer, p_root bytea, p_now bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_session bigint;
  v_lease tidegate.leases;
  v_any boolean := false;
BEGIN
  FOR v_session IN SELECT DISTINCT session FROM tidegate.leases
    WHERE tab = p_tab AND root = p_root AND session IS NOT NULL AND stage = 0
      AND expires_at > p_now
  LOOP
    CONTINUE WHEN NOT tidegate.is_over(v_session);
    FOR v_lease IN SELECT * FROM tidegate.leases
      WHERE tab = p_tab AND root = p_root AND session = v_session AND stage = 0
        AND expires_at > p_now
    LOOP
      PERFORM tidegate.free_slots(v_lease, p_now);
      UPDATE tidegate.leases SET expires_at = least(expires_at, p_now), due = least(due, p_now)
      WHERE tab = p_tab AND root = p_root AND id = v_lease.id;
      v_any := true;
    END LOOP;
  END LOOP;
  IF v_any THEN
    UPDATE tidegate.rows SET due = tidegate.next_due(p_tab, p_root)
    WHERE tab = p_tab AND key = p_root;
  END IF;
  RETURN v_any;
END $$;

-- Ends leases under a root that have expired, as any call does: some, so that none takes long.
-- Whether those were all.
CREATE FUNCTION tidegate.end_expired(
  p_tab integer, p_root bytea, p_now bigint, p_caller boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_root bytea := tidegate.short(p_root);
BEGIN
  PERFORM FROM tidegate.rows WHERE tab = p_tab AND key = v_root FOR UPDATE;
  RETURN NOT FOUND OR tidegate.catch_up(p_tab, v_root,
    (SELECT newest FROM tidegate.sets WHERE tab = p_tab),
    CASE WHEN p_caller THEN p_now ELSE tidegate.clock() END, p_caller);
END $$;

-- One step: rows that equal "never seen", leases that are due, and those whose session
-- has ended, of the p_most rows behind a place. It waits for no lock, and one at a time
-- runs; others go away at once. Answers how many rows it looked after, and where to go
-- on: nowhere if that is null. For what is due it has p_micros; a root that has more of
-- it is the first of the next step.
CREATE FUNCTION tidegate.prune(
  p_tab integer, p_key bytea, p_most integer, p_micros bigint,
  OUT pruned integer, OUT next_tab integer, OUT next_key bytea)
LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := tidegate.clock();
  v_end timestamptz := clock_timestamp() + p_micros * interval '1 microsecond';
  v_from_tab integer := p_tab;
  v_from_key bytea := p_key;
  v_to_tab integer;
  v_to_key bytea;
  v_root record;
  v_row tidegate.rows;
  v_done boolean := true;
BEGIN
  pruned := 0;
  IF NOT pg_try_advisory_xact_lock(8388065899374830693) THEN RETURN; END IF;
  SELECT r.tab, r.key INTO next_tab, next_key FROM tidegate.rows r
  WHERE (r.tab, r.key) > (p_tab, p_key) ORDER BY r.tab, r.key OFFSET p_most - 1 LIMIT 1;
  v_to_tab := coalesce(next_tab, 2147483647);
  v_to_key := coalesce(next_key, '');
  -- For as long as a clock may stand still a row stays.
  FOR v_row IN WITH gone AS (
      DELETE FROM tidegate.rows WHERE (tab, key) IN (
        SELECT r.tab, r.key FROM tidegate.rows r
        WHERE (r.tab, r.key) > (p_tab, p_key) AND (r.tab, r.key) <= (v_to_tab, v_to_key)
          AND tidegate.forget_at(r) < v_now - 10000000 AND r.latest < v_now - 10000000
          AND r.due = 9223372036854775807 AND r.line_until <= v_now
        FOR UPDATE SKIP LOCKED)
      RETURNING *)
    SELECT * FROM gone ORDER BY tab, key
  LOOP
    pruned := pruned + 1;
    IF v_row.used_hour IS NOT NULL THEN PERFORM tidegate.record_row_usage(v_row, v_now); END IF;
  END LOOP;
  FOR v_root IN
    SELECT r.tab, r.key, r.due, s.newest
    FROM tidegate.rows r JOIN tidegate.sets s ON s.tab = r.tab
    WHERE (r.tab, r.key) > (p_tab, p_key) AND (r.tab, r.key) <= (v_to_tab, v_to_key)
      AND r.due < 9223372036854775807
    ORDER BY r.tab, r.key
  LOOP
    CONTINUE WHEN v_root.due > v_now AND NOT EXISTS (SELECT FROM tidegate.leases
      WHERE tab = v_root.tab AND root = v_root.key AND session IS NOT NULL AND stage = 0);
    PERFORM FROM tidegate.rows
    WHERE tab = v_root.tab AND key = v_root.key FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    IF tidegate.free_ended(v_root.tab, v_root.key, v_now) OR v_root.due <= v_now THEN
      pruned := pruned + 1;
      LOOP
        v_done := tidegate.catch_up(v_root.tab, v_root.key, v_root.newest, v_now, false);
        EXIT WHEN v_done OR clock_timestamp() > v_end;
      END LOOP;
    END IF;
    IF v_done THEN
      p_tab := v_root.tab;
      p_key := v_root.key;
    END IF;
    IF clock_timestamp() > v_end THEN
      next_tab := p_tab;
      next_key := p_key;
      RETURN;
    END IF;
  END LOOP;
  -- Rows of older revisions, while it is known what their limits were called. They stay locked to the end of
  -- the step: so only some, and last.
  PERFORM tidegate.move_row_usage(old.tab, old.key, v_now) FROM (
    SELECT r.tab, r.key FROM tidegate.rows r JOIN tidegate.sets s ON s.tab = r.tab
    WHERE (r.tab, r.key) > (v_from_tab, v_from_key) AND (r.tab, r.key) <= (v_to_tab, v_to_key)
      AND r.used_hour IS NOT NULL AND r.revision < s.newest
    ORDER BY r.tab, r.key LIMIT 100 FOR UPDATE OF r SKIP LOCKED) AS old;
END $$;

-- Deletes p_most records of usage that are over, those first that have been for longest; how many it looked
-- at. It waits for no lock. A record whose row counts the same hour, and is to be kept for longer, is kept for
-- as long as that.
CREATE FUNCTION tidegate.prune_usage(p_most integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := tidegate.clock();
  v_over tid[];
  v_kept tid[];
  v_until bigint[];
BEGIN
  SELECT array_agg(found.at) FILTER (WHERE found.kept_until IS NULL OR found.kept_until <= v_now),
    array_agg(found.at) FILTER (WHERE found.kept_until > v_now),
    array_agg(found.kept_until) FILTER (WHERE found.kept_until > v_now)
  INTO v_over, v_kept, v_until
  FROM (
    SELECT u.ctid AS at, (
      SELECT tidegate.over_at(r.used_hour, e.usage)
      FROM tidegate.rows r JOIN tidegate.revisions e ON e.tab = r.tab AND e.revision = r.revision
      WHERE r.tab = u.tab AND r.key = u.key AND r.used_hour = u.hour AND e.usage IS NOT NULL)
      AS kept_until
    FROM tidegate.usage u WHERE u.over_at <= v_now ORDER BY u.over_at LIMIT p_most
    FOR UPDATE OF u SKIP LOCKED) AS found;
  DELETE FROM tidegate.usage WHERE ctid = ANY (v_over);
  UPDATE tidegate.usage SET over_at = v_until[array_position(v_kept, ctid)]
  WHERE ctid = ANY (v_kept);
  RETURN coalesce(cardinality(v_over), 0) + coalesce(cardinality(v_kept), 0);
END $$;
