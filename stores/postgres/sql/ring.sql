-- The ring (`core/src/kernel/ring.rs`). A state is index and count of each
-- sub-window that has any, the oldest first.

-- When a sub-window is out of every window.
CREATE FUNCTION tidegate.ring_leaves(r tidegate.rule, p_index numeric)
RETURNS numeric LANGUAGE sql IMMUTABLE AS
$$ SELECT least((p_index + (r).steps + 1) * (r).step, 9223372036854775807) $$;

-- The oldest sub-window that a rolling window ending now still touches.
CREATE FUNCTION tidegate.ring_oldest(r tidegate.rule, p_now numeric)
RETURNS numeric LANGUAGE sql IMMUTABLE AS
$$ SELECT tidegate.floor_div(p_now, (r).step) - (r).steps $$;

CREATE FUNCTION tidegate.ring_used(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_oldest numeric := tidegate.ring_oldest(r, p_now);
  v_used numeric := 0;
BEGIN
  FOR i IN 1 .. cardinality(c) - 1 BY 2 LOOP
    IF c[i] >= v_oldest THEN v_used := v_used + c[i + 1]; END IF;
  END LOOP;
  RETURN v_used;
END $$;

-- When at least an amount of what is counted now has left.
CREATE FUNCTION tidegate.ring_freed(
  r tidegate.rule, c numeric[], p_amount numeric, p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_oldest numeric := tidegate.ring_oldest(r, p_now);
  v_freed numeric := 0;
BEGIN
  FOR i IN 1 .. cardinality(c) - 1 BY 2 LOOP
    IF c[i] >= v_oldest THEN
      v_freed := v_freed + c[i + 1];
      IF v_freed >= p_amount THEN RETURN tidegate.ring_leaves(r, c[i]); END IF;
    END IF;
  END LOOP;
  RETURN tidegate.never();
END $$;

CREATE FUNCTION tidegate.ring_observe(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n integer := cardinality(c);
  v_current numeric := tidegate.floor_div(p_now, r.step);
  v_newest numeric;
BEGIN
  IF n = 0 OR c[n - 1] - v_current <= r.steps THEN RETURN c; END IF;
  v_newest := c[n - 1];
  FOR i IN 1 .. n - 1 BY 2 LOOP
    c[i] := v_current - greatest(v_newest - c[i] - 1, 0);
  END LOOP;
  IF n > 2 AND c[n - 3] = c[n - 1] THEN
    c[n - 2] := c[n - 2] + c[n];
    RETURN c[1 : n - 2];
  END IF;
  RETURN c;
END $$;

CREATE FUNCTION tidegate.ring_quote(
  r tidegate.rule, c numeric[], p_amount numeric, p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_excess numeric;
BEGIN
  IF p_amount > r.capacity THEN RETURN tidegate.not_ever(); END IF;
  v_excess := tidegate.ring_used(r, c, p_now) + p_amount - r.capacity;
  IF v_excess <= 0 THEN RETURN tidegate.admit(); END IF;
  RETURN tidegate.ring_freed(r, c, v_excess, p_now);
END $$;

-- Where a charge at an instant is booked: a clock slightly behind counts into
-- the newest sub-window, for later is safe.
CREATE FUNCTION tidegate.ring_reference(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN greatest(tidegate.floor_div(p_now, r.step), c[cardinality(c) - 1]);
END $$;

CREATE FUNCTION tidegate.ring_charge(
  r tidegate.rule, c numeric[], p_amount numeric, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_oldest numeric := tidegate.ring_oldest(r, p_now);
  v_from integer := 1;
  n integer;
  v_index numeric;
BEGIN
  c := coalesce(c, '{}');
  n := cardinality(c);
  WHILE v_from < n AND c[v_from] < v_oldest LOOP v_from := v_from + 2; END LOOP;
  IF v_from > 1 THEN
    c := c[v_from : n];
    n := cardinality(c);
  END IF;
  v_index := tidegate.ring_reference(r, c, p_now);
  p_amount := least(p_amount, greatest(tidegate.most_amount() - tidegate.ring_used(r, c, p_now), 0));
  IF c[n - 1] = v_index THEN
    c[n] := c[n] + p_amount;
  ELSIF p_amount > 0 THEN
    c := c || v_index || p_amount;
  END IF;
  RETURN c;
END $$;

CREATE FUNCTION tidegate.ring_refund(c numeric[], p_amount numeric, p_reference numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  FOR i IN 1 .. cardinality(c) - 1 BY 2 LOOP
    IF c[i] = p_reference THEN
      c[i + 1] := greatest(c[i + 1] - p_amount, 0);
      IF c[i + 1] = 0 THEN RETURN c[1 : i - 1] || c[i + 2 : cardinality(c)]; END IF;
      RETURN c;
    END IF;
  END LOOP;
  RETURN c;
END $$;

CREATE FUNCTION tidegate.ring_forget_at(r tidegate.rule, c numeric[])
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF cardinality(c) = 0 THEN RETURN tidegate.beginning(); END IF;
  RETURN tidegate.ring_leaves(r, c[cardinality(c) - 1]);
END $$;

CREATE FUNCTION tidegate.ring_standing(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_used numeric := tidegate.ring_used(r, c, p_now);
  v_debt numeric := greatest(v_used - r.capacity, 0);
BEGIN
  IF v_used = 0 THEN RETURN ARRAY[r.capacity, 0, NULL, NULL]; END IF;
  RETURN ARRAY[greatest(r.capacity - v_used, 0), v_debt,
    tidegate.ring_freed(r, c, v_debt + 1, p_now), tidegate.ring_forget_at(r, c)];
END $$;

-- Counts that the old rule had let go of stay gone. Where sub-windows differ, a count
-- goes into the one in which its own ended.
CREATE FUNCTION tidegate.ring_adopt(
  r tidegate.rule, c numeric[], p_old tidegate.rule, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_oldest numeric := tidegate.ring_oldest(p_old, p_now);
  v_kept numeric[] := '{}';
BEGIN
  FOR i IN 1 .. cardinality(c) - 1 BY 2 LOOP
    IF c[i] >= v_oldest AND r.step = p_old.step THEN
      v_kept := v_kept || c[i] || c[i + 1];
    ELSIF c[i] >= v_oldest THEN
      v_kept := tidegate.ring_charge(r, v_kept, c[i + 1],
        least((c[i] + 1) * p_old.step - 1, tidegate.never(), p_now));
    END IF;
  END LOOP;
  RETURN v_kept;
END $$;
