-- Facts that wait to be consolidated, observations and mental models.

-- name: waiting_facts
SELECT seq, id, source_entity_id, length(CAST(fact AS BLOB)), source_request_id FROM facts AS f
WHERE seq > :after AND created_at <= :until AND NOT EXISTS (
  SELECT 1 FROM processing_log
  WHERE processor = 'consolidation' AND target_type = 'fact' AND target_id = f.id)
  AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = f.id)
ORDER BY seq LIMIT :limit

-- name: touched_entities
SELECT source_entity_id FROM facts WHERE id IN (SELECT value FROM json_each(:facts)) AND source_entity_id IS NOT NULL
UNION
SELECT target_entity_id FROM facts WHERE id IN (SELECT value FROM json_each(:facts)) AND target_entity_id IS NOT NULL
UNION
SELECT entity_id FROM fact_entities WHERE fact_id IN (SELECT value FROM json_each(:facts))

-- name: observations_about
-- In their last version; those first that are stale, since they wait to be looked at.
SELECT id, length(CAST(content AS BLOB)) FROM observations AS o
WHERE subject_entity_id IN (SELECT value FROM json_each(:entities))
  AND NOT EXISTS (SELECT 1 FROM analysis_runs WHERE previous_version_id = o.id)
ORDER BY stale_at IS NULL, created_at DESC, id DESC LIMIT :limit

-- name: evidence
SELECT f.id, length(CAST(f.fact AS BLOB)) FROM observation_facts AS o JOIN facts AS f ON f.id = o.fact_id
WHERE o.observation_id = ? AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = f.id)
ORDER BY coalesce(f.as_of, f.valid_at) DESC, f.seq DESC LIMIT ?

-- name: facts
SELECT id, fact, coalesce(as_of, valid_at), source_entity_id, confidence, source_type
FROM facts WHERE id IN (SELECT value FROM json_each(?))

-- name: said
-- Who said each fact, and what the given observations and mental models rest on, as far as it is known.
WITH wanted (id) AS (SELECT value FROM json_each(?)),
rests (id, fact_id) AS (
  SELECT id, id FROM wanted
  UNION
  SELECT observation_id, fact_id FROM observation_facts WHERE observation_id IN wanted
  UNION
  SELECT model_id, source_id FROM mental_model_sources WHERE model_id IN wanted AND source_type = 'fact'
  UNION
  SELECT s.model_id, o.fact_id FROM mental_model_sources AS s JOIN observation_facts AS o ON o.observation_id = s.source_id
  WHERE s.model_id IN wanted AND s.source_type = 'observation'
)
SELECT rests.id, CASE WHEN json_valid(f.metadata_json) THEN json_extract(f.metadata_json, '$.speaker') END,
       f.source_event_id
FROM rests JOIN facts AS f ON f.id = rests.fact_id ORDER BY f.seq

-- name: observations
SELECT id, content, created_at, stale_at,
       (SELECT json_group_array(fact_id) FROM observation_facts WHERE observation_id = o.id)
FROM observations AS o WHERE id IN (SELECT value FROM json_each(?))

-- name: newest_version_of_observation
WITH RECURSIVE newer (id, version) AS (
  SELECT id, version FROM analysis_runs WHERE id = ?
  UNION
  SELECT run.id, run.version FROM newer JOIN analysis_runs AS run ON run.previous_version_id = newer.id
)
SELECT id, version FROM newer ORDER BY version DESC, id DESC LIMIT 1

-- name: has_observation
SELECT 1 FROM analysis_runs WHERE id = ?

-- name: add_observation
INSERT INTO analysis_runs (
  id, type_id, subject_entity_id, content, confidence, version, previous_version_id, source_request_id, created_at)
VALUES (:id, 'observation', :subject, :content, :confidence, :version, :previous, :request, :now)

-- name: subject_of_observation
SELECT subject_entity_id FROM analysis_runs WHERE id = ?

-- name: confidence_of_facts
SELECT avg(confidence) FROM facts WHERE id IN (SELECT value FROM json_each(?))

-- name: link_evidence
INSERT INTO observation_facts (observation_id, fact_id) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: inherit_evidence
INSERT INTO observation_facts (observation_id, fact_id)
SELECT :id, fact_id FROM observation_facts WHERE observation_id = :previous ON CONFLICT DO NOTHING

