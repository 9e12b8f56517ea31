-- Of a charge that was more than a cell can say, nothing is given back: nobody could tell
-- it from what others had used (`core/src/rule.rs`, `Place::NOWHERE`).

CREATE OR REPLACE FUNCTION tidegate.place(r tidegate.rule, c numeric[], p_now numeric)
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
    WHEN 3 THEN tidegate.ring_place(r, c, p_now)
    WHEN 4 THEN greatest(p_now, CASE WHEN cardinality(c) > 1 THEN c[cardinality(c) - 1] END)
    ELSE 0 END;
END $$;
