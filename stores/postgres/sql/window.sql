-- The window (`core/src/kernel/window.rs`). A state is start, end and used. A
-- calendar is the start of a window, its end, and the end of the next one.

-- The window that holds an instant: its beginning and its end.
CREATE FUNCTION tidegate.window_bounds(r tidegate.rule, p_now numeric, p_calendar numeric[])
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  -- No boundaries were given: a day of UTC is the calendar's least surprise.
  v_length numeric := CASE r.align WHEN 2 THEN 86400000000 ELSE r.period END;
  v_start numeric;
BEGIN
  IF r.align = 1 THEN RETURN ARRAY[p_now, tidegate.later(p_now, v_length)]; END IF;
  IF r.align = 2 AND p_calendar[1] IS NOT NULL THEN
    IF p_now < p_calendar[2] THEN RETURN p_calendar[1 : 2]; END IF;
    RETURN p_calendar[2 : 3];
  END IF;
  v_start := tidegate.earlier(p_now, tidegate.modulo(p_now, v_length));
  RETURN ARRAY[v_start, tidegate.later(v_start, v_length)];
END $$;

CREATE FUNCTION tidegate.window_observe(
  r tidegate.rule, c numeric[], p_now numeric, p_calendar numeric[])
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_bounds numeric[];
BEGIN
  IF c[3] = 0 OR c[1] <= p_now THEN RETURN c; END IF;
  v_bounds := tidegate.window_bounds(r, p_now, p_calendar);
  IF c[1] - p_now > v_bounds[2] - v_bounds[1] THEN
    RETURN ARRAY[v_bounds[1], tidegate.later(p_now, v_bounds[2] - v_bounds[1]), c[3]];
  END IF;
  RETURN c;
END $$;

CREATE FUNCTION tidegate.window_quote(
  r tidegate.rule, c numeric[], p_amount numeric, p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_amount > r.capacity THEN RETURN tidegate.not_ever(); END IF;
  IF p_now < c[2] AND c[3] + p_amount > r.capacity THEN RETURN c[2]; END IF;
  RETURN tidegate.admit();
END $$;

CREATE FUNCTION tidegate.window_charge(
  r tidegate.rule, c numeric[], p_amount numeric, p_now numeric, p_calendar numeric[])
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF c IS NULL OR p_now >= c[2] THEN
    c := tidegate.window_bounds(r, p_now, p_calendar) || 0::numeric;
  END IF;
  c[3] := least(c[3] + p_amount, tidegate.most_amount());
  RETURN c;
END $$;

CREATE FUNCTION tidegate.window_refund(c numeric[], p_amount numeric, p_reference numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF c[1] = p_reference THEN c[3] := greatest(c[3] - p_amount, 0); END IF;
  RETURN c;
END $$;

CREATE FUNCTION tidegate.window_standing(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_now >= c[2] OR c[3] = 0 THEN RETURN ARRAY[r.capacity, 0, NULL, NULL]; END IF;
  RETURN ARRAY[greatest(r.capacity - c[3], 0), greatest(c[3] - r.capacity, 0), c[2], c[2]];
END $$;

-- One begun by first use is a state even when all of it was refunded.
CREATE FUNCTION tidegate.window_forget_at(r tidegate.rule, c numeric[])
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  -- To a clock that steps back behind its beginning, it is open already.
  IF c[3] = 0 AND r.align <> 1 THEN RETURN c[1]; END IF;
  RETURN c[2];
END $$;

-- The window's beginning stays, so that it ends however often it is carried to and
-- fro; and no later than by the old rule, if this one's windows are no longer, or it
-- did not begin in the one that this rule sees now.
CREATE FUNCTION tidegate.window_adopt(
  r tidegate.rule, c numeric[], p_old tidegate.rule, p_now numeric, p_calendar numeric[])
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_bounds numeric[];
  v_was numeric;
  v_is numeric;
  v_holds_start boolean;
BEGIN
  IF p_now >= c[2] THEN RETURN NULL; END IF;
  IF r.align = p_old.align AND r.period IS NOT DISTINCT FROM p_old.period
    AND p_calendar[1] IS NULL THEN
    RETURN c;
  END IF;
  v_bounds := tidegate.window_bounds(r, p_now, p_calendar);
  -- Boundaries of a change long ago say nothing of this window.
  IF v_bounds[2] <= p_now THEN RETURN c; END IF;
  v_was := CASE p_old.align WHEN 2 THEN c[2] - c[1] ELSE p_old.period END;
  v_is := CASE r.align WHEN 2 THEN v_bounds[2] - v_bounds[1] ELSE r.period END;
  v_holds_start := v_bounds[1] <= c[1];
  IF r.align = 1 AND tidegate.later(c[1], r.period) > p_now THEN
    v_holds_start := true;
    v_bounds[2] := tidegate.later(c[1], r.period);
  END IF;
  IF v_is > v_was AND v_holds_start THEN
    c[2] := v_bounds[2];
  ELSE
    c[2] := least(v_bounds[2], c[2]);
  END IF;
  RETURN c;
END $$;