-- name: confirm_observation
-- It was looked at and still holds, unless further facts wait that touch it.
UPDATE analysis_runs SET stale_at = NULL, stale_reason = NULL
WHERE id = :id AND stale_at IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM facts AS f
  WHERE f.id IN (
      SELECT id FROM facts WHERE source_entity_id = analysis_runs.subject_entity_id
      UNION SELECT id FROM facts WHERE target_entity_id = analysis_runs.subject_entity_id
      UNION SELECT fact_id FROM fact_entities WHERE entity_id = analysis_runs.subject_entity_id)
    AND NOT EXISTS (
      SELECT 1 FROM processing_log
      WHERE processor = 'consolidation' AND target_type = 'fact' AND target_id = f.id))

-- name: note_fact
INSERT INTO processing_log (processor, target_type, target_id, status, detail, request_id, created_at, updated_at)
VALUES ('consolidation', 'fact', :fact, :status, :detail, :request, :now, :now)
ON CONFLICT DO UPDATE SET status = excluded.status, detail = excluded.detail, request_id = excluded.request_id,
                          attempts = attempts + 1, updated_at = excluded.updated_at

-- name: note_shown
INSERT INTO shown (execution_id, target_type, target_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: take_up_again
DELETE FROM processing_log WHERE processor = 'consolidation' AND target_type = 'fact' AND status = 'failed'

-- name: set_aside
SELECT f.id, f.fact, log.detail, log.attempts, log.updated_at
FROM processing_log AS log JOIN facts AS f ON f.id = log.target_id
WHERE log.processor = 'consolidation' AND log.target_type = 'fact' AND log.status = 'failed'
ORDER BY log.updated_at DESC, f.id LIMIT ?

-- name: present
SELECT (SELECT count(*) FROM facts WHERE id IN (SELECT value FROM json_each(:facts)))
     + (SELECT count(*) FROM analysis_runs WHERE id IN (SELECT value FROM json_each(:observations)))

-- name: counts
SELECT
  (SELECT count(*) FROM facts AS f WHERE NOT EXISTS (
    SELECT 1 FROM processing_log WHERE processor = 'consolidation' AND target_type = 'fact' AND target_id = f.id)
    AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = f.id)),
  (SELECT count(*) FROM processing_log
   WHERE processor = 'consolidation' AND target_type = 'fact' AND status = 'failed'),
  (SELECT count(*) FROM observations AS o
   WHERE NOT EXISTS (SELECT 1 FROM analysis_runs WHERE previous_version_id = o.id)),
  (SELECT count(*) FROM observations AS o
   WHERE stale_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM analysis_runs WHERE previous_version_id = o.id))

-- name: listed_observations
SELECT id, subject_entity_id, content, confidence, version, previous_version_id, stale_at, stale_reason,
       source_request_id, created_at,
       (SELECT count(*) FROM observation_facts WHERE observation_id = o.id)
FROM observations AS o
WHERE NOT EXISTS (SELECT 1 FROM analysis_runs WHERE previous_version_id = o.id)
  AND (:entities IS NULL OR subject_entity_id IN (SELECT value FROM json_each(:entities)))
  AND (NOT :stale OR stale_at IS NOT NULL)
ORDER BY created_at DESC, id DESC LIMIT :limit

-- name: observation_versions
WITH RECURSIVE older (id) AS (
  SELECT ?
  UNION
  SELECT run.previous_version_id FROM older JOIN analysis_runs AS run ON run.id = older.id
  WHERE run.previous_version_id IS NOT NULL
)
SELECT id, subject_entity_id, content, confidence, version, previous_version_id, stale_at, stale_reason,
       source_request_id, created_at,
       (SELECT count(*) FROM observation_facts WHERE observation_id = o.id)
FROM observations AS o WHERE id IN (SELECT id FROM older) ORDER BY version DESC

-- name: evidence_of
SELECT f.id, f.fact, coalesce(f.as_of, f.valid_at), f.confidence, f.source_event_id
FROM observation_facts AS o JOIN facts AS f ON f.id = o.fact_id WHERE o.observation_id = ?
ORDER BY coalesce(f.as_of, f.valid_at), f.seq

-- name: add_model
INSERT INTO mental_models (
  id, name, subject_entity_id, content, version, previous_version_id, source_request_id, metadata_json, created_at)
