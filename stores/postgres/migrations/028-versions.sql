-- Several versions of one limit at once: rows that are carried to and fro between
-- them, as by servers of which some know of a change already (`core/tests/versions.rs`).

-- The bucket, where some of the level does not count since a burst was lowered: after
-- level and instant a null, what is forgiven, and until when; then as before
-- (003-bucket.sql).

-- What is forgiven of a cell's level.
CREATE FUNCTION tidegate.forgiven(c numeric[]) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF cardinality(c) > 2 AND c[3] IS NULL THEN RETURN c[4]; END IF;
  RETURN 0;
END $$;

-- The cell without it.
CREATE FUNCTION tidegate.unforgiven(c numeric[]) RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF cardinality(c) > 2 AND c[3] IS NULL THEN RETURN c[1 : 2] || c[6 : cardinality(c)]; END IF;
  RETURN c;
END $$;

-- A cell of which nothing is forgiven, with so much forgiven until an instant.
CREATE FUNCTION tidegate.forgive(c numeric[], p_level numeric, p_until numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_level = 0 THEN RETURN c; END IF;
  RETURN c[1 : 2] || ARRAY[NULL, p_level, p_until] || c[3 : cardinality(c)];
END $$;

-- What of the level at an instant counts.
CREATE FUNCTION tidegate.bucket_counted(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN greatest(tidegate.bucket_level(r, c, p_now) - tidegate.forgiven(c), 0);
END $$;

-- Drained up to an instant; the cell's own never moves back here.
CREATE OR REPLACE FUNCTION tidegate.bucket_settled(r tidegate.rule, c numeric[], p_now numeric)
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
  RETURN tidegate.lows_note(c, 0, p_now);
END $$;

CREATE OR REPLACE FUNCTION tidegate.bucket_quote(
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
CREATE OR REPLACE FUNCTION tidegate.bucket_charge(
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
  IF cardinality(c) > 2 THEN c := tidegate.lows_note(c, c[1], p_now); END IF;
  c[1] := least(c[1] + p_amount * r.weight, r.most + v_forgiven);
  IF p_leased AND cardinality(c) = 2 THEN
    c := c || p_now || p_now;
  ELSIF p_leased THEN
    c[4] := greatest(tidegate.later(c[4], 1), p_now);
  END IF;
  RETURN tidegate.forgive(c, v_forgiven, v_until);
END $$;

CREATE OR REPLACE FUNCTION tidegate.bucket_refund(
  r tidegate.rule, c numeric[], p_amount numeric, p_place numeric, p_now numeric)
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
    c := tidegate.lows_give_back(c, p_place, p_amount * r.weight);
    -- What was forgiven is the first to come back: it makes no room.
    v_forgiven := greatest(v_forgiven - (v_level - c[1]), 0);
    IF c[1] = 0 THEN c := tidegate.lows_note(c, 0, p_now); END IF;
  END IF;
  RETURN tidegate.forgive(c, v_forgiven, v_until);
END $$;

-- Remaining, debt, when the next unit is there, when all are.
CREATE OR REPLACE FUNCTION tidegate.bucket_standing(r tidegate.rule, c numeric[], p_now numeric)
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

CREATE OR REPLACE FUNCTION tidegate.bucket_forget_at(r tidegate.rule, c numeric[])
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

-- What is in use stays in use, no more than empty unless there was debt, which stays.
-- What is above that is forgiven.
CREATE OR REPLACE FUNCTION tidegate.bucket_adopt(
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

-- The window's beginning stays, so that it ends however often it is carried to and
-- fro; and no later than by the old rule, if this one's windows are no longer.
CREATE OR REPLACE FUNCTION tidegate.window_adopt(
  r tidegate.rule, c numeric[], p_old tidegate.rule, p_now numeric, p_calendar numeric[])
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_bounds numeric[];
  v_was numeric;
  v_is numeric;
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
  IF r.align = 1 THEN v_bounds[2] := tidegate.later(c[1], r.period); END IF;
  IF v_is > v_was THEN c[2] := v_bounds[2]; ELSE c[2] := least(v_bounds[2], c[2]); END IF;
  IF c[2] <= p_now THEN RETURN NULL; END IF;
  RETURN c;
END $$;

-- Counts that the old rule had let go of stay gone. Where sub-windows differ, a count
-- goes into the one in which its own ended.
CREATE OR REPLACE FUNCTION tidegate.ring_adopt(
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

-- A charge that has left the window, or had left a shorter one, is nobody's to give
-- back: before the oldest entry everything is gone, and the next one is another's.
CREATE OR REPLACE FUNCTION tidegate.log_refund(
  r tidegate.rule, c numeric[], p_amount numeric, p_place numeric, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n integer := cardinality(c);
  i integer := 2;
  v_back numeric;
BEGIN
  IF n = 1 OR p_place < c[2] OR tidegate.later(p_place, r.period) <= p_now THEN RETURN c; END IF;
  WHILE i < n AND c[i] < p_place LOOP i := i + 2; END LOOP;
  IF i > n THEN RETURN c; END IF;
  v_back := least(p_amount, c[i + 1]);
  c[i + 1] := c[i + 1] - v_back;
  c[1] := c[1] - v_back;
  IF c[i + 1] = 0 THEN RETURN c[1 : i - 1] || c[i + 2 : n]; END IF;
  RETURN c;
END $$;

-- As before, by cells of which some may be forgiven.
CREATE OR REPLACE FUNCTION tidegate.place(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN CASE r.kind
    WHEN 1 THEN CASE WHEN c[3] IS NULL THEN c[7] ELSE c[4] END
    WHEN 2 THEN c[1]
    WHEN 3 THEN tidegate.ring_place(r, c, p_now)
    WHEN 4 THEN greatest(p_now, CASE WHEN cardinality(c) > 1 THEN c[cardinality(c) - 1] END)
    ELSE 0 END;
END $$;

-- The latest instant that a cell which a rule wrote tells of.
CREATE FUNCTION tidegate.latest(r tidegate.rule, c numeric[]) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN CASE r.kind
    WHEN 1 THEN c[2]
    WHEN 2 THEN c[1]
    WHEN 3 THEN least(c[cardinality(c) - 1] * r.step, tidegate.never())
    WHEN 4 THEN CASE WHEN cardinality(c) > 1 THEN c[cardinality(c) - 1] END
    END;
END $$;

-- Carries a cell over from the rule that wrote it. Between kinds what is in use stays
-- in use, as if it was taken now; holders of slots do not carry over into a rate, nor
-- the reverse.
CREATE OR REPLACE FUNCTION tidegate.adopt(
  r tidegate.rule, c numeric[], p_old tidegate.rule, p_now numeric, p_calendar numeric[])
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_standing numeric[];
  v_used numeric;
BEGIN
  IF c IS NULL THEN RETURN NULL; END IF;
  -- A change from before the cell was written last is followed as of then.
  p_now := greatest(p_now, tidegate.latest(p_old, c));
  IF r.kind = p_old.kind THEN
    RETURN CASE r.kind
      WHEN 1 THEN tidegate.bucket_adopt(r, c, p_old, p_now)
      WHEN 2 THEN tidegate.window_adopt(r, c, p_old, p_now, p_calendar)
      WHEN 3 THEN tidegate.ring_adopt(r, c, p_old, p_now)
      WHEN 4 THEN tidegate.log_adopt(r, c, p_old, p_now)
      ELSE c END;
  END IF;
  IF r.kind = 5 OR p_old.kind = 5 THEN RETURN NULL; END IF;
  v_standing := tidegate.standing(p_old, c, p_now);
  v_used := p_old.capacity - v_standing[1] + v_standing[2];
  IF p_old.kind = 1 THEN
    v_used := least(tidegate.div_up(tidegate.bucket_level(p_old, c, p_now), p_old.weight),
      tidegate.most_amount());
  END IF;
  IF v_used = 0 THEN RETURN NULL; END IF;
  IF r.kind = 1 THEN
    RETURN tidegate.forgive_above(r, ARRAY[v_used * r.weight, p_now], r.brim,
      greatest(coalesce(v_standing[4], p_now) - p_now, 0));
  END IF;
  RETURN tidegate.charge(r, NULL, v_used, p_now, p_calendar, NULL, NULL);
END $$;
