-- One limit and its state (`core/src/rule.rs`): the only dispatch over kernels.
-- Nothing is noted of a key never seen before something is charged.

CREATE FUNCTION tidegate.observe(
  r tidegate.rule, c numeric[], p_now numeric, p_calendar numeric[])
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF c IS NULL THEN RETURN NULL; END IF;
  RETURN CASE r.kind
    WHEN 1 THEN tidegate.bucket_observe(r, c, p_now)
    WHEN 2 THEN tidegate.window_observe(r, c, p_now, p_calendar)
    WHEN 3 THEN tidegate.ring_observe(r, c, p_now)
    WHEN 4 THEN tidegate.log_observe(r, c, p_now)
    ELSE tidegate.slots_observe(r, c, p_now) END;
END $$;

CREATE FUNCTION tidegate.quote(r tidegate.rule, c numeric[], p_amount numeric, p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF c IS NULL THEN
    RETURN CASE WHEN p_amount <= r.capacity THEN tidegate.admit() ELSE tidegate.not_ever() END;
  END IF;
  RETURN CASE r.kind
    WHEN 1 THEN tidegate.bucket_quote(r, c, p_amount, p_now)
    WHEN 2 THEN tidegate.window_quote(r, c, p_amount, p_now)
    WHEN 3 THEN tidegate.ring_quote(r, c, p_amount, p_now)
    WHEN 4 THEN tidegate.log_quote(r, c, p_amount, p_now)
    ELSE tidegate.slots_quote(r, c, p_amount, p_now) END;
END $$;

-- For the lease of an id, if there is one. Slots without one nobody could give
-- back, so none are taken.
CREATE FUNCTION tidegate.charge(
  r tidegate.rule, c numeric[], p_amount numeric, p_now numeric, p_calendar numeric[],
  p_id numeric, p_expires_at numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN CASE r.kind
    WHEN 1 THEN tidegate.bucket_charge(r, c, p_amount, p_now, p_id IS NOT NULL)
    WHEN 2 THEN tidegate.window_charge(r, c, p_amount, p_now, p_calendar)
    WHEN 3 THEN tidegate.ring_charge(r, c, p_amount, p_now)
    WHEN 4 THEN tidegate.log_charge(r, c, p_amount, p_now)
    ELSE CASE WHEN p_id IS NULL THEN c
      ELSE tidegate.slots_grant(c, p_id, p_amount, p_expires_at, p_now) END END;
END $$;

-- Where what a lease was charged at an instant was booked, by the state as it is
-- after that. Of a charge that was more than a state can say, nothing is given back:
-- nobody could tell it from what others had used (`core/src/rule.rs`, `Place::NOWHERE`).
CREATE FUNCTION tidegate.reference(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_is_cut boolean := CASE r.kind
    WHEN 1 THEN c[1] >= r.most + tidegate.forgiven(c)
    WHEN 2 THEN c[3] >= tidegate.most_amount()
    WHEN 3 THEN tidegate.ring_used(r, c, p_now) >= tidegate.most_amount()
    WHEN 4 THEN tidegate.log_used(r, c, p_now) >= tidegate.most_amount()
    ELSE false END;
BEGIN
  IF v_is_cut THEN RETURN -9007199254740992; END IF;
  RETURN CASE r.kind
    WHEN 1 THEN CASE WHEN c[3] IS NULL THEN c[7] ELSE c[4] END
    WHEN 2 THEN c[1]
    WHEN 3 THEN tidegate.ring_reference(r, c, p_now)
    WHEN 4 THEN greatest(p_now, CASE WHEN cardinality(c) > 1 THEN c[cardinality(c) - 1] END)
    ELSE 0 END;
END $$;

CREATE FUNCTION tidegate.refund(
  r tidegate.rule, c numeric[], p_amount numeric, p_reference numeric, p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF c IS NULL THEN RETURN NULL; END IF;
  RETURN CASE r.kind
    WHEN 1 THEN tidegate.bucket_refund(r, c, p_amount, p_reference, p_now)
    WHEN 2 THEN tidegate.window_refund(c, p_amount, p_reference)
    WHEN 3 THEN tidegate.ring_refund(c, p_amount, p_reference)
    WHEN 4 THEN tidegate.log_refund(r, c, p_amount, p_reference, p_now)
    ELSE c END;
END $$;

-- Remaining, debt, and if anything is used, when the next is there and when all.
CREATE FUNCTION tidegate.standing(r tidegate.rule, c numeric[], p_now numeric)
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF c IS NULL THEN RETURN ARRAY[r.capacity, 0, NULL, NULL]; END IF;
  RETURN CASE r.kind
    WHEN 1 THEN tidegate.bucket_standing(r, c, p_now)
    WHEN 2 THEN tidegate.window_standing(r, c, p_now)
    WHEN 3 THEN tidegate.ring_standing(r, c, p_now)
    WHEN 4 THEN tidegate.log_standing(r, c, p_now)
    ELSE tidegate.slots_standing(r, c, p_now) END;
END $$;

CREATE FUNCTION tidegate.forget_at(r tidegate.rule, c numeric[])
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF c IS NULL THEN RETURN tidegate.beginning(); END IF;
  RETURN CASE r.kind
    WHEN 1 THEN tidegate.bucket_forget_at(r, c)
    WHEN 2 THEN tidegate.window_forget_at(r, c)
    WHEN 3 THEN tidegate.ring_forget_at(r, c)
    WHEN 4 THEN tidegate.log_forget_at(r, c)
    ELSE tidegate.slots_forget_at(c) END;
END $$;

-- Carries a state over from the rule that wrote it. Between kinds what is in use stays
-- in use, as if it was taken now; holders of slots do not carry over into a rate, nor
-- the reverse.
CREATE FUNCTION tidegate.adopt(
  r tidegate.rule, c numeric[], p_old tidegate.rule, p_now numeric, p_calendar numeric[])
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_standing numeric[];
  v_used numeric;
BEGIN
  IF c IS NULL THEN RETURN NULL; END IF;
  -- A change from before the state was written last is followed as of then.
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
