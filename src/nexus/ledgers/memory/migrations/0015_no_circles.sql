-- No chain of replacements leads back to where it began, and no decision about a fact undoes "both are true".
DROP TRIGGER rejected_facts_replace_nothing;
DROP TRIGGER reopened_facts_replace_again;

CREATE TRIGGER successions_form_no_circles BEFORE INSERT ON fact_successions
WHEN NEW.old_fact_id IN (
  WITH RECURSIVE later (id) AS (
    SELECT NEW.new_fact_id UNION SELECT l.new_fact_id FROM later JOIN fact_successions AS l ON l.old_fact_id = later.id)
  SELECT id FROM later)
BEGIN
  SELECT RAISE(IGNORE) WHERE NEW.basis = 'judged';
  DELETE FROM fact_successions WHERE old_fact_id = NEW.new_fact_id;
END;

CREATE TRIGGER rejected_facts_replace_nothing AFTER INSERT ON fact_reviews
WHEN NEW.decision = 'reject'
BEGIN
  UPDATE fact_successions
  SET new_fact_id = (SELECT new_fact_id FROM fact_successions AS own WHERE own.old_fact_id = NEW.fact_id)
  WHERE new_fact_id = NEW.fact_id AND EXISTS (
    SELECT 1 FROM fact_successions AS own
    WHERE own.old_fact_id = NEW.fact_id AND own.new_fact_id <> fact_successions.old_fact_id
      AND NOT EXISTS (
        SELECT 1 FROM causal_links AS l
        WHERE l.relation = 'distinct' AND (l.cause_fact_id, l.effect_fact_id) IN (
          VALUES (fact_successions.old_fact_id, own.new_fact_id), (own.new_fact_id, fact_successions.old_fact_id))));
  DELETE FROM fact_successions WHERE new_fact_id = NEW.fact_id;
  UPDATE analysis_runs SET stale_at = NEW.created_at, stale_reason = 'rejected: ' || NEW.fact_id
  WHERE id IN (SELECT observation_id FROM observation_facts WHERE fact_id = NEW.fact_id) AND stale_at IS NULL;
  UPDATE mental_models SET stale_at = NEW.created_at, stale_reason = 'rejected: ' || NEW.fact_id
  WHERE id IN (SELECT model_id FROM mental_model_sources WHERE source_id = NEW.fact_id) AND stale_at IS NULL;
END;

CREATE TRIGGER reopened_facts_replace_again AFTER INSERT ON fact_reviews
WHEN NEW.decision IN ('accept', 'reopen') AND EXISTS (
  SELECT 1 FROM fact_reviews WHERE fact_id = NEW.fact_id AND decision = 'reject')
BEGIN
  INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis, how)
  SELECT cause_fact_id, effect_fact_id, 1.0, 'stated', coalesce(how, 'changed')
  FROM causal_links AS l
  WHERE relation = 'replaced' AND confidence >= 1.0 AND effect_fact_id = NEW.fact_id
    AND NOT EXISTS (SELECT 1 FROM fact_successions WHERE old_fact_id = l.cause_fact_id)
    AND NOT EXISTS (
      SELECT 1 FROM causal_links AS later
      WHERE later.rowid > l.rowid AND (
        (later.relation = 'distinct' AND (later.cause_fact_id, later.effect_fact_id) IN (
          VALUES (l.cause_fact_id, l.effect_fact_id), (l.effect_fact_id, l.cause_fact_id)))
        OR (later.relation = 'replaced' AND later.confidence >= 1.0
          AND later.cause_fact_id = l.effect_fact_id AND later.effect_fact_id = l.cause_fact_id)))
  ON CONFLICT (old_fact_id) DO NOTHING;
  UPDATE succession_progress
  SET position = min(position, (SELECT seq - 1 FROM facts WHERE id = NEW.fact_id));
END;

-- Of a circle, what was judged goes; of one that was stated throughout, what replaced the newest value.
DELETE FROM fact_successions WHERE basis = 'judged' AND old_fact_id IN (
  WITH RECURSIVE later (start, id) AS (
    SELECT old_fact_id, new_fact_id FROM fact_successions
    UNION
    SELECT start, l.new_fact_id FROM later JOIN fact_successions AS l ON l.old_fact_id = later.id)
  SELECT start FROM later WHERE start = id);

DELETE FROM fact_successions WHERE old_fact_id IN (
  WITH RECURSIVE later (start, id) AS (
    SELECT old_fact_id, new_fact_id FROM fact_successions
    UNION
    SELECT start, l.new_fact_id FROM later JOIN fact_successions AS l ON l.old_fact_id = later.id)
  SELECT newest.new_fact_id FROM fact_successions AS newest
  WHERE EXISTS (SELECT 1 FROM later WHERE start = newest.old_fact_id AND id = start)
    AND NOT EXISTS (
      SELECT 1 FROM later JOIN fact_successions AS other ON other.old_fact_id = later.id
      WHERE later.start = newest.old_fact_id
        AND (other.derived_at, other.old_fact_id) > (newest.derived_at, newest.old_fact_id)));

-- What a person called distinct is not replaced by the other.
DELETE FROM fact_successions AS s WHERE EXISTS (
  SELECT 1 FROM causal_links AS l
  WHERE l.relation = 'distinct' AND (l.cause_fact_id, l.effect_fact_id) IN (
      VALUES (s.old_fact_id, s.new_fact_id), (s.new_fact_id, s.old_fact_id))
    AND NOT EXISTS (
      SELECT 1 FROM causal_links AS later
      WHERE later.relation = 'replaced' AND later.confidence >= 1.0 AND later.rowid > l.rowid
        AND later.cause_fact_id = s.old_fact_id AND later.effect_fact_id = s.new_fact_id));
