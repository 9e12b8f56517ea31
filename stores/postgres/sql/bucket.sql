-- The bucket (`core/src/kernel/bucket.rs`). A state is level and instant; while a
-- lease may give something back also since, last, and the marks (number and
-- level of each, both ascending): `core/src/kernel/bucket/low_water.rs`. Where some of the
-- level does not count since a burst was lowered (two versions of one limit at once:
-- `core/tests/versions.rs`), a null stands after level and instant, then what is
-- forgiven, and until when; then the rest.

-- The level at an instant. A clock slightly behind the state's sees what it would
-- have seen had it never been ahead.
CREATE FUNCTION tidegate.bucket_level(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_now >= c[2] THEN
    RETURN greatest(c[1] - (p_now - c[2]) * r.drain, 0);
  END IF;
  IF c[1] = 0 THEN RETURN 0; END IF;
  RETURN c[1] + (c[2] - p_now) * r.drain;
END $$;

-- Drained up to an instant; the state's own never moves back here.
CREATE FUNCTION tidegate.bucket_settled(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_forgiven numeric;
  v_until numeric;
BEGIN
  IF p_now > c[2] OR c[1] = 0 THEN
    c[1] := tidegate.bucket_level(r, c, p_now);
    c[2] := p_now;
  END IF;
  IF cardinality(c) = 2 OR c[3] IS NOT NULL THEN RETURN c; END IF;
  v_forgiven := least(c[4], c[1]);
  v_until := c[5];
  c := tidegate.unforgiven(c);
  IF v_until > p_now THEN RETURN tidegate.forgive(c, v_forgiven, v_until); END IF;
  c[1] := c[1] - v_forgiven;
  -- Of what was forgiven nothing may come back.
  RETURN tidegate.low_water_note(c, 0, p_now);
END $$;

-- Makes one mark of the two whose levels are nearest: leases up to the larger
-- number are said to have seen the smaller level.
CREATE FUNCTION tidegate.low_water_merged(c numeric[]) RETURNS numeric[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_nearest integer := 5;
  v_gap numeric;
BEGIN
  FOR i IN 5 .. cardinality(c) - 3 BY 2 LOOP
    IF v_gap IS NULL OR c[i + 3] - c[i + 1] < v_gap THEN
      v_gap := c[i + 3] - c[i + 1];
      v_nearest := i;
    END IF;
  END LOOP;
  c[v_nearest + 3] := c[v_nearest + 1];
  RETURN c[1 : v_nearest - 1] || c[v_nearest + 2 : cardinality(c)];
END $$;

-- Notes the level: before each charge, and wherever it is 0.
CREATE FUNCTION tidegate.low_water_note(c numeric[], p_level numeric, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n integer := cardinality(c);
  v_last numeric;
BEGIN
  IF n < 4 THEN RETURN c; END IF;
  v_last := c[4];
  IF p_level = 0 AND p_now > v_last THEN RETURN c[1 : 2]; END IF;
  WHILE n > 4 AND c[n] >= p_level LOOP n := n - 2; END LOOP;
  c := c[1 : n];
  IF n = 4 OR c[n - 1] < v_last THEN
    c := c || v_last || p_level;
    IF cardinality(c) > 4 + 2 * 32 THEN RETURN tidegate.low_water_merged(c); END IF;
  END IF;
  RETURN c;
END $$;

-- Takes back what of a weight comes back to the lease of a number, now that the
-- level is settled.
CREATE FUNCTION tidegate.low_water_give_back(c numeric[], p_number numeric, p_weight numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n integer := cardinality(c);
  v_first integer := 5;
  v_lower integer;
  v_back numeric := c[1];
BEGIN
  IF p_number < c[3] OR p_number > c[4] THEN RETURN c; END IF;
  WHILE v_first < n AND c[v_first] < p_number LOOP v_first := v_first + 2; END LOOP;
  IF v_first < n THEN v_back := least(v_back, c[v_first + 1]); END IF;
  v_back := least(p_weight, v_back);
  c[1] := c[1] - v_back;
  FOR i IN v_first .. n - 1 BY 2 LOOP c[i + 1] := c[i + 1] - v_back; END LOOP;
  IF v_first >= n THEN RETURN c; END IF;
  v_lower := v_first;
  WHILE v_lower > 5 AND c[v_lower - 1] >= c[v_first + 1] LOOP v_lower := v_lower - 2; END LOOP;
  RETURN c[1 : v_lower - 1] || c[v_first : n];
END $$;

-- Behind by more than the refill, it goes on from the new instant.
CREATE FUNCTION tidegate.bucket_observe(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF c[1] > 0 AND c[2] > p_now AND c[2] - p_now > tidegate.div_up(r.brim, r.drain) THEN
    c[2] := p_now;
  END IF;
  RETURN c;
END $$;

CREATE FUNCTION tidegate.bucket_quote(
  r tidegate.rule, c numeric[], p_amount numeric, p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_excess numeric;
BEGIN
  IF p_amount > r.capacity THEN RETURN tidegate.not_ever(); END IF;
  v_excess := tidegate.bucket_counted(r, c, p_now) + p_amount * r.weight - r.brim;
  IF v_excess <= 0 THEN RETURN tidegate.admit(); END IF;
  RETURN tidegate.later(p_now, tidegate.div_up(v_excess, r.drain));
END $$;

-- For a lease, `last` becomes its number, by which it gives back.
CREATE FUNCTION tidegate.bucket_charge(
  r tidegate.rule, c numeric[], p_amount numeric, p_now numeric, p_leased boolean)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_forgiven numeric;
  v_until numeric;
BEGIN
  c := tidegate.bucket_settled(r, coalesce(c, ARRAY[0, p_now]), p_now);
  v_forgiven := tidegate.forgiven(c);
  v_until := c[5];
  c := tidegate.unforgiven(c);
  IF cardinality(c) > 2 THEN c := tidegate.low_water_note(c, c[1], p_now); END IF;
  c[1] := least(c[1] + p_amount * r.weight, r.most + v_forgiven);
  IF p_leased AND cardinality(c) = 2 THEN
    c := c || p_now || p_now;
  ELSIF p_leased THEN
    c[4] := greatest(tidegate.later(c[4], 1), p_now);
  END IF;
  RETURN tidegate.forgive(c, v_forgiven, v_until);
END $$;

CREATE FUNCTION tidegate.bucket_refund(
  r tidegate.rule, c numeric[], p_amount numeric, p_reference numeric, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_forgiven numeric;
  v_until numeric;
  v_level numeric;
BEGIN
  c := tidegate.bucket_settled(r, c, p_now);
  v_forgiven := tidegate.forgiven(c);
  v_until := c[5];
  c := tidegate.unforgiven(c);
  v_level := c[1];
  IF cardinality(c) > 2 THEN
    c := tidegate.low_water_give_back(c, p_reference, p_amount * r.weight);
    -- What was forgiven is the first to come back: it makes no room.
    v_forgiven := greatest(v_forgiven - (v_level - c[1]), 0);
    IF c[1] = 0 THEN c := tidegate.low_water_note(c, 0, p_now); END IF;
  END IF;
  RETURN tidegate.forgive(c, v_forgiven, v_until);
END $$;

-- Remaining, debt, when the next unit is there, when all are.
CREATE FUNCTION tidegate.bucket_standing(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_level numeric := tidegate.bucket_counted(r, c, p_now);
  v_remaining numeric;
  v_next numeric;
BEGIN
  IF v_level = 0 THEN RETURN ARRAY[r.capacity, 0, NULL, NULL]; END IF;
  v_remaining := div(greatest(r.brim - v_level, 0), r.weight);
  v_next := greatest(r.brim - (v_remaining + 1) * r.weight, 0);
  RETURN ARRAY[
    v_remaining,
    least(tidegate.div_up(greatest(v_level - r.brim, 0), r.weight), tidegate.most_amount()),
    tidegate.later(p_now, tidegate.div_up(v_level - v_next, r.drain)),
    tidegate.later(p_now, tidegate.div_up(v_level, r.drain))];
END $$;

CREATE FUNCTION tidegate.bucket_forget_at(r tidegate.rule, c numeric[])
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_empty_at numeric := tidegate.later(c[2], tidegate.div_up(c[1], r.drain));
  v_full_at numeric;
BEGIN
  IF cardinality(c) = 2 THEN RETURN v_empty_at; END IF;
  IF c[3] IS NULL THEN
    v_full_at := tidegate.later(c[2],
      tidegate.div_up(tidegate.bucket_counted(r, c, c[2]), r.drain));
    v_empty_at := least(v_empty_at, greatest(v_full_at, c[5]));
    c := tidegate.unforgiven(c);
    IF cardinality(c) = 2 THEN RETURN v_empty_at; END IF;
  END IF;
  RETURN greatest(v_empty_at, tidegate.later(c[4], 1));
END $$;

-- A level of `p_old` in this rule's weights, rounded up or down.
CREATE FUNCTION tidegate.bucket_convert(
  r tidegate.rule, p_old tidegate.rule, p_level numeric, p_up boolean)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_rest numeric := mod(p_level, p_old.weight) * r.weight;
BEGIN
  IF p_up THEN
    v_rest := tidegate.div_up(v_rest, p_old.weight);
  ELSE
    v_rest := div(v_rest, p_old.weight);
  END IF;
  RETURN div(p_level, p_old.weight) * r.weight + v_rest;
END $$;

-- What is in use stays in use, no more than empty unless there was debt, which stays.
-- What is above that is forgiven.
CREATE FUNCTION tidegate.bucket_adopt(
  r tidegate.rule, c numeric[], p_old tidegate.rule, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_counted numeric;
  v_counts numeric;
  v_level numeric;
  v_low numeric;
  v_kept numeric[];
BEGIN
  c := tidegate.bucket_settled(p_old, c, p_now);
  v_level := c[1];
  v_counted := greatest(c[1] - tidegate.forgiven(c), 0);
  v_counts := tidegate.bucket_convert(r, p_old, v_counted, true);
  c := tidegate.unforgiven(c);
  c[1] := least(tidegate.bucket_convert(r, p_old, v_level, true), tidegate.highest_level());
  IF r.capacity >= p_old.capacity THEN
    v_counts := v_counts + (r.capacity - p_old.capacity) * r.weight;
  ELSE
    v_counts := least(v_counts, r.brim
      + tidegate.bucket_convert(r, p_old, greatest(v_counted - p_old.brim, 0), true));
  END IF;
  v_kept := c[1 : 2];
  IF cardinality(c) > 2 THEN
    -- Of what may come back, rather too little. What rounding makes equal, the
    -- later mark says for both.
    v_kept := c[1 : 4];
    FOR i IN 5 .. cardinality(c) - 1 BY 2 LOOP
      v_low := least(tidegate.bucket_convert(r, p_old, c[i + 1], false), tidegate.highest_level());
      IF cardinality(v_kept) > 4 AND v_kept[cardinality(v_kept)] = v_low THEN
        v_kept[cardinality(v_kept) - 1] := c[i];
      ELSE
        v_kept := v_kept || c[i] || v_low;
      END IF;
    END LOOP;
  END IF;
  RETURN tidegate.forgive_above(r, v_kept, least(v_counts, r.most),
    tidegate.div_up(v_level, p_old.drain));
END $$;

-- What of the level at an instant counts.
CREATE FUNCTION tidegate.bucket_counted(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN greatest(tidegate.bucket_level(r, c, p_now) - tidegate.forgiven(c), 0);
END $$;

-- No level is higher, with what is forgiven.
CREATE FUNCTION tidegate.highest_level() RETURNS numeric LANGUAGE sql IMMUTABLE AS
$$ SELECT 2535301200456458802993406410752 $$;

-- Forgives what of the level is above `p_counts`; the rule by which it was used is full
-- again in so many microseconds.
CREATE FUNCTION tidegate.forgive_above(
  r tidegate.rule, c numeric[], p_counts numeric, p_full_in numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_level numeric := greatest(c[1] - p_counts, 0);
BEGIN
  IF div(c[1] - v_level, r.drain) >= p_full_in THEN
    RETURN tidegate.forgive(c, v_level, tidegate.later(c[2], p_full_in));
  END IF;
  RETURN tidegate.forgive(c, v_level, tidegate.never());
END $$;

-- What is forgiven of a state's level.
CREATE FUNCTION tidegate.forgiven(c numeric[]) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF cardinality(c) > 2 AND c[3] IS NULL THEN RETURN c[4]; END IF;
  RETURN 0;
END $$;

-- The state without it.
CREATE FUNCTION tidegate.unforgiven(c numeric[]) RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF cardinality(c) > 2 AND c[3] IS NULL THEN RETURN c[1 : 2] || c[6 : cardinality(c)]; END IF;
  RETURN c;
END $$;

-- A state of which nothing is forgiven, with so much forgiven until an instant.
CREATE FUNCTION tidegate.forgive(c numeric[], p_level numeric, p_until numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_level = 0 THEN RETURN c; END IF;
  RETURN c[1 : 2] || ARRAY[NULL, p_level, p_until] || c[3 : cardinality(c)];
END $$;
