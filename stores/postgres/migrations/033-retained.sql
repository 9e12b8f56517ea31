-- States of limits that the plan at hand does not know (`contract/src/retained.rs`): a row
-- that goes to and fro between servers of different plans retains them, so that no server
-- makes a limit begin anew that it does not know.

-- A cell, and the rule that it was written by.
CREATE TYPE tidegate.retained AS (rule tidegate.rule, n numeric[]);

-- Null where nothing is retained, as in every plain row.
ALTER TABLE tidegate.rows ADD COLUMN retained tidegate.retained[];

-- From when on all of it equals "never seen"; null if there is none.
CREATE FUNCTION tidegate.retained_forget_at(p_retained tidegate.retained[])
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_at numeric;
BEGIN
  FOR i IN 1 .. coalesce(cardinality(p_retained), 0) LOOP
    v_at := greatest(v_at, tidegate.forget_at((p_retained[i]).rule, (p_retained[i]).n));
  END LOOP;
  RETURN v_at;
END $$;

-- The cells of one level, and what it retains.
CREATE TYPE tidegate.carried AS (cells tidegate.cell[], retained tidegate.retained[]);

-- The same carried over from some rules to others: what these do not know goes aside, and
-- what they know comes from there. What is spent goes; of more than 16 what is spent first.
CREATE FUNCTION tidegate.carry(
  p_new tidegate.rule[], p_old tidegate.rule[], p_row tidegate.carried, p_now numeric,
  p_calendars numeric[], p_before integer)
RETURNS tidegate.carried LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_out tidegate.carried;
  v_all tidegate.retained[] := '{}';
  v_known tidegate.retained;
  v_position integer;
  v_at integer;
BEGIN
  v_out.cells := tidegate.adopt_cells(p_new, p_old, p_row.cells, p_now, p_calendars, p_before);
  FOR i IN 1 .. coalesce(cardinality(p_row.retained), 0) LOOP
    v_known := p_row.retained[i];
    CONTINUE WHEN tidegate.position_of(p_old, (v_known.rule).uid) IS NOT NULL;
    v_position := tidegate.position_of(p_new, (v_known.rule).uid);
    IF v_position IS NULL THEN
      v_all := v_all || v_known;
    ELSE
      v_at := 3 * (p_before + v_position);
      v_out.cells[v_position] := ROW(tidegate.adopt(p_new[v_position], v_known.n, v_known.rule,
        p_now, p_calendars[v_at - 2 : v_at]))::tidegate.cell;
    END IF;
  END LOOP;
  FOR i IN 1 .. cardinality(p_old) LOOP
    IF (p_row.cells[i]).n IS NOT NULL
      AND tidegate.position_of(p_new, (p_old[i]).uid) IS NULL THEN
      v_all := v_all || ROW(p_old[i], (p_row.cells[i]).n)::tidegate.retained;
    END IF;
  END LOOP;
  IF cardinality(v_all) > 0 THEN
    SELECT array_agg(ROW(k.rule, k.n)::tidegate.retained ORDER BY k.place) INTO v_out.retained
    FROM (
      SELECT u.rule, u.n, u.place FROM unnest(v_all) WITH ORDINALITY AS u (rule, n, place)
      WHERE tidegate.forget_at(u.rule, u.n) > p_now
      ORDER BY tidegate.forget_at(u.rule, u.n) DESC LIMIT 16) AS k;
  END IF;
  RETURN v_out;
END $$;

