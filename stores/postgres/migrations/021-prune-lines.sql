-- As before, but a root under which somebody stands in line stays: its row says so.
CREATE OR REPLACE FUNCTION tidegate.prune(p_most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := tidegate.clock();
  v_count integer := 0;
  v_deleted integer;
  v_row record;
BEGIN
  IF NOT pg_try_advisory_xact_lock(8388065899374830693) THEN RETURN 0; END IF;
  FOR v_row IN
    SELECT r.tab, r.key FROM tidegate.rows r WHERE (r.tab, r.key) IN (
      SELECT tab, root FROM tidegate.leases WHERE session IS NOT NULL AND stage = 0)
    LIMIT p_most FOR UPDATE OF r SKIP LOCKED
  LOOP
    IF tidegate.free_ended(v_row.tab, v_row.key, v_now) THEN v_count := v_count + 1; END IF;
  END LOOP;
  FOR v_row IN
    SELECT r.tab, r.key, s.newest FROM tidegate.rows r JOIN tidegate.sets s ON s.tab = r.tab
    WHERE r.due <= v_now LIMIT p_most FOR UPDATE OF r SKIP LOCKED
  LOOP
    PERFORM tidegate.catch_up(v_row.tab, v_row.key, v_row.newest, v_now, false);
    v_count := v_count + 1;
  END LOOP;
  -- For as long as a clock may stand still it stays.
  DELETE FROM tidegate.rows WHERE (tab, key) IN (
    SELECT tab, key FROM tidegate.rows
    WHERE forget_at < v_now - 10000000 AND latest < v_now - 10000000
      AND due = 9223372036854775807 AND line_until <= v_now
    LIMIT p_most FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_deleted = ROW_COUNT;
  RETURN greatest(v_count, v_deleted);
END $$;
