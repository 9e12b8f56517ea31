-- The advisory lock of a name: for `pg_advisory_lock`, or in a transaction of
-- one's own for `pg_advisory_xact_lock`.
CREATE FUNCTION tidegate.lock_key(p_name text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT hashtextextended(p_name, 8388065) $$;
