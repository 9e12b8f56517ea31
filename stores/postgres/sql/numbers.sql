-- Whole numbers and instants. All of them are `numeric` here, so that none
-- overflows; an instant stays between -2^63 and 2^63 - 1 microseconds, as in
-- `core/src/time.rs`, and the latest means never.

-- A verdict is the instant from which the work may start: now and never ever
-- are beyond both ends.
CREATE FUNCTION tidegate.admit() RETURNS numeric LANGUAGE sql IMMUTABLE AS
$$ SELECT -1e30 $$;

CREATE FUNCTION tidegate.not_ever() RETURNS numeric LANGUAGE sql IMMUTABLE AS
$$ SELECT 1e30 $$;

-- The largest amount: 2^53 - 1.
CREATE FUNCTION tidegate.most_amount() RETURNS numeric LANGUAGE sql IMMUTABLE AS
$$ SELECT 9007199254740991::numeric $$;

CREATE FUNCTION tidegate.beginning() RETURNS numeric LANGUAGE sql IMMUTABLE AS
$$ SELECT -9223372036854775808::numeric $$;

CREATE FUNCTION tidegate.never() RETURNS numeric LANGUAGE sql IMMUTABLE AS
$$ SELECT 9223372036854775807::numeric $$;

-- An instant, moved by so many microseconds: at the ends of time it stays.
CREATE FUNCTION tidegate.later(p_at numeric, p_micros numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE AS
$$ SELECT least(p_at + p_micros, 9223372036854775807) $$;

CREATE FUNCTION tidegate.earlier(p_at numeric, p_micros numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE AS
$$ SELECT greatest(p_at - p_micros, -9223372036854775808) $$;

-- What is left of `a` by `b`, from 0 on also where `a` is negative.
CREATE FUNCTION tidegate.modulo(a numeric, b numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE AS
$$ SELECT mod(mod(a, b) + b, b) $$;

CREATE FUNCTION tidegate.floor_div(a numeric, b numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE AS
$$ SELECT div(a - mod(mod(a, b) + b, b), b) $$;

-- `a` by `b`, rounded up; `a` is not negative.
CREATE FUNCTION tidegate.div_up(a numeric, b numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE AS
$$ SELECT div(a + b - 1, b) $$;

-- By a float's seconds: exact to the microsecond until 2041, within one after that,
-- and never backwards.
CREATE FUNCTION tidegate.clock() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint $$;

-- A key as an index holds it: a long one by its beginning and its hash. (No key
-- of 255 bytes or less has 256.)
CREATE FUNCTION tidegate.short(p_key bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN length(p_key) < 256 THEN p_key
   ELSE substring(p_key FROM 1 FOR 224) || sha256(p_key) END $$;

-- The name of the row at a level of a key of which this is where its ancestors end, and
-- the key itself (`store/src/key.rs`): a prefix, or of a path of entities, which begins with
-- a slash, its root and the one id.
CREATE FUNCTION tidegate.row_name(p_key bytea, p_ends integer[], p_level integer)
RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE
   WHEN get_byte(p_key, 0) <> 47 OR cardinality(p_ends) = 1
     THEN substring(p_key FROM 1 FOR p_ends[p_level])
   WHEN p_level = 1 THEN substring(p_key FROM 2 FOR p_ends[1] - 1)
   ELSE substring(p_key FROM 1 FOR p_ends[1])
     || substring('\x2f2f2f2f2f2f2f2f'::bytea FROM 1 FOR p_level - 1)
     || substring(p_key FROM p_ends[p_level - 1] + 2
       FOR p_ends[p_level] - p_ends[p_level - 1] - 1) END $$;

-- The advisory lock of a name: for `pg_advisory_lock`, or in a transaction of
-- one's own for `pg_advisory_xact_lock`.
CREATE FUNCTION tidegate.lock_key(p_name text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT hashtextextended(p_name, 8388065) $$;
