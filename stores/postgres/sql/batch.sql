-- Several commands of one root as one statement: each as it would be by itself, in order. What is
-- decided, and how, is for those who decide one (`tidegate.decide`, and the fast paths of
-- plain.sql); this goes through them, with the root's row locked if p_locks_root says so: then nobody
-- else decides there in between, and all are decided at one instant.

-- One command of a batch, with p_now as the instant that decides (verbs.sql).
-- Ways: 0 decide, 1 take_plain, 2 take_set, 3 end_set. p_limits are those of plain.sql, p_keep is
-- for how long an ended lease is remembered. p_counted: the plan counts usage. Lists are in braces.
-- Null for an admitted take of which no more is asked for.
CREATE FUNCTION tidegate.one_of_batch(
  p_tab integer, p_revision bigint, p_now bigint, p_caller boolean, p_calendars bigint[],
  p_limits bigint[], p_keep numeric, p_way integer, p_key bytea, p_ends text, p_rules text,
  p_own text, p_verb integer, p_amounts text, p_detail integer, p_id text, p_until numeric,
  p_idempotency bytea, p_ending integer, p_used text, p_remember boolean, p_counted boolean)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_patience bigint := CASE WHEN p_caller THEN 0 ELSE 10000000 END;
  v_amounts bigint[] := p_amounts::bigint[];
BEGIN
  CASE p_way
    WHEN 1 THEN
      IF p_counted THEN
        RETURN tidegate.take_counted(p_tab, p_revision, p_now, p_caller, p_key, v_amounts[1],
          p_detail, p_limits[4], p_limits[6], v_amounts[1] * p_limits[5], v_patience);
      END IF;
      IF p_detail = 2 THEN
        RETURN tidegate.take_plain_and_tell(p_tab, p_revision, p_now, p_caller, p_key, v_amounts[1],
          p_detail, p_limits[4], p_limits[6], v_amounts[1] * p_limits[5], v_patience);
      END IF;
      RETURN tidegate.take_plain(p_tab, p_revision, p_now, p_caller, p_key, v_amounts[1],
        p_detail, p_limits[4], p_limits[6], v_amounts[1] * p_limits[5], v_patience);
    WHEN 2 THEN
      RETURN tidegate.take_set(p_tab, p_revision, p_now, p_caller, p_key, p_limits, v_amounts,
        p_detail, p_id::numeric, p_until::bigint, p_idempotency, p_counted => p_counted,
        p_least => nullif(p_used::bigint[], '{}'));
    WHEN 3 THEN
      RETURN tidegate.end_set(p_tab, p_revision, p_now, p_caller, p_key, p_limits, p_keep,
        p_id::numeric, p_ending, p_used::bigint[], p_remember, p_counted);
    ELSE
      RETURN tidegate.decide(p_tab, p_revision, p_now, p_caller, p_key, p_ends::integer[],
        p_rules::numeric[], p_own::boolean[], p_calendars, p_verb, v_amounts, p_detail,
        p_id::numeric, p_until::bigint, p_idempotency, p_ending, p_used::bigint[], p_remember,
        NULL);
  END CASE;
END $$;

-- p_now is the caller's clock, and decides if p_caller says so; p_at is the instant at which the
-- first of the batch were decided, null if these are. p_root is the key of the root. Answers the
-- instant, then each command in order, as who decides it does. Behind one that is to be called
-- again, since not all that is due was done, nothing is decided: the rest is another call.
CREATE FUNCTION tidegate.batch(
  p_tab integer, p_revision bigint, p_now bigint, p_caller boolean, p_root bytea, p_at bigint,
  p_calendars bigint[], p_limits bigint[], p_keep numeric, p_ways integer[], p_keys bytea[],
  p_ends text[], p_rules text[], p_own text[], p_verbs integer[], p_amounts text[],
  p_details integer[], p_ids text[], p_untils bigint[], p_idempotency bytea[],
  p_endings integer[], p_used text[], p_remember boolean[], p_counted boolean,
  p_locks_root boolean)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  v record;
  v_at bigint := p_now;
  -- Null: the instant that is given decides, by whomever's clock.
  v_caller boolean := CASE WHEN p_locks_root THEN nullif(p_caller, false) ELSE p_caller END;
  v_sync text := current_setting('synchronous_commit');
  v_waits_for_disk boolean := false;
  v_reply text;
  v_replies text[];
BEGIN
  IF p_locks_root THEN
    PERFORM FROM tidegate.rows WHERE tab = p_tab AND key = tidegate.short(p_root) FOR UPDATE;
  END IF;
  IF NOT p_caller THEN v_at := coalesce(p_at, tidegate.clock()); END IF;
  v_replies := ARRAY[v_at::text];
  FOR v IN
    SELECT * FROM unnest(p_ways, p_keys, p_ends, p_rules, p_own, p_verbs, p_amounts, p_details,
      p_ids, p_untils, p_idempotency, p_endings, p_used, p_remember)
      AS items (way, key, ends, rules, own, verb, amounts, detail, id, until, idempotency, ending,
        used, remember)
  LOOP
    v_reply := tidegate.one_of_batch(p_tab, p_revision, v_at, v_caller, p_calendars, p_limits,
      p_keep, v.way, v.key, v.ends, v.rules, v.own, v.verb, v.amounts, v.detail, v.id,
      CASE WHEN p_caller THEN v.until ELSE tidegate.later(v.until, v_at::numeric - p_now) END,
      v.idempotency, v.ending, v.used, v.remember, p_counted);
    v_replies := v_replies || v_reply;
    -- The commit waits for the disk unless each of them has switched that off, or is a refusal by a
    -- plain row ('-...').
    IF current_setting('synchronous_commit') = v_sync THEN
      v_waits_for_disk := v_waits_for_disk OR v_reply IS NULL OR v_reply NOT LIKE '-%';
    ELSE
      PERFORM set_config('synchronous_commit', v_sync, true);
    END IF;
    EXIT WHEN v_reply LIKE '{4,%';
  END LOOP;
  IF NOT v_waits_for_disk THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  RETURN v_replies;
END $$;
