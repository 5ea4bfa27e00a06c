-- A conclusion is stale once a fact that it rests on was replaced, not with any news about its subject.
DROP TRIGGER facts_make_stale;
DROP TRIGGER fact_entities_make_stale;

CREATE TRIGGER successions_make_stale AFTER INSERT ON fact_successions
BEGIN
  UPDATE analysis_runs SET stale_at = NEW.derived_at, stale_reason = 'newer: ' || NEW.new_fact_id
  WHERE id IN (SELECT observation_id FROM observation_facts WHERE fact_id = NEW.old_fact_id)
    AND id NOT IN (SELECT observation_id FROM observation_facts WHERE fact_id = NEW.new_fact_id)
    AND stale_at IS NULL;
  UPDATE mental_models SET stale_at = NEW.derived_at, stale_reason = 'newer: ' || NEW.new_fact_id
  WHERE id IN (SELECT model_id FROM mental_model_sources WHERE source_id = NEW.old_fact_id)
    AND id NOT IN (SELECT model_id FROM mental_model_sources WHERE source_id = NEW.new_fact_id)
    AND stale_at IS NULL;
END;

UPDATE mental_models SET stale_at = NULL, stale_reason = NULL
WHERE stale_reason LIKE 'newer: fact\_%' ESCAPE '\' OR stale_reason LIKE 'stale: obs\_%' ESCAPE '\';
UPDATE analysis_runs SET stale_at = NULL, stale_reason = NULL WHERE stale_reason LIKE 'newer: fact\_%' ESCAPE '\';

UPDATE analysis_runs SET
  stale_at = (SELECT min(l.derived_at) FROM observation_facts AS o JOIN fact_successions AS l ON l.old_fact_id = o.fact_id
              WHERE o.observation_id = analysis_runs.id),
  stale_reason = (SELECT 'newer: ' || l.new_fact_id FROM observation_facts AS o
                  JOIN fact_successions AS l ON l.old_fact_id = o.fact_id
                  WHERE o.observation_id = analysis_runs.id ORDER BY l.derived_at LIMIT 1)
WHERE stale_at IS NULL AND EXISTS (
  SELECT 1 FROM observation_facts AS o JOIN fact_successions AS l ON l.old_fact_id = o.fact_id
  WHERE o.observation_id = analysis_runs.id AND NOT EXISTS (
    SELECT 1 FROM observation_facts AS n WHERE n.observation_id = analysis_runs.id AND n.fact_id = l.new_fact_id));
UPDATE mental_models SET
  stale_at = (SELECT min(l.derived_at) FROM mental_model_sources AS o JOIN fact_successions AS l ON l.old_fact_id = o.source_id
              WHERE o.model_id = mental_models.id),
  stale_reason = (SELECT 'newer: ' || l.new_fact_id FROM mental_model_sources AS o
                  JOIN fact_successions AS l ON l.old_fact_id = o.source_id
                  WHERE o.model_id = mental_models.id ORDER BY l.derived_at LIMIT 1)
WHERE stale_at IS NULL AND EXISTS (
  SELECT 1 FROM mental_model_sources AS o JOIN fact_successions AS l ON l.old_fact_id = o.source_id
  WHERE o.model_id = mental_models.id AND NOT EXISTS (
    SELECT 1 FROM mental_model_sources AS n WHERE n.model_id = mental_models.id AND n.source_id = l.new_fact_id));
