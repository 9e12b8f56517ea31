-- A take from a lone bucket with less to make ready: an UPDATE's expressions cost more
-- to be made ready, function by function, than to be executed, and twice where the row
-- is everybody's.

-- By a float's seconds: exact to the microsecond until 2041, within one after that,
-- and never backwards.
CREATE OR REPLACE FUNCTION tidegate.clock() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint $$;

-- Makes a plain row one like all others. It is, where somebody stands in line: what
-- reads plain rows need not look.
CREATE FUNCTION tidegate.make_general(p_tab integer, p_root bytea) RETURNS void
LANGUAGE sql AS $$
  UPDATE tidegate.rows r SET tat = NULL, drain = NULL, forget_at = tidegate.forget_at(r),
    cells = tidegate.cells_of(r, 1)
  WHERE tab = p_tab AND key = p_root AND tat IS NOT NULL
$$;
SELECT tidegate.make_general(tab, key) FROM tidegate.rows
WHERE tat IS NOT NULL AND line_until > -9223372036854775808;

-- As before, but for the line.
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
    AND NOT EXISTS (SELECT FROM tidegate.rows
      WHERE tab = p_tab AND key = v_short AND line_until > p_latest) THEN
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

-- As before, but for plain rows.
CREATE OR REPLACE FUNCTION tidegate.stay(
  p_tab integer, p_root bytea, p_turn numeric, p_channel text, p_ahead bigint, p_alive bigint,
  p_now bigint, p_path bytea[], p_waits_for bytea[], p_until bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO tidegate.waiters (tab, root, turn, came, alive_until, channel, path, waits_for)
  VALUES (p_tab, p_root, p_turn, tidegate.earlier(p_now, p_ahead),
    tidegate.later(p_now, p_alive), p_channel, p_path, p_waits_for)
  ON CONFLICT (tab, root, turn) DO UPDATE SET alive_until = excluded.alive_until,
    channel = excluded.channel, waits_for = excluded.waits_for;
  -- Not with every ask: it is the row that everyone writes.
  IF p_until < tidegate.later(p_now, p_alive) THEN
    UPDATE tidegate.rows SET line_until = tidegate.later(p_now, 2 * p_alive)
    WHERE tab = p_tab AND key = p_root;
    PERFORM tidegate.make_general(p_tab, p_root);
  END IF;
END $$;

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
  p_tab integer, p_edition bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_amount bigint, p_detail integer, p_drain bigint, p_brim bigint, p_weight bigint,
  p_patience bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_answer text;
BEGIN
  UPDATE tidegate.rows SET
    tat = greatest(tat, p_now * p_drain) + p_weight,
    latest = greatest(latest, p_now)
  WHERE tab = p_tab AND key = p_key AND edition = p_edition
    AND tat + p_weight <= p_now * p_drain + p_brim AND latest <= p_now + p_patience
    AND due > p_now
  %s;
  IF FOUND THEN RETURN v_answer; END IF;
  RETURN tidegate.take_slowly(p_tab, p_edition, p_now, p_caller, p_key, p_amount, p_detail,
    p_drain, p_brim, p_weight, p_patience);
END $$
    $text$, v_twin.name, v_twin.telling);
  END LOOP;
END $make$;

-- A take that the row does not admit at once.
CREATE FUNCTION tidegate.take_slowly(
  p_tab integer, p_edition bigint, p_now bigint, p_caller boolean, p_key bytea,
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
    edition = p_edition AND tat IS NOT NULL AND latest <= p_now + p_patience
      AND due > greatest(p_now, latest)
  INTO v_tat, v_at, v_plain
  FROM tidegate.rows WHERE tab = p_tab AND key = p_key;
  IF v_plain AND v_tat > v_at * p_drain + p_brim - p_weight THEN
    RETURN '-' || greatest(v_tat - v_at * p_drain, 0);
  END IF;
  -- A key never seen. (A root that has leases has a row.)
  IF v_plain IS NULL AND length(p_key) < 256 THEN
    INSERT INTO tidegate.rows (tab, edition, latest, due, followed, tat, drain, key)
    VALUES (p_tab, p_edition, p_now, 9223372036854775807, p_edition,
      p_now * p_drain + p_weight, p_drain, p_key)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN RETURN CASE WHEN p_detail = 2 THEN p_weight::text END; END IF;
  END IF;
  RETURN tidegate.decide(p_tab, p_edition, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
    '{}', '{}', 0, ARRAY[p_amount], p_detail, NULL, 0, NULL, 0, '{}', false, NULL);
END $$;

-- Of processes that were started before this version.
CREATE OR REPLACE FUNCTION tidegate.take_bucket(
  p_tab integer, p_edition bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_amount bigint, p_detail integer, p_drain bigint, p_brim bigint, p_weight bigint,
  p_patience bigint)
RETURNS text LANGUAGE sql AS $$
  SELECT tidegate.decide(p_tab, p_edition, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
    '{}', '{}', 0, ARRAY[p_amount], p_detail, NULL, 0, NULL, 0, '{}', false, NULL)
$$;
