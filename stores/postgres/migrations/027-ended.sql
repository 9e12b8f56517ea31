-- As before, but in words that PostgreSQL 13 knows, too: there an integer is no
-- beginning of an array of other numbers.
CREATE OR REPLACE FUNCTION tidegate.end_lease(
  a tidegate.command, e tidegate.editions, p_cells tidegate.cell[])
RETURNS tidegate.outcome LANGUAGE plpgsql AS $$
DECLARE
  v_out tidegate.outcome;
  v_lease tidegate.leases;
  v_settlement numeric[];
BEGIN
  v_out.cells := p_cells;
  SELECT * INTO v_lease FROM tidegate.leases
  WHERE tab = a.tab AND root = a.root AND id = a.id AND owner = a.key;
  IF NOT FOUND THEN
    v_out.reply := ARRAY[5, a.now, 0, 0];
    RETURN v_out;
  END IF;
  IF v_lease.stage = 2 THEN
    v_settlement := v_lease.settlement;
    v_out.reply := ARRAY[1, a.now, v_settlement[1], 1]
      || v_settlement[2 : cardinality(v_settlement)];
    RETURN v_out;
  END IF;
  v_out := tidegate.end_shares(a, e, v_lease, p_cells);
  v_settlement := (v_lease.expires_at <= a.now)::integer::numeric || v_out.reply;
  IF a.remember OR v_lease.ask IS NOT NULL THEN
    UPDATE tidegate.leases SET stage = 2, settlement = v_settlement, number = DEFAULT,
      due = tidegate.later(a.now, e.keep)
    WHERE tab = a.tab AND root = a.root AND id = a.id;
  ELSE
    DELETE FROM tidegate.leases WHERE tab = a.tab AND root = a.root AND id = a.id;
  END IF;
  v_out.leases_changed := true;
  v_out.reply := ARRAY[1, a.now, v_settlement[1], 0] || v_out.reply;
  RETURN v_out;
END $$;
