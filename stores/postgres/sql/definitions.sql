-- Definitions that others follow: each owner's have a version, which every change raises
-- in its own transaction. It is the server's clock in microseconds, and one more where that
-- stands: it grows also after a failover that has lost the last ones.

-- What is defined for an owner, until `ends_at` (null: until it is removed), and the version
-- of its last change; a key as an index holds it, and a long one whole.
CREATE TABLE tidegate.definitions (
  owner text NOT NULL,
  key bytea NOT NULL,
  long_key bytea,
  value bytea NOT NULL,
  version bigint NOT NULL,
  ends_at bigint,
  PRIMARY KEY (owner, key)
);
CREATE INDEX definitions_ends ON tidegate.definitions (owner, ends_at) WHERE ends_at IS NOT NULL;

-- Whoever has the owner's row goes first: versions are committed in their order.
CREATE TABLE tidegate.definition_versions (
  owner text PRIMARY KEY,
  version bigint NOT NULL,
  events bigint NOT NULL
);

-- Which keys the last 1024 changes changed or removed; a key as an index holds it, and a long
-- one whole. Whoever knows a version that is not here is told everything.
CREATE TABLE tidegate.definition_changes (
  owner text NOT NULL,
  key bytea NOT NULL,
  long_key bytea,
  version bigint NOT NULL,
  PRIMARY KEY (owner, version)
);

-- What is told of changes, each with the version of its own; a subject as an index holds it,
-- and a long one whole.
CREATE TABLE tidegate.definition_events (
  owner text NOT NULL,
  version bigint NOT NULL,
  subject bytea NOT NULL,
  long_subject bytea,
  body bytea NOT NULL,
  at bigint NOT NULL,
  ends_at bigint NOT NULL,
  most bigint NOT NULL,
  PRIMARY KEY (owner, version)
);
CREATE INDEX definition_events_subject ON tidegate.definition_events (owner, subject, version);
CREATE INDEX definition_events_ends ON tidegate.definition_events (owner, ends_at);

-- Notes that a key was changed at a version.
CREATE FUNCTION tidegate.note_definition(p_owner text, p_key bytea, p_version bigint)
RETURNS void LANGUAGE sql AS $$
  INSERT INTO tidegate.definition_changes (owner, key, long_key, version)
  VALUES (p_owner, tidegate.short(p_key), CASE WHEN length(p_key) > 255 THEN p_key END, p_version);
  DELETE FROM tidegate.definition_changes WHERE owner = p_owner AND version <= (
    SELECT version FROM tidegate.definition_changes
    WHERE owner = p_owner ORDER BY version DESC OFFSET 1024 LIMIT 1);
$$;

-- Keeps an event. Those that are over go, and the oldest of more than `p_most`, a hundred of
-- either at once. How many more there are then.
CREATE FUNCTION tidegate.tell_definition(p_owner text, p_version bigint, p_now bigint,
  p_events bigint, p_subject bytea, p_body bytea, p_keeps bigint, p_most bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_over bigint;
  v_surplus bigint;
BEGIN
  DELETE FROM tidegate.definition_events WHERE owner = p_owner AND version IN (
    SELECT version FROM tidegate.definition_events
    WHERE owner = p_owner AND ends_at <= p_now ORDER BY ends_at LIMIT 100);
  GET DIAGNOSTICS v_over = ROW_COUNT;
  v_surplus := least(p_events - v_over + 1 - p_most, 100);
  IF v_surplus > 0 THEN
    DELETE FROM tidegate.definition_events WHERE owner = p_owner AND version IN (
      SELECT version FROM tidegate.definition_events
      WHERE owner = p_owner ORDER BY version LIMIT v_surplus);
    GET DIAGNOSTICS v_surplus = ROW_COUNT;
  END IF;
  INSERT INTO tidegate.definition_events (owner, version, subject, long_subject, body, at,
    ends_at, most)
  VALUES (p_owner, p_version, tidegate.short(p_subject),
    CASE WHEN length(p_subject) > 255 THEN p_subject END, p_body, p_now, p_now + p_keeps, p_most);
  RETURN 1 - v_over - greatest(v_surplus, 0);
END $$;

-- Makes a change, and tells those who listen. `p_expected`: the version that the key must
-- have (null: any, 0: nothing there); `p_body`: null for no event. Answers whether it was
-- made (null: nothing is there that could be removed), and then its version; else what is
-- there, and what is left to it.
CREATE FUNCTION tidegate.change_definition(p_owner text, p_key bytea, p_value bytea,
  p_lasts bigint, p_expected bigint, p_subject bytea, p_body bytea, p_keeps bigint,
  p_most bigint, OUT o_made boolean, OUT o_version bigint, OUT o_value bytea, OUT o_left bigint)
LANGUAGE plpgsql AS $$
DECLARE
  v_key bytea := tidegate.short(p_key);
  v_owner tidegate.definition_versions;
  v_there tidegate.definitions;
  v_now bigint;
  v_version bigint;
  v_events bigint := 0;
BEGIN
  SELECT * INTO v_owner FROM tidegate.definition_versions WHERE owner = p_owner FOR UPDATE;
  IF NOT FOUND THEN
    INSERT INTO tidegate.definition_versions (owner, version, events)
    VALUES (p_owner, 0, 0) ON CONFLICT (owner) DO NOTHING;
    SELECT * INTO v_owner FROM tidegate.definition_versions WHERE owner = p_owner FOR UPDATE;
  END IF;
  v_now := tidegate.clock();
  SELECT * INTO v_there FROM tidegate.definitions
  WHERE owner = p_owner AND key = v_key AND (ends_at IS NULL OR ends_at > v_now);
  IF p_expected IS NOT NULL AND p_expected <> coalesce(v_there.version, 0) THEN
    o_made := false;
    o_version := v_there.version;
    o_value := v_there.value;
    o_left := v_there.ends_at - v_now;
    RETURN;
  END IF;
  IF p_value IS NULL AND v_there.version IS NULL THEN
    RETURN;
  END IF;
  v_version := greatest(v_owner.version + 1, v_now);
  IF p_value IS NULL THEN
    DELETE FROM tidegate.definitions WHERE owner = p_owner AND key = v_key;
  ELSE
    INSERT INTO tidegate.definitions (owner, key, long_key, value, version, ends_at)
    VALUES (p_owner, v_key, CASE WHEN length(p_key) > 255 THEN p_key END, p_value, v_version,
      v_now + p_lasts)
    ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value, version = excluded.version,
      ends_at = excluded.ends_at;
  END IF;
  IF p_lasts IS NOT NULL THEN
    -- Those that are over are over everywhere: nobody needs to be told.
    DELETE FROM tidegate.definitions WHERE owner = p_owner AND key IN (
      SELECT key FROM tidegate.definitions
      WHERE owner = p_owner AND ends_at <= v_now ORDER BY ends_at LIMIT 100);
  END IF;
  PERFORM tidegate.note_definition(p_owner, p_key, v_version);
  IF p_body IS NOT NULL THEN
    v_events := tidegate.tell_definition(p_owner, v_version, v_now, v_owner.events, p_subject,
      p_body, p_keeps, p_most);
  END IF;
  UPDATE tidegate.definition_versions
  SET version = v_version, events = events + v_events WHERE owner = p_owner;
  PERFORM pg_notify('tidegate_defined', '');
  o_made := true;
  o_version := v_version;
END $$;
