-- A plain row, of one bucket without lows, is one number: `tat`, the instant at
-- which the bucket will be empty, in parts of a microsecond, of which one has
-- `drain` (GCRA's theoretical arrival time: ITU-T I.371, annex A). Its level at
-- `latest`, by which it was written, is `tat - latest * drain`, not below 0. Less is
-- computed and written for a take than of a level and its instant: an UPDATE's
-- expressions are made ready each time it is executed, and that costs more than
-- executing them.
ALTER TABLE tidegate.rows ADD COLUMN tat bigint, ADD COLUMN drain bigint,
  -- Null of a plain row, whose `tat` says it.
  ALTER COLUMN forget_at DROP NOT NULL;
UPDATE tidegate.rows SET level = NULL, at = NULL,
  cells = ARRAY[ROW(ARRAY[level, at]::numeric[])::tidegate.cell]
WHERE level IS NOT NULL;
ALTER TABLE tidegate.rows DROP COLUMN level, DROP COLUMN at;

-- From when on a row equals one never seen.
CREATE FUNCTION tidegate.forget_at(p_row tidegate.rows) RETURNS numeric
LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(p_row.forget_at, tidegate.div_up(p_row.tat, p_row.drain)) $$;

-- The cells of a row whose plan has so many limits at its level.
CREATE OR REPLACE FUNCTION tidegate.cells_of(p_row tidegate.rows, p_width integer)
RETURNS tidegate.cell[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_row.tat IS NOT NULL THEN
    RETURN ARRAY[ROW(ARRAY[
      greatest(p_row.tat - p_row.latest * p_row.drain, 0), p_row.latest]::numeric[])::tidegate.cell];
  END IF;
  IF p_row.cells IS NOT NULL THEN RETURN p_row.cells; END IF;
  RETURN array_fill(ROW(NULL)::tidegate.cell, ARRAY[p_width]);
END $$;

-- Whether a bucket by this rule, with this cell, can be a plain row written at an
-- instant: the numbers of `tidegate.take_bucket` stay within 63 bits until 2112.
CREATE FUNCTION tidegate.is_plain(r tidegate.rule, c numeric[], p_latest numeric)
RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT r.kind = 1 AND cardinality(c) = 2 AND c[2] = p_latest
     AND c[1] < 4611686018427387904 AND r.drain <= 1024
     AND p_latest BETWEEN 0 AND 4503599627370496 $$;

-- Writes a row: its cells, by the rules of its level, which are its own or not.
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
    AND tidegate.is_plain(p_rules[1], c, p_latest) THEN
    v_drain := (p_rules[1]).drain;
    v_tat := p_latest * v_drain + c[1];
    p_cells := NULL;
    v_forget_at := NULL;
  END IF;
  UPDATE tidegate.rows SET edition = p_edition, latest = p_latest, forget_at = v_forget_at,
    due = p_due, followed = p_followed, tat = v_tat, drain = v_drain, cells = p_cells,
    own = v_own
  WHERE tab = p_tab AND key = v_short;
  IF FOUND THEN RETURN; END IF;
  INSERT INTO tidegate.rows
    (tab, edition, latest, forget_at, due, followed, tat, drain, key, long_key, cells, own)
  VALUES (p_tab, p_edition, p_latest, v_forget_at, p_due, p_followed, v_tat, v_drain, v_short,
    CASE WHEN length(p_key) > 255 THEN p_key END, p_cells, v_own);
END $$;

-- A take from a set of one bucket: the most frequent command there is, decided by
-- one UPDATE. Answers `admit`; if all is to be said, `+` and the level after it;
-- `-` and the level if it is refused; or as `tidegate.decide` does. p_weight is what
-- the amount weighs, p_patience how far the clock may stand behind what was written,
-- and then stands still. Whoever calls it sees to it that p_drain is 1024 at most,
-- and p_now, if it decides, between 0 and 2^52.
--
-- The clock is read before anybody else's lock is waited for: if `latest` is ahead
-- of it by then, an ask that it admits is one that `latest` does. A key that no
-- index holds as it is, any row that is not plain, one for which somebody waits, and
-- what an older clock cannot say, is `tidegate.decide`'s.
CREATE FUNCTION tidegate.take_bucket(
  p_tab integer, p_edition bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_amount bigint, p_detail integer, p_drain bigint, p_brim bigint, p_weight bigint,
  p_patience bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := CASE WHEN p_caller THEN p_now ELSE tidegate.clock() END;
  v_tat bigint;
  v_at bigint;
  v_plain boolean;
BEGIN
  UPDATE tidegate.rows SET
    tat = greatest(tat, v_now * p_drain) + p_weight,
    latest = greatest(latest, v_now)
  WHERE tab = p_tab AND key = p_key AND edition = p_edition
    AND tat <= v_now * p_drain + p_brim - p_weight AND latest <= v_now + p_patience
    AND due > v_now AND line_until <= v_now
  RETURNING tat, latest INTO v_tat, v_at;
  IF FOUND THEN
    IF p_detail < 2 THEN RETURN 'admit'; END IF;
    RETURN '+' || v_tat - v_at * p_drain;
  END IF;
  -- A refusal changes nothing, and takes no lock.
  SELECT tat, greatest(v_now, latest), edition = p_edition AND tat IS NOT NULL
      AND latest <= v_now + p_patience AND due > greatest(v_now, latest)
      AND line_until <= greatest(v_now, latest)
  INTO v_tat, v_at, v_plain
  FROM tidegate.rows WHERE tab = p_tab AND key = p_key;
  IF v_plain AND v_tat > v_at * p_drain + p_brim - p_weight THEN
    RETURN '-' || greatest(v_tat - v_at * p_drain, 0);
  END IF;
  -- A key never seen. (A root that has leases has a row.)
  IF v_plain IS NULL AND length(p_key) < 256 THEN
    INSERT INTO tidegate.rows (tab, edition, latest, due, followed, tat, drain, key)
    VALUES (p_tab, p_edition, v_now, 9223372036854775807, p_edition,
      v_now * p_drain + p_weight, p_drain, p_key)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
      IF p_detail < 2 THEN RETURN 'admit'; END IF;
      RETURN '+' || p_weight;
    END IF;
  END IF;
  RETURN tidegate.decide(p_tab, p_edition, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
    '{}', '{}', 0, ARRAY[p_amount], p_detail, NULL, 0, NULL, 0, '{}', false, NULL);
END $$;

-- Of processes that were started before this version.
CREATE OR REPLACE FUNCTION tidegate.decide_bucket(
  p_tab integer, p_edition bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_amount bigint, p_detail integer, p_drain bigint, p_unit bigint, p_brim bigint,
  p_weight bigint, p_patience bigint)
RETURNS text LANGUAGE sql AS $$
  SELECT tidegate.decide(p_tab, p_edition, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
    '{}', '{}', 0, ARRAY[p_amount], p_detail, NULL, 0, NULL, 0, '{}', false, NULL)
$$;
DROP FUNCTION tidegate.plain_level, tidegate.plain_standing;

-- As before, with what a plain row says by its `tat`.
CREATE OR REPLACE FUNCTION tidegate.prune(p_most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := tidegate.clock();
  v_count integer := 0;
  v_deleted integer;
  v_row record;
BEGIN
  IF NOT pg_try_advisory_xact_lock(8388065899374830693) THEN RETURN 0; END IF;
  FOR v_row IN
    SELECT r.tab, r.key FROM tidegate.rows r WHERE (r.tab, r.key) IN (
      SELECT tab, root FROM tidegate.leases WHERE session IS NOT NULL AND stage = 0)
    LIMIT p_most FOR UPDATE OF r SKIP LOCKED
  LOOP
    IF tidegate.free_ended(v_row.tab, v_row.key, v_now) THEN v_count := v_count + 1; END IF;
  END LOOP;
  FOR v_row IN
    SELECT r.tab, r.key, s.newest FROM tidegate.rows r JOIN tidegate.sets s ON s.tab = r.tab
    WHERE r.due <= v_now LIMIT p_most FOR UPDATE OF r SKIP LOCKED
  LOOP
    PERFORM tidegate.catch_up(v_row.tab, v_row.key, v_row.newest, v_now, false);
    v_count := v_count + 1;
  END LOOP;
  -- For as long as a clock may stand still it stays.
  DELETE FROM tidegate.rows WHERE (tab, key) IN (
    SELECT r.tab, r.key FROM tidegate.rows r
    WHERE tidegate.forget_at(r) < v_now - 10000000 AND r.latest < v_now - 10000000
      AND r.due = 9223372036854775807 AND r.line_until <= v_now
    LIMIT p_most FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_deleted = ROW_COUNT;
  RETURN greatest(v_count, v_deleted);
END $$;