-- As before, with what a row retains. A change forgets what it removes, unless the row was
-- written since: then another process goes on by the limits before it.
CREATE OR REPLACE FUNCTION tidegate.carry_row(
  p_tab integer, p_key bytea, p_level integer, p_edition bigint, p_own tidegate.rule[],
  p_now bigint, p_caller boolean, p_calendars numeric[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
  v_new tidegate.editions;
  v_old tidegate.rule[];
  v_rules tidegate.rule[];
  v_carried tidegate.carried;
BEGIN
  SELECT * INTO v_row FROM tidegate.rows WHERE tab = p_tab AND key = tidegate.short(p_key);
  IF NOT FOUND OR (v_row.edition = p_edition AND v_row.own IS NOT DISTINCT FROM p_own) THEN
    RETURN;
  END IF;
  v_old := coalesce(v_row.own,
    tidegate.rules_at((tidegate.edition(p_tab, v_row.edition)).rules, p_level));
  v_carried.cells := tidegate.cells_of(v_row, cardinality(v_old));
  v_carried.retained := v_row.retained;
  IF v_row.edition >= p_edition THEN
    v_new := tidegate.edition(p_tab, p_edition);
    v_rules := coalesce(p_own, tidegate.rules_at(v_new.rules, p_level));
    v_carried := tidegate.carry(v_rules, v_old, v_carried, p_now, p_calendars,
      tidegate.limits_before(v_new.rules, p_level));
    -- All that it retains was there when it was written.
    IF v_carried.retained IS NOT NULL THEN v_row.latest := greatest(v_row.latest, p_now); END IF;
  ELSE
    FOR v_new IN SELECT * FROM tidegate.editions
      WHERE tab = p_tab AND edition > greatest(v_row.edition, p_edition - 65)
        AND edition <= p_edition
      ORDER BY edition
    LOOP
      CONTINUE WHEN v_row.own IS NOT NULL AND v_new.edition < p_edition;
      v_rules := tidegate.rules_at(v_new.rules, p_level);
      IF v_new.edition = p_edition THEN v_rules := coalesce(p_own, v_rules); END IF;
      v_carried := tidegate.carry(v_rules, v_old, v_carried,
        tidegate.moment_of(v_new.at, v_row.latest, p_now, p_caller), v_new.calendars::numeric[],
        tidegate.limits_before(v_new.rules, p_level));
      IF v_new.at >= v_row.latest THEN v_carried.retained := NULL; END IF;
      v_old := v_rules;
    END LOOP;
  END IF;
  IF v_carried.retained IS DISTINCT FROM v_row.retained THEN
    UPDATE tidegate.rows SET retained = v_carried.retained
    WHERE tab = p_tab AND key = tidegate.short(p_key);
  END IF;
  PERFORM tidegate.save_row(p_tab, p_key, p_edition, v_row.latest, v_rules, p_own IS NOT NULL,
    v_carried.cells, v_row.due, v_row.followed);
END $$;

-- As before; a row that retains something is none that is plain, and is kept for as long
-- as that matters.
CREATE OR REPLACE FUNCTION tidegate.save_row(
  p_tab integer, p_key bytea, p_edition bigint, p_latest numeric, p_rules tidegate.rule[],
  p_is_own boolean, p_cells tidegate.cell[], p_due bigint, p_followed bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_short bytea := tidegate.short(p_key);
  v_forget_at numeric := tidegate.row_forget_at(p_rules, p_cells);
  c numeric[] := (p_cells[1]).n;
  v_own tidegate.rule[] := CASE WHEN p_is_own THEN p_rules END;
  v_tat bigint;
  v_drain bigint;
BEGIN
  IF v_forget_at IS NULL THEN
    p_cells := NULL;
    v_forget_at := tidegate.beginning();
  ELSIF NOT p_is_own AND cardinality(p_cells) = 1
    AND tidegate.is_plain(p_rules[1], c, p_latest)
    AND NOT EXISTS (SELECT FROM tidegate.rows WHERE tab = p_tab AND key = v_short
      AND (line_until > p_latest OR retained IS NOT NULL)) THEN
    v_drain := (p_rules[1]).drain;
    v_tat := p_latest * v_drain + c[1];
    p_cells := NULL;
    v_forget_at := NULL;
  END IF;
  UPDATE tidegate.rows SET edition = p_edition, latest = p_latest, due = p_due,
    forget_at = CASE WHEN retained IS NULL THEN v_forget_at
      ELSE greatest(v_forget_at, tidegate.retained_forget_at(retained)) END,
    followed = p_followed, tat = v_tat, drain = v_drain, cells = p_cells, own = v_own
  WHERE tab = p_tab AND key = v_short;
  IF FOUND THEN RETURN; END IF;
  INSERT INTO tidegate.rows
    (tab, edition, latest, forget_at, due, followed, tat, drain, key, long_key, cells, own)
  VALUES (p_tab, p_edition, p_latest, v_forget_at, p_due, p_followed, v_tat, v_drain, v_short,
    CASE WHEN length(p_key) > 255 THEN p_key END, p_cells, v_own);
END $$;

-- As before; what a row retains is for `tidegate.decide`.
CREATE OR REPLACE FUNCTION tidegate.is_settled(
  r tidegate.rows, p_edition bigint, p_now bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT r.edition = p_edition AND r.followed >= p_edition AND r.own IS NULL
     AND r.due > p_now AND r.latest <= p_now AND r.retained IS NULL
     AND coalesce((r.cells[1]).n[3] <= p_now, true) $$;

-- Of what a key's rows retain, slots of a lease are held until another instant, or given
-- back if there is none.
CREATE FUNCTION tidegate.move_retained_slots(
  p_tab integer, p_key bytea, p_ends integer[], p_id numeric, p_expires_at bigint,
  p_until bigint, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_short bytea;
  v_retained tidegate.retained[];
  r tidegate.rule;
  c numeric[];
BEGIN
  FOR v_level IN 1 .. cardinality(p_ends) LOOP
    v_short := tidegate.short(substring(p_key FROM 1 FOR p_ends[v_level]));
    SELECT retained INTO v_retained FROM tidegate.rows WHERE tab = p_tab AND key = v_short;
    FOR i IN 1 .. coalesce(cardinality(v_retained), 0) LOOP
      r := (v_retained[i]).rule;
      CONTINUE WHEN r.kind <> 5;
      c := tidegate.observe(r, (v_retained[i]).n, p_now, '{}');
      IF p_until IS NULL THEN c := tidegate.slots_release(c, p_id, p_expires_at, p_now);
      ELSE c := tidegate.slots_renew(c, p_id, p_expires_at, p_until, p_now);
      END IF;
      v_retained[i] := ROW(r, c)::tidegate.retained;
    END LOOP;
    UPDATE tidegate.rows SET retained = v_retained,
      forget_at = greatest(forget_at, tidegate.retained_forget_at(v_retained))
    WHERE tab = p_tab AND key = v_short AND retained IS NOT NULL;
  END LOOP;
END $$;

-- Whether a lease took of a limit that is not among the rules.
CREATE FUNCTION tidegate.took_of_others(p_rules tidegate.rule[], p_shares numeric[])
RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  FOR s IN 1 .. cardinality(p_shares) - 3 BY 4 LOOP
    IF tidegate.position_of(p_rules, p_shares[s]) IS NULL THEN RETURN true; END IF;
  END LOOP;
  RETURN false;
END $$;

-- As before, with slots that are retained.
CREATE OR REPLACE FUNCTION tidegate.end_lease(
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

-- The same.
CREATE OR REPLACE FUNCTION tidegate.renew(
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
CREATE OR REPLACE FUNCTION tidegate.reset(
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

-- As before, with slots that are retained.
CREATE OR REPLACE FUNCTION tidegate.free_slots(p_lease tidegate.leases, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.rows;
  v_rules tidegate.rule[];
  v_cells tidegate.cell[];
  v_key bytea;
BEGIN
  PERFORM tidegate.move_retained_slots(p_lease.tab, p_lease.owner, p_lease.ends, p_lease.id,
    p_lease.expires_at, NULL, p_now);
  FOR v_level IN 1 .. cardinality(p_lease.ends) LOOP
    v_key := substring(p_lease.owner FROM 1 FOR p_lease.ends[v_level]);
    SELECT * INTO v_row FROM tidegate.rows
    WHERE tab = p_lease.tab AND key = tidegate.short(v_key) AND cells IS NOT NULL;
    CONTINUE WHEN NOT FOUND;
    v_rules := coalesce(v_row.own,
      tidegate.rules_at((tidegate.edition(p_lease.tab, v_row.edition)).rules, v_level));
    v_cells := v_row.cells;
    FOR i IN 1 .. cardinality(v_rules) LOOP
      CONTINUE WHEN (v_rules[i]).kind <> 5 OR (v_cells[i]).n IS NULL;
      v_cells[i] := ROW(tidegate.slots_release(
        (v_cells[i]).n, p_lease.id, p_lease.expires_at, p_now))::tidegate.cell;
    END LOOP;
    PERFORM tidegate.save_row(p_lease.tab, v_key, v_row.edition, v_row.latest, v_rules,
      v_row.own IS NOT NULL, v_cells, v_row.due, v_row.followed);
  END LOOP;
END $$;
