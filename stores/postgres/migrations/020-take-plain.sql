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
  -- A key never seen, of a set that is there. (A root that has leases has a row.)
  IF v_plain IS NULL AND length(p_key) < 256 THEN
    INSERT INTO tidegate.rows (tab, edition, latest, due, followed, tat, drain, key)
    SELECT tab, p_edition, p_now, 9223372036854775807, p_edition,
      p_now * p_drain + p_weight, p_drain, p_key
    FROM tidegate.sets WHERE tab = p_tab
    ON CONFLICT DO NOTHING;
    IF FOUND THEN RETURN CASE WHEN p_detail = 2 THEN p_weight::text END; END IF;
  END IF;
  RETURN tidegate.decide(p_tab, p_edition, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
    '{}', '{}', 0, ARRAY[p_amount], p_detail, NULL, 0, NULL, 0, '{}', false, NULL);
END $$;
