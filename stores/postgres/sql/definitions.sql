-- Definitions that others follow: each owner's have a version, which every change raises
-- in its own transaction, whoever makes it. It is the server's clock in microseconds, and
-- one more where that stands: it grows also after a failover that has lost the last ones.

-- What is defined for an owner, until `ends_at` (null: until it is removed); a key as an
-- index holds it, and a long one whole.
CREATE TABLE tidegate.definitions (
  owner text NOT NULL,
  key bytea NOT NULL,
  long_key bytea,
  value bytea NOT NULL,
  ends_at bigint,
  PRIMARY KEY (owner, key)
);

-- Who knows less than the floor is given everything.
CREATE TABLE tidegate.definition_versions (
  owner text PRIMARY KEY,
  version bigint NOT NULL,
  floor bigint NOT NULL
);

-- The keys that were changed last, removed ones with them; a key as an index holds it,
-- and a long one whole.
CREATE TABLE tidegate.definition_changes (
  owner text NOT NULL,
  key bytea NOT NULL,
  long_key bytea,
  version bigint NOT NULL,
  PRIMARY KEY (owner, key)
);
CREATE INDEX definition_changes_version ON tidegate.definition_changes (owner, version);

-- Notes a change, and tells those who listen; of 4096 keys it is remembered. (Whoever
-- has the owner's row goes first: versions are committed in their order.)
CREATE FUNCTION tidegate.note_definition() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  v_row tidegate.definitions;
  v_version bigint;
  v_floor bigint;
BEGIN
  v_row := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
  -- What was there before the first has no version: so the floor is not 0.
  INSERT INTO tidegate.definition_versions AS v (owner, version, floor)
  VALUES (v_row.owner, tidegate.clock(), 1)
  ON CONFLICT (owner) DO UPDATE SET version = greatest(v.version + 1, excluded.version)
  RETURNING version INTO v_version;
  INSERT INTO tidegate.definition_changes (owner, key, long_key, version)
  VALUES (v_row.owner, v_row.key, v_row.long_key, v_version)
  ON CONFLICT (owner, key) DO UPDATE SET version = excluded.version;
  SELECT version INTO v_floor FROM tidegate.definition_changes
  WHERE owner = v_row.owner ORDER BY version DESC OFFSET 4096 LIMIT 1;
  IF FOUND THEN
    DELETE FROM tidegate.definition_changes WHERE owner = v_row.owner AND version <= v_floor;
    UPDATE tidegate.definition_versions SET floor = v_floor WHERE owner = v_row.owner;
  END IF;
  PERFORM pg_notify('tidegate_defined', '');
  RETURN NULL;
END $$;

CREATE TRIGGER definitions_noted AFTER INSERT OR UPDATE OR DELETE ON tidegate.definitions
FOR EACH ROW EXECUTE FUNCTION tidegate.note_definition();
