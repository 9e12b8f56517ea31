-- The slots (`core/src/kernel/slots.rs`). A state is the total, the fence and the
-- latest instant, then expiry, id and weight of each holder, by expiry.

-- Where the first holder stands that has not expired.
CREATE FUNCTION tidegate.slots_first(c numeric[], p_now numeric)
RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  i integer := 4;
BEGIN
  WHILE i < cardinality(c) AND c[i] <= p_now LOOP i := i + 3; END LOOP;
  RETURN i;
END $$;

CREATE FUNCTION tidegate.slots_held(c numeric[], p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_held numeric := c[1];
BEGIN
  FOR i IN 4 .. tidegate.slots_first(c, p_now) - 1 BY 3 LOOP v_held := v_held - c[i + 2]; END LOOP;
  RETURN v_held;
END $$;

-- When at least an amount of what is held now will have expired.
CREATE FUNCTION tidegate.slots_freed(c numeric[], p_amount numeric, p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_freed numeric := 0;
BEGIN
  FOR i IN tidegate.slots_first(c, p_now) .. cardinality(c) - 2 BY 3 LOOP
    v_freed := v_freed + c[i + 2];
    IF v_freed >= p_amount THEN RETURN c[i]; END IF;
  END LOOP;
  RETURN tidegate.never();
END $$;

CREATE FUNCTION tidegate.slots_pruned(c numeric[], p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_first integer := tidegate.slots_first(c, p_now);
BEGIN
  IF v_first = 4 THEN RETURN c; END IF;
  RETURN (tidegate.slots_held(c, p_now) || c[2 : 3]) || c[v_first : cardinality(c)];
END $$;

-- After the holders that expire no later.
CREATE FUNCTION tidegate.slots_inserted(
  c numeric[], p_expires_at numeric, p_id numeric, p_weight numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n integer := cardinality(c);
  i integer := n + 1;
BEGIN
  c[1] := c[1] + p_weight;
  WHILE i > 4 AND c[i - 3] > p_expires_at LOOP i := i - 3; END LOOP;
  RETURN (c[1 : i - 1] || p_expires_at || p_id || p_weight) || c[i : n];
END $$;

-- Where an id stands: near its expiry, or anywhere if a step back of the clock
-- has moved it; null if it holds nothing.
CREATE FUNCTION tidegate.slots_position(c numeric[], p_id numeric, p_expires_at numeric)
RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_found integer;
BEGIN
  FOR i IN 4 .. cardinality(c) - 2 BY 3 LOOP
    IF c[i + 1] = p_id THEN
      IF c[i] >= p_expires_at THEN RETURN i; END IF;
      v_found := coalesce(v_found, i);
    END IF;
  END LOOP;
  RETURN v_found;
END $$;

CREATE FUNCTION tidegate.slots_removed(c numeric[], p_position integer)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  c[1] := c[1] - c[p_position + 2];
  RETURN c[1 : p_position - 1] || c[p_position + 3 : cardinality(c)];
END $$;

-- After a step back by more than the ttl, the expiries move with the clock.
CREATE FUNCTION tidegate.slots_observe(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_behind numeric := c[3] - p_now;
BEGIN
  IF v_behind <= r.period THEN RETURN c; END IF;
  FOR i IN 4 .. cardinality(c) - 2 BY 3 LOOP c[i] := tidegate.earlier(c[i], v_behind); END LOOP;
  c[3] := p_now;
  RETURN c;
END $$;

CREATE FUNCTION tidegate.slots_quote(
  r tidegate.rule, c numeric[], p_amount numeric, p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_excess numeric;
BEGIN
  IF p_amount > r.capacity THEN RETURN tidegate.not_ever(); END IF;
  v_excess := tidegate.slots_held(c, p_now) + p_amount - r.capacity;
  IF v_excess <= 0 THEN RETURN tidegate.admit(); END IF;
  RETURN tidegate.slots_freed(c, v_excess, p_now);
END $$;

-- On a clock slightly behind, slots come back as much later: later is safe. A
-- fence starts from the clock, and is larger than any before.
CREATE FUNCTION tidegate.slots_grant(
  c numeric[], p_id numeric, p_weight numeric, p_expires_at numeric, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  c := tidegate.slots_pruned(coalesce(c, ARRAY[0, 0, tidegate.beginning()]), p_now);
  p_expires_at := tidegate.later(p_expires_at, greatest(c[3] - p_now, 0));
  c[3] := greatest(c[3], p_now);
  c[2] := least(greatest(c[2] + 1, p_now), 18446744073709551615);
  RETURN tidegate.slots_inserted(c, p_expires_at, p_id,
    least(p_weight, greatest(tidegate.most_amount() - c[1], 0)));
END $$;

CREATE FUNCTION tidegate.slots_release(
  c numeric[], p_id numeric, p_expires_at numeric, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_position integer;
BEGIN
  c := tidegate.slots_pruned(c, p_now);
  v_position := tidegate.slots_position(c, p_id, p_expires_at);
  IF v_position IS NULL THEN RETURN c; END IF;
  RETURN tidegate.slots_removed(c, v_position);
END $$;

CREATE FUNCTION tidegate.slots_renew(
  c numeric[], p_id numeric, p_old numeric, p_expires_at numeric, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_position integer;
  v_weight numeric;
BEGIN
  c := tidegate.slots_pruned(c, p_now);
  p_expires_at := tidegate.later(p_expires_at, greatest(c[3] - p_now, 0));
  c[3] := greatest(c[3], p_now);
  v_position := tidegate.slots_position(c, p_id, p_old);
  IF v_position IS NULL THEN RETURN c; END IF;
  v_weight := c[v_position + 2];
  RETURN tidegate.slots_inserted(
    tidegate.slots_removed(c, v_position), p_expires_at, p_id, v_weight);
END $$;

CREATE FUNCTION tidegate.slots_standing(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_held numeric := tidegate.slots_held(c, p_now);
  v_debt numeric := greatest(v_held - r.capacity, 0);
BEGIN
  IF v_held = 0 THEN RETURN ARRAY[r.capacity, 0, NULL, NULL]; END IF;
  RETURN ARRAY[greatest(r.capacity - v_held, 0), v_debt,
    tidegate.slots_freed(c, v_debt + 1, p_now), c[cardinality(c) - 2]];
END $$;

CREATE FUNCTION tidegate.slots_forget_at(c numeric[])
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_passed numeric := tidegate.later(c[2], 1);
BEGIN
  IF c[2] = 0 THEN RETURN tidegate.beginning(); END IF;
  IF cardinality(c) = 3 THEN RETURN v_passed; END IF;
  RETURN greatest(c[cardinality(c) - 2], v_passed);
END $$;

-- Another weight for a holder of slots, be it free or not.
CREATE FUNCTION tidegate.slots_resize(
  c numeric[], p_id numeric, p_expires_at numeric, p_weight numeric, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_position integer;
BEGIN
  c := tidegate.slots_pruned(c, p_now);
  v_position := tidegate.slots_position(c, p_id, p_expires_at);
  IF v_position IS NULL THEN RETURN c; END IF;
  c[1] := c[1] - c[v_position + 2];
  c[v_position + 2] := least(p_weight, greatest(tidegate.most_amount() - c[1], 0));
  c[1] := c[1] + c[v_position + 2];
  RETURN c;
END $$;