VALUES (:id, :name, :subject, :content, :version, :previous, :request, :metadata, :now)
ON CONFLICT (id) DO NOTHING

-- name: add_model_source
INSERT INTO mental_model_sources (model_id, source_type, source_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: model_named
SELECT id, version FROM mental_models AS m
WHERE name = ? AND NOT EXISTS (SELECT 1 FROM mental_models WHERE previous_version_id = m.id)
ORDER BY version DESC, id DESC LIMIT 1

-- name: newest_version_of_model
WITH RECURSIVE newer (id, version) AS (
  SELECT id, version FROM mental_models WHERE id = ?
  UNION
  SELECT model.id, model.version FROM newer JOIN mental_models AS model ON model.previous_version_id = newer.id
)
SELECT id, version FROM newer ORDER BY version DESC, id DESC LIMIT 1

-- name: model
SELECT id, name, subject_entity_id, content, version, previous_version_id, stale_at, stale_reason,
       source_request_id, metadata_json, created_at
FROM mental_models WHERE id = ?

-- name: author_kind_of_model
SELECT metadata_json ->> 'author_kind' FROM mental_models WHERE id = ?

-- name: versions_of_model
-- And itself.
WITH RECURSIVE older (id) AS (
  SELECT ?
  UNION
  SELECT model.previous_version_id FROM older JOIN mental_models AS model ON model.id = older.id
  WHERE model.previous_version_id IS NOT NULL
)
SELECT id, name, subject_entity_id, content, version, previous_version_id, stale_at, stale_reason,
       source_request_id, metadata_json, created_at
FROM mental_models WHERE id IN (SELECT id FROM older) ORDER BY version DESC

-- name: listed_models
SELECT id, name, subject_entity_id, content, version, previous_version_id, stale_at, stale_reason,
       source_request_id, metadata_json, created_at
FROM mental_models AS m
WHERE NOT EXISTS (SELECT 1 FROM mental_models WHERE previous_version_id = m.id) AND (NOT :stale OR stale_at IS NOT NULL)
ORDER BY created_at DESC, id DESC LIMIT :limit

-- name: models_to_refresh
-- The longest stale first; not those whose last refreshing failed since they became stale.
SELECT id FROM mental_models AS m
WHERE stale_at IS NOT NULL AND created_at <= :made_until
  AND NOT EXISTS (SELECT 1 FROM mental_models WHERE previous_version_id = m.id)
  AND NOT EXISTS (
    SELECT 1 FROM processing_log
    WHERE processor = 'reflection' AND target_type = 'mental_model' AND target_id = m.id AND updated_at >= m.stale_at)
ORDER BY stale_at, id LIMIT :limit

-- name: note_model
INSERT INTO processing_log (processor, target_type, target_id, status, detail, request_id, created_at, updated_at)
VALUES ('reflection', 'mental_model', :model, 'failed', :detail, :request, :now, :now)
ON CONFLICT DO UPDATE SET detail = excluded.detail, request_id = excluded.request_id,
                          attempts = attempts + 1, updated_at = excluded.updated_at

-- name: sources_of_model
SELECT source_type, source_id FROM mental_model_sources WHERE model_id = ? ORDER BY source_id

-- name: subjects_of
SELECT id, source_entity_id FROM facts WHERE id IN (SELECT value FROM json_each(?1))
UNION ALL SELECT id, subject_entity_id FROM analysis_runs WHERE id IN (SELECT value FROM json_each(?1))
UNION ALL SELECT id, subject_entity_id FROM mental_models WHERE id IN (SELECT value FROM json_each(?1))

-- name: rejected
SELECT fact_id FROM rejected_facts WHERE fact_id IN (SELECT value FROM json_each(?))

-- name: told
-- Facts, observations and mental models as sources of an answer.
SELECT 'fact', id, coalesce(as_of, valid_at), fact, NULL FROM facts WHERE id IN (SELECT value FROM json_each(?1))
UNION ALL SELECT 'observation', id, created_at, content, stale_at FROM observations
  WHERE id IN (SELECT value FROM json_each(?1))
UNION ALL SELECT 'mental_model', id, created_at, name || ': ' || content, stale_at FROM mental_models
  WHERE id IN (SELECT value FROM json_each(?1))
