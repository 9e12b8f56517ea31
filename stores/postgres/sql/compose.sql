-- Several limits, of a key and its ancestors, as one step: all or nothing
-- (`core/src/compose.rs`). Rules and states stand in the plan's order; calendars
-- are three numbers for each, or none at all.

CREATE TYPE tidegate.step AS (
  verdict numeric,
  -- The limit that binds, counted from 1; 0 if none does.
  binding integer,
  verdicts numeric[],
  states tidegate.state[]
);

-- Asks every limit that the key reaches, and charges none.
CREATE FUNCTION tidegate.compose(
  p_rules tidegate.rule[], p_states tidegate.state[], p_amounts numeric[], p_now numeric,
  p_calendars numeric[])
RETURNS tidegate.step LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_step tidegate.step;
  v_verdicts numeric[] := '{}';
  v_highest numeric := tidegate.admit();
  v_binding integer := 0;
  v_verdict numeric;
  v_amount numeric;
  r tidegate.rule;
  c numeric[];
BEGIN
  FOR i IN 1 .. cardinality(p_states) LOOP
    r := p_rules[i];
    c := (p_states[i]).n;
    IF c IS NOT NULL THEN
      c := tidegate.observe(r, c, p_now, p_calendars[3 * i - 2 : 3 * i]);
      p_states[i] := ROW(c)::tidegate.state;
    END IF;
    v_verdict := tidegate.admit();
    v_amount := coalesce(p_amounts[i], 0);
    IF v_amount > 0 THEN
      -- Postpaid: admitted while one unit is left.
      IF r.postpaid THEN v_amount := 1; END IF;
      v_verdict := tidegate.quote(r, c, v_amount, p_now);
    END IF;
    v_verdicts[i] := v_verdict;
    IF v_verdict > v_highest AND NOT r.shadow THEN
      v_highest := v_verdict;
      v_binding := i;
    END IF;
  END LOOP;
  v_step.verdict := v_highest;
  v_step.binding := v_binding;
  v_step.verdicts := v_verdicts;
  v_step.states := p_states;
  RETURN v_step;
END $$;

-- Charges what was admitted: a shadow that would have refused is left alone.
CREATE FUNCTION tidegate.commit_step(
  p_rules tidegate.rule[], p_step tidegate.step, p_amounts numeric[], p_now numeric,
  p_calendars numeric[], p_id numeric, p_until numeric)
RETURNS tidegate.state[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_states tidegate.state[] := p_step.states;
  v_verdicts numeric[] := p_step.verdicts;
BEGIN
  FOR i IN 1 .. cardinality(v_states) LOOP
    IF p_amounts[i] > 0 AND v_verdicts[i] = tidegate.admit() THEN
      v_states[i] := ROW(tidegate.charge(
        p_rules[i], (v_states[i]).n, p_amounts[i], p_now, p_calendars[3 * i - 2 : 3 * i],
        p_id, p_until))::tidegate.state;
    END IF;
  END LOOP;
  RETURN v_states;
END $$;

-- A decision in numbers: what `src/reply.rs` reads. A lease is id, expiry, fence, and
-- whether it was given before, or nulls; when it was granted is the last number, behind
-- the standings.
CREATE FUNCTION tidegate.decision(
  p_rules tidegate.rule[], p_step tidegate.step, p_detail integer, p_now numeric,
  p_refund_at numeric, p_lease numeric[])
RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_refused integer := 0;
  v_shadowed integer := 0;
  v_kind integer := 1;
  v_states tidegate.state[] := p_step.states;
  v_reply numeric[];
  v_detailed boolean;
BEGIN
  FOR i IN 1 .. cardinality(p_step.verdicts) LOOP
    IF p_step.verdicts[i] > tidegate.admit() THEN
      IF (p_rules[i]).shadow THEN
        v_shadowed := 1;
      ELSE
        v_refused := v_refused | (1 << ((p_rules[i]).level - 1));
      END IF;
    END IF;
  END LOOP;
  IF p_step.verdict = tidegate.admit() THEN v_kind := 0; END IF;
  IF p_step.verdict = tidegate.not_ever() THEN v_kind := 2; END IF;
  v_detailed := p_detail = 2 OR (p_detail = 1 AND v_kind > 0);
  v_reply := ARRAY[0, p_now, v_kind, CASE v_kind WHEN 1 THEN p_step.verdict ELSE 0 END,
    p_step.binding, v_refused, v_shadowed, p_refund_at,
    p_lease[1], p_lease[2], p_lease[3], p_lease[4], CASE WHEN v_detailed THEN 1 ELSE 0 END];
  IF v_detailed THEN
    FOR i IN 1 .. cardinality(v_states) LOOP
      v_reply := v_reply || tidegate.standing(p_rules[i], (v_states[i]).n, p_now);
    END LOOP;
  END IF;
  IF p_lease IS NOT NULL THEN v_reply := v_reply || p_lease[5]; END IF;
  RETURN v_reply;
END $$;
