-- One step: rows that equal "never seen", leases that are due, and those whose session
-- has ended, of the p_most rows behind a place. It waits for no lock, and one at a time
-- runs; others go away at once. Answers how many rows it looked after, and where to go
-- on: nowhere if that is null. For what is due it has p_micros; a root that has more of
-- it is the first of the next step.
CREATE FUNCTION tidegate.prune(
  p_tab integer, p_key bytea, p_most integer, p_micros bigint,
  OUT pruned integer, OUT next_tab integer, OUT next_key bytea)
LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := tidegate.clock();
  v_end timestamptz := clock_timestamp() + p_micros * interval '1 microsecond';
  v_to_tab integer;
  v_to_key bytea;
  v_root record;
  v_done boolean := true;
BEGIN
  pruned := 0;
  IF NOT pg_try_advisory_xact_lock(8388065899374830693) THEN RETURN; END IF;
  SELECT r.tab, r.key INTO next_tab, next_key FROM tidegate.rows r
  WHERE (r.tab, r.key) > (p_tab, p_key) ORDER BY r.tab, r.key OFFSET p_most - 1 LIMIT 1;
  v_to_tab := coalesce(next_tab, 2147483647);
  v_to_key := coalesce(next_key, '');
  -- For as long as a clock may stand still a row stays.
  DELETE FROM tidegate.rows WHERE (tab, key) IN (
    SELECT r.tab, r.key FROM tidegate.rows r
    WHERE (r.tab, r.key) > (p_tab, p_key) AND (r.tab, r.key) <= (v_to_tab, v_to_key)
      AND tidegate.forget_at(r) < v_now - 10000000 AND r.latest < v_now - 10000000
      AND r.due = 9223372036854775807 AND r.line_until <= v_now
    FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS pruned = ROW_COUNT;
  FOR v_root IN
    SELECT r.tab, r.key, r.due, s.newest
    FROM tidegate.rows r JOIN tidegate.sets s ON s.tab = r.tab
    WHERE (r.tab, r.key) > (p_tab, p_key) AND (r.tab, r.key) <= (v_to_tab, v_to_key)
      AND r.due < 9223372036854775807
    ORDER BY r.tab, r.key
  LOOP
    CONTINUE WHEN v_root.due > v_now AND NOT EXISTS (SELECT FROM tidegate.leases
      WHERE tab = v_root.tab AND root = v_root.key AND session IS NOT NULL AND stage = 0);
    PERFORM FROM tidegate.rows
    WHERE tab = v_root.tab AND key = v_root.key FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    IF tidegate.free_ended(v_root.tab, v_root.key, v_now) OR v_root.due <= v_now THEN
      pruned := pruned + 1;
      LOOP
        v_done := tidegate.catch_up(v_root.tab, v_root.key, v_root.newest, v_now, false);
        EXIT WHEN v_done OR clock_timestamp() > v_end;
      END LOOP;
    END IF;
    IF v_done THEN
      p_tab := v_root.tab;
      p_key := v_root.key;
    END IF;
    IF clock_timestamp() > v_end THEN
      next_tab := p_tab;
      next_key := p_key;
      RETURN;
    END IF;
  END LOOP;
END $$;
