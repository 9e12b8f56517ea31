-- The log (`core/src/kernel/log.rs`). A state is the total, then instant and sum
-- of each entry, the oldest first.

-- Where the first entry stands that has not left the window.
CREATE FUNCTION tidegate.log_first(r tidegate.rule, c numeric[], p_now numeric)
RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  i integer := 2;
BEGIN
  WHILE i < cardinality(c) AND tidegate.later(c[i], r.period) <= p_now LOOP i := i + 2; END LOOP;
  RETURN i;
END $$;

CREATE FUNCTION tidegate.log_used(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_used numeric := c[1];
BEGIN
  FOR i IN 2 .. tidegate.log_first(r, c, p_now) - 1 BY 2 LOOP v_used := v_used - c[i + 1]; END LOOP;
  RETURN v_used;
END $$;

-- When at least an amount of what is entered now has left.
CREATE FUNCTION tidegate.log_freed(
  r tidegate.rule, c numeric[], p_amount numeric, p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_freed numeric := 0;
BEGIN
  FOR i IN tidegate.log_first(r, c, p_now) .. cardinality(c) - 1 BY 2 LOOP
    v_freed := v_freed + c[i + 1];
    IF v_freed >= p_amount THEN RETURN tidegate.later(c[i], r.period); END IF;
  END LOOP;
  RETURN tidegate.never();
END $$;

CREATE FUNCTION tidegate.log_pruned(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_first integer := tidegate.log_first(r, c, p_now);
BEGIN
  IF v_first = 2 THEN RETURN c; END IF;
  RETURN tidegate.log_used(r, c, p_now) || c[v_first : cardinality(c)];
END $$;

-- Merges each pair of neighbours into the later one.
CREATE FUNCTION tidegate.log_halved(c numeric[])
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n integer := cardinality(c);
  v_kept numeric[] := ARRAY[c[1]];
BEGIN
  FOR i IN 2 .. n - 1 BY 4 LOOP
    IF i + 2 < n THEN
      v_kept := v_kept || c[i + 2] || (c[i + 1] + c[i + 3]);
    ELSE
      v_kept := v_kept || c[i] || c[i + 1];
    END IF;
  END LOOP;
  RETURN v_kept;
END $$;

CREATE FUNCTION tidegate.log_observe(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n integer := cardinality(c);
  v_behind numeric;
BEGIN
  IF n = 1 OR c[n - 1] - p_now <= r.period THEN RETURN c; END IF;
  v_behind := c[n - 1] - p_now;
  FOR i IN 2 .. n - 1 BY 2 LOOP c[i] := tidegate.earlier(c[i], v_behind); END LOOP;
  RETURN c;
END $$;

CREATE FUNCTION tidegate.log_quote(
  r tidegate.rule, c numeric[], p_amount numeric, p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_excess numeric;
BEGIN
  IF p_amount > r.capacity THEN RETURN tidegate.not_ever(); END IF;
  v_excess := tidegate.log_used(r, c, p_now) + p_amount - r.capacity;
  IF v_excess <= 0 THEN RETURN tidegate.admit(); END IF;
  RETURN tidegate.log_freed(r, c, v_excess, p_now);
END $$;

-- A clock slightly behind enters at the newest instant: later is safe.
CREATE FUNCTION tidegate.log_charge(
  r tidegate.rule, c numeric[], p_amount numeric, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n integer;
  v_at numeric;
BEGIN
  c := tidegate.log_pruned(r, coalesce(c, ARRAY[0::numeric]), p_now);
  n := cardinality(c);
  v_at := greatest(p_now, CASE WHEN n > 1 THEN c[n - 1] END);
  p_amount := least(p_amount, greatest(tidegate.most_amount() - tidegate.log_used(r, c, p_now), 0));
  c[1] := c[1] + p_amount;
  IF n > 1 AND c[n - 1] = v_at THEN
    c[n] := c[n] + p_amount;
  ELSIF p_amount > 0 THEN
    IF (n - 1) / 2 >= r.entries THEN c := tidegate.log_halved(c); END IF;
    c := c || v_at || p_amount;
  END IF;
  RETURN c;
END $$;

-- A charge that has left the window, or had left a shorter one, is nobody's to give
-- back: before the oldest entry everything is gone, and the next one is another's.
CREATE FUNCTION tidegate.log_refund(
  r tidegate.rule, c numeric[], p_amount numeric, p_reference numeric, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n integer := cardinality(c);
  i integer := 2;
  v_back numeric;
BEGIN
  IF n = 1 OR p_reference < c[2] OR tidegate.later(p_reference, r.period) <= p_now THEN RETURN c; END IF;
  WHILE i < n AND c[i] < p_reference LOOP i := i + 2; END LOOP;
  IF i > n THEN RETURN c; END IF;
  v_back := least(p_amount, c[i + 1]);
  c[i + 1] := c[i + 1] - v_back;
  c[1] := c[1] - v_back;
  IF c[i + 1] = 0 THEN RETURN c[1 : i - 1] || c[i + 2 : n]; END IF;
  RETURN c;
END $$;

CREATE FUNCTION tidegate.log_forget_at(r tidegate.rule, c numeric[])
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF cardinality(c) = 1 THEN RETURN tidegate.beginning(); END IF;
  RETURN tidegate.later(c[cardinality(c) - 1], r.period);
END $$;

CREATE FUNCTION tidegate.log_standing(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_used numeric := tidegate.log_used(r, c, p_now);
  v_debt numeric := greatest(v_used - r.capacity, 0);
BEGIN
  IF v_used = 0 THEN RETURN ARRAY[r.capacity, 0, NULL, NULL]; END IF;
  RETURN ARRAY[greatest(r.capacity - v_used, 0), v_debt,
    tidegate.log_freed(r, c, v_debt + 1, p_now), tidegate.log_forget_at(r, c)];
END $$;

-- Entries that the old rule had let go of stay gone.
CREATE FUNCTION tidegate.log_adopt(
  r tidegate.rule, c numeric[], p_old tidegate.rule, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  c := tidegate.log_pruned(p_old, c, p_now);
  WHILE (cardinality(c) - 1) / 2 > r.entries LOOP c := tidegate.log_halved(c); END LOOP;
  RETURN c;
END $$;
