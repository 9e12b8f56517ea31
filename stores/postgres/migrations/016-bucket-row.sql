-- A take from a set of one plain bucket whose numbers fit 62 bits: the most
-- frequent command there is, decided by one UPDATE. The arithmetic is that of
-- 003-bucket.sql; whatever this cannot say is decided by `tidegate.decide`.

-- Remaining, debt, when the next unit is there, when all are: of a level above 0.
CREATE FUNCTION tidegate.plain_standing(
  p_level bigint, p_now bigint, p_drain bigint, p_weight bigint, p_brim bigint)
RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_remaining bigint := greatest(p_brim - p_level, 0) / p_weight;
  v_next bigint := greatest(p_brim - (v_remaining + 1) * p_weight, 0);
BEGIN
  RETURN v_remaining
    || ',' || (greatest(p_level - p_brim, 0) + p_weight - 1) / p_weight
    || ',' || p_now + (p_level - v_next + p_drain - 1) / p_drain
    || ',' || p_now + (p_level + p_drain - 1) / p_drain;
END $$;

-- The level at an instant not before `p_at`; the bounds keep the product small.
CREATE FUNCTION tidegate.plain_level(
  p_level bigint, p_at bigint, p_now bigint, p_drain bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT greatest(p_level - least(greatest(p_now - p_at, 0), p_level / p_drain + 1) * p_drain, 0) $$;

-- Answers as that does, or `admit` where there is nothing more to say.
-- p_weight is what the amount weighs; p_patience how far the clock may stand
-- behind what was written, and then stands still. A key that no index holds as it
-- is, and any row that is not plain, is `tidegate.decide`'s.
CREATE FUNCTION tidegate.decide_bucket(
  p_tab integer, p_edition bigint, p_now bigint, p_caller boolean, p_key bytea,
  p_amount bigint, p_detail integer, p_drain bigint, p_unit bigint, p_brim bigint,
  p_weight bigint, p_patience bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := CASE WHEN p_caller THEN p_now ELSE tidegate.clock() END;
  v_level bigint;
  v_at bigint;
  v_plain boolean;
BEGIN
  UPDATE tidegate.rows SET
    level = tidegate.plain_level(level, at, greatest(v_now, latest), p_drain) + p_weight,
    at = greatest(v_now, latest),
    latest = greatest(v_now, latest),
    forget_at = greatest(v_now, latest) + (p_drain - 1 + p_weight
      + tidegate.plain_level(level, at, greatest(v_now, latest), p_drain)) / p_drain
  WHERE tab = p_tab AND key = p_key AND edition = p_edition AND level IS NOT NULL
    AND own IS NULL AND latest <= v_now + p_patience AND at <= greatest(v_now, latest)
    AND due > greatest(v_now, latest)
    AND tidegate.plain_level(level, at, greatest(v_now, latest), p_drain) <= p_brim - p_weight
  RETURNING level, at INTO v_level, v_at;
  IF v_at IS NOT NULL THEN
    IF p_detail < 2 THEN RETURN 'admit'; END IF;
    RETURN '{0,' || v_at || ',0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,1,'
      || tidegate.plain_standing(v_level, v_at, p_drain, p_unit, p_brim) || '}';
  END IF;
  -- A refusal changes nothing, and takes no lock.
  SELECT tidegate.plain_level(level, at, greatest(v_now, latest), p_drain), greatest(v_now, latest),
    edition = p_edition AND level IS NOT NULL AND own IS NULL AND latest <= v_now + p_patience
      AND at <= greatest(v_now, latest) AND due > greatest(v_now, latest)
  INTO v_level, v_at, v_plain
  FROM tidegate.rows WHERE tab = p_tab AND key = p_key;
  IF v_plain AND v_level > p_brim - p_weight THEN
    RETURN '{0,' || v_at
      || ',1,' || v_at + (v_level + p_weight - p_brim + p_drain - 1) / p_drain
      || ',1,1,0,NULL,NULL,NULL,NULL,NULL,'
      || CASE WHEN p_detail = 0 THEN '0'
         ELSE '1,' || tidegate.plain_standing(v_level, v_at, p_drain, p_unit, p_brim) END || '}';
  END IF;
  -- A key never seen. (A root that has leases has a row.)
  IF v_plain IS NULL AND length(p_key) < 256 AND p_detail < 2 THEN
    INSERT INTO tidegate.rows
      (tab, edition, latest, forget_at, due, followed, level, at, key)
    VALUES (p_tab, p_edition, v_now, v_now + (p_weight + p_drain - 1) / p_drain,
      9223372036854775807, p_edition, p_weight, v_now, p_key)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN RETURN 'admit'; END IF;
  END IF;
  RETURN tidegate.decide(p_tab, p_edition, p_now, p_caller, p_key, ARRAY[length(p_key)], NULL,
    '{}', '{}', 0, ARRAY[p_amount], p_detail, NULL, 0, NULL, 0, '{}', false, NULL);
END $$;
