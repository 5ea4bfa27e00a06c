-- name: append_fact
INSERT INTO facts (
  id, source_entity_id, relation_type, target_entity_id, fact, confidence, source_type, as_of, valid_at,
  source_event_id, source_episode_id, source_request_id, metadata_json, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: counts
SELECT 'facts', count(*) FROM facts UNION ALL SELECT 'episodes', count(*) FROM episodes
UNION ALL SELECT 'observations', count(*) FROM observations
UNION ALL SELECT 'mental models', count(*) FROM mental_models

-- name: has_episode
SELECT 1 FROM episodes WHERE id = ?

-- name: is_learned
SELECT 1 FROM facts WHERE source_event_id = ? AND fact = ? LIMIT 1

-- name: told_in
-- Of the latest hundreds of facts the one whose words a line holds.
SELECT id FROM (SELECT id, fact, seq FROM facts ORDER BY seq DESC LIMIT 500)
WHERE instr(:line, fact) > 0 ORDER BY length(fact) DESC, seq DESC LIMIT 1

-- name: learned_by
SELECT count(*) FROM facts WHERE source_event_id IN (SELECT value FROM json_each(:events)) AND source_request_id = :request

-- name: is_known
-- Among the last as well: the clock may have been set back since the request came in.
SELECT 1 FROM facts
WHERE (created_at >= :since OR seq > (SELECT max(seq) - 1000 FROM facts))
  AND source_request_id = :request AND fact = :fact LIMIT 1

-- name: has_fact
SELECT 1 FROM facts WHERE id = ?

-- name: link_fact_entity
INSERT INTO fact_entities (fact_id, entity_id, role) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: mention_relationship
INSERT INTO episode_relationship_mentions (
  episode_id, relationship_id, source_type, extracted_fact, confidence, created_at)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: mention_entity
INSERT INTO episode_entity_mentions (episode_id, entity_id, mention_count) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET mention_count = mention_count + excluded.mention_count

-- name: add_causal_link
INSERT INTO causal_links (id, cause_fact_id, effect_fact_id, relation, confidence, source_episode_id, created_at, how)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_episode
INSERT INTO episodes (
  id, definition_id, channel, thread_id, title, summary, start_time, end_time, event_count, token_count,
  version, previous_version_id, source_request_id, metadata_json, created_at)
VALUES (
  :id, :definition, :channel, :thread, :title, :summary, :start, :end, :events, :tokens,
  :version, :previous, :request, :metadata, :now)

-- name: link_episode_event
INSERT INTO episode_events (episode_id, event_id, position) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: newer_episode
SELECT id FROM episodes WHERE previous_version_id = ?

-- name: inherit_events
INSERT INTO episode_events (episode_id, event_id, position)
SELECT :id, event_id, position FROM episode_events WHERE episode_id = :previous

-- name: inherit_mentions
INSERT INTO episode_entity_mentions (episode_id, entity_id, mention_count)
SELECT :id, entity_id, mention_count FROM episode_entity_mentions WHERE episode_id = :previous

-- name: inherited
SELECT version, definition_id, channel, thread_id, title, summary, start_time, end_time, event_count, token_count
FROM episodes WHERE id = ?

-- name: episode_definition
SELECT id, strategy, config_json FROM episode_definitions WHERE name = ?

-- name: add_episode_definition
INSERT INTO episode_definitions (id, name, strategy, config_json) VALUES (?, ?, ?, ?)

-- name: undone_events
SELECT value FROM json_each(?1) WHERE NOT EXISTS (
  SELECT 1 FROM processing_log WHERE processor = ?2 AND target_type = 'event' AND target_id = value)

-- name: mark_processed
-- What is done stays done: a process that lost the work fails with it after another one has done it.
INSERT INTO processing_log (processor, target_type, target_id, status, detail, request_id, created_at, updated_at)
VALUES (:processor, :target_type, :target_id, :status, :detail, :request_id, :now, :now)
ON CONFLICT DO UPDATE
SET status = excluded.status, detail = excluded.detail, request_id = excluded.request_id,
    attempts = attempts + 1, updated_at = excluded.updated_at
WHERE excluded.status <> 'failed' OR processing_log.status = 'failed'

-- name: settled
SELECT target_id FROM processing_log
WHERE processor = :processor AND target_type = :target_type AND (status <> 'failed' OR attempts >= :most_attempts)
  AND target_id IN (SELECT value FROM json_each(:targets))

-- name: mark_done
INSERT INTO processing_log (processor, target_type, target_id, status, created_at, updated_at)
VALUES (?1, ?2, ?3, 'done', ?4, ?4) ON CONFLICT DO NOTHING

-- name: episode_to_extend
-- One that a writer has summarized or read is complete: what comes late makes its own.
SELECT id, version, start_time, end_time, event_count, token_count FROM episodes AS latest
WHERE thread_id = :thread AND definition_id = :definition AND (summary IS NULL OR metadata_json ->> 'extracted')
  AND NOT EXISTS (
    SELECT 1 FROM processing_log WHERE processor = 'memory-writer' AND target_type = 'episode' AND target_id = latest.id)
  AND end_time > :from AND start_time < :until AND token_count <= :room
  AND NOT EXISTS (SELECT 1 FROM episodes WHERE previous_version_id = latest.id)
ORDER BY end_time DESC LIMIT 1

-- name: undescribed_episodes
SELECT id FROM episodes WHERE id > ? AND (coalesce(trim(title), '') = '' OR coalesce(trim(summary), '') = '')
ORDER BY id LIMIT ?

-- name: blank_episodes
-- Those of some episodes that lack a title or a summary, with their first events.
SELECT id, title, summary, channel, start_time,
       (SELECT json_group_array(event_id) FROM
          (SELECT event_id FROM episode_events WHERE episode_id = episodes.id ORDER BY position LIMIT :most))
FROM episodes WHERE id IN (SELECT value FROM json_each(:ids))
  AND (coalesce(trim(title), '') = '' OR coalesce(trim(summary), '') = '')

-- name: describe_episode
-- What is from the episode's own words is marked: events that come late still extend such an episode.
UPDATE episodes
SET metadata_json = CASE WHEN coalesce(trim(title), '') = '' AND coalesce(trim(summary), '') = ''
                    THEN json_set(metadata_json, '$.extracted', json('true')) ELSE metadata_json END,
    title = coalesce(nullif(trim(title), ''), :title), summary = coalesce(nullif(trim(summary), ''), :summary)
WHERE id = :id AND (coalesce(trim(title), '') = '' OR coalesce(trim(summary), '') = '')

-- name: times_together
SELECT count(*) FROM (
  SELECT episode_id FROM episode_entity_mentions AS mention
  WHERE entity_id IN (SELECT value FROM json_each(?1))
    AND NOT EXISTS (SELECT 1 FROM episodes WHERE previous_version_id = mention.episode_id)
  GROUP BY episode_id HAVING count(*) = json_array_length(?1))

-- name: has_members
SELECT 1 FROM facts WHERE target_entity_id = ? AND relation_type = 'MEMBER_OF' LIMIT 1

-- name: facts_of
-- All that is known about some entities, in the order in which it was true; the last ones where there are many.
SELECT * FROM (
  SELECT seq, id, coalesce(as_of, valid_at) AS at, fact, relation_type, source_entity_id, target_entity_id,
         confidence, source_type, as_of, created_at, source_event_id, source_episode_id, source_request_id
  FROM facts
  WHERE id IN (
    SELECT id FROM facts WHERE source_entity_id IN (SELECT value FROM json_each(:entities))
    UNION SELECT id FROM facts WHERE target_entity_id IN (SELECT value FROM json_each(:entities))
    UNION SELECT fact_id FROM fact_entities WHERE entity_id IN (SELECT value FROM json_each(:entities)))
  ORDER BY at DESC, seq DESC LIMIT :limit)
ORDER BY at, seq

-- name: timeline_before
-- Of each way in which a fact can be about an entity the latest ones, then the latest of these.
SELECT facts.seq, id, found.at, fact, relation_type, source_entity_id, target_entity_id, confidence, source_type,
       as_of, created_at, source_event_id, source_episode_id, source_request_id
FROM (
  SELECT * FROM (
    SELECT seq, coalesce(as_of, valid_at) AS at FROM facts
    WHERE source_entity_id IN (SELECT value FROM json_each(:entities))
      AND (coalesce(as_of, valid_at), seq) < (:at, :seq)
    ORDER BY at DESC, seq DESC LIMIT :limit)
  UNION SELECT * FROM (
    SELECT seq, coalesce(as_of, valid_at) AS at FROM facts
    WHERE target_entity_id IN (SELECT value FROM json_each(:entities))
      AND (coalesce(as_of, valid_at), seq) < (:at, :seq)
    ORDER BY at DESC, seq DESC LIMIT :limit)
  UNION SELECT * FROM (
    SELECT seq, coalesce(as_of, valid_at) AS at FROM fact_entities JOIN facts ON facts.id = fact_id
    WHERE entity_id IN (SELECT value FROM json_each(:entities))
      AND (coalesce(as_of, valid_at), seq) < (:at, :seq)
    ORDER BY at DESC, seq DESC LIMIT :limit)
  ORDER BY at DESC, seq DESC LIMIT :limit) AS found
JOIN facts ON facts.seq = found.seq ORDER BY found.at DESC, facts.seq DESC

-- name: facts_before
SELECT seq, id, coalesce(as_of, valid_at), fact, relation_type, source_entity_id, target_entity_id,
       confidence, source_type, as_of, created_at, source_event_id, source_episode_id, source_request_id
FROM facts WHERE seq < :before ORDER BY seq DESC LIMIT :limit

-- name: matching_facts
SELECT seq, id, coalesce(as_of, valid_at), fact, relation_type, source_entity_id, target_entity_id,
       confidence, source_type, as_of, created_at, source_event_id, source_episode_id, source_request_id
FROM facts WHERE seq IN (
  SELECT rowid FROM facts_fts WHERE facts_fts MATCH :match AND rowid < :before ORDER BY rowid DESC LIMIT :limit)
ORDER BY seq DESC

-- name: matching_facts_between
SELECT seq, id, coalesce(as_of, valid_at), fact, relation_type, source_entity_id, target_entity_id,
       confidence, source_type, as_of, created_at, source_event_id, source_episode_id, source_request_id
FROM (
  SELECT rowid AS hit FROM facts_fts WHERE facts_fts MATCH :match AND rowid < :before ORDER BY rowid DESC)
JOIN facts ON seq = hit WHERE created_at >= :since AND created_at < :until
ORDER BY hit DESC LIMIT :limit

-- name: facts_between
SELECT seq, id, coalesce(as_of, valid_at), fact, relation_type, source_entity_id, target_entity_id,
       confidence, source_type, as_of, created_at, source_event_id, source_episode_id, source_request_id
FROM facts WHERE created_at >= :since AND (created_at, seq) < (:at, :before)
ORDER BY created_at DESC, seq DESC LIMIT :limit

-- name: count_facts_since
SELECT count(*) FROM facts WHERE created_at >= ?

-- name: facts_learned_since
-- What was read from calendars is no news, and neither is what was replaced since.
SELECT fact, count(*) OVER () FROM facts
WHERE created_at >= :since AND created_at < :until AND metadata_json ->> 'calendar' IS NULL
  AND NOT EXISTS (SELECT 1 FROM fact_successions WHERE old_fact_id = facts.id)
  AND coalesce((SELECT decision FROM fact_verdicts WHERE fact_id = facts.id), '') <> 'reject'
ORDER BY created_at DESC, seq DESC LIMIT :limit

-- name: successors
-- What holds now in the place of each fact, at the end of its chain, and since when the fact doesn't.
WITH RECURSIVE later (start, id, step) AS (
  SELECT old_fact_id, new_fact_id, 1 FROM fact_successions WHERE old_fact_id IN (SELECT value FROM json_each(?1))
  UNION
  SELECT later.start, l.new_fact_id, step + 1
  FROM later JOIN fact_successions AS l ON l.old_fact_id = later.id WHERE step < 100
)
SELECT old_fact_id, e.id, e.fact, coalesce(n.as_of, n.valid_at), succession.confidence, basis, how, signals
FROM fact_successions AS succession JOIN facts AS n ON n.id = new_fact_id
JOIN facts AS e ON e.id = (SELECT id FROM later WHERE start = old_fact_id ORDER BY step DESC LIMIT 1)
WHERE old_fact_id IN (SELECT value FROM json_each(?1))

-- name: newest_about
-- The newest facts about some entities that nothing has replaced.
SELECT id FROM facts
WHERE source_entity_id IN (SELECT value FROM json_each(:entities))
  AND NOT EXISTS (SELECT 1 FROM fact_successions WHERE old_fact_id = facts.id)
  AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = facts.id)
ORDER BY seq DESC LIMIT :limit

-- name: written_by_hand
SELECT id, metadata_json ->> '$.written.by', metadata_json ->> '$.written.channel', created_at FROM facts
WHERE id IN (SELECT value FROM json_each(?)) AND metadata_json ->> '$.written.by' IS NOT NULL

-- name: facts_from_event
SELECT id, fact, source_entity_id FROM facts WHERE source_event_id = ? ORDER BY seq LIMIT 50

-- name: facts_of_episode
SELECT id, fact, source_entity_id FROM facts WHERE source_episode_id = ? ORDER BY seq LIMIT ?

-- name: texts_of_items
SELECT id, fact, source_event_id FROM facts WHERE id IN (SELECT value FROM json_each(?1))
UNION ALL SELECT id, substr(coalesce(summary, title, ''), 1, 1000), NULL FROM episodes
  WHERE id IN (SELECT value FROM json_each(?1))
UNION ALL SELECT id, substr(content, 1, 1000), NULL FROM analysis_runs WHERE id IN (SELECT value FROM json_each(?1))
UNION ALL SELECT id, substr(content, 1, 1000), NULL FROM mental_models WHERE id IN (SELECT value FROM json_each(?1))

-- name: count_of_facts
-- Each once: as a source, else as a target, else as one that is named beside these.
SELECT
  (SELECT count(*) FROM facts WHERE source_entity_id IN (SELECT value FROM json_each(?1)))
  + (SELECT count(*) FROM facts WHERE target_entity_id IN (SELECT value FROM json_each(?1))
     AND coalesce(source_entity_id, '') NOT IN (SELECT value FROM json_each(?1)))
  + (SELECT count(DISTINCT fact_id) FROM fact_entities JOIN facts ON facts.id = fact_id
     WHERE entity_id IN (SELECT value FROM json_each(?1))
       AND coalesce(source_entity_id, '') NOT IN (SELECT value FROM json_each(?1))
       AND coalesce(target_entity_id, '') NOT IN (SELECT value FROM json_each(?1)))

-- name: newest_facts
SELECT * FROM (
  SELECT seq, id, coalesce(as_of, valid_at) AS at, fact, relation_type, source_entity_id, target_entity_id,
         confidence, source_type, as_of, created_at, source_event_id, source_episode_id, source_request_id
  FROM facts
  WHERE (:type IS NULL OR lower(relation_type) = lower(:type))
    AND (:match IS NULL OR seq IN (SELECT rowid FROM facts_fts WHERE facts_fts MATCH :match))
  ORDER BY seq DESC LIMIT :limit)
ORDER BY seq

-- name: facts_replaced
-- The facts that were replaced last, in the order of the facts that replaced them.
SELECT * FROM (
  SELECT f.seq, f.id, coalesce(f.as_of, f.valid_at) AS at, f.fact, f.relation_type, f.source_entity_id,
         f.target_entity_id, f.confidence, f.source_type, f.as_of, f.created_at, f.source_event_id,
         f.source_episode_id, f.source_request_id
  FROM fact_successions AS s JOIN facts AS n ON n.id = s.new_fact_id JOIN facts AS f ON f.id = s.old_fact_id
  ORDER BY n.seq DESC, f.seq DESC LIMIT :limit)
ORDER BY (SELECT n.seq FROM fact_successions AS s JOIN facts AS n ON n.id = s.new_fact_id WHERE s.old_fact_id = id), seq

-- name: facts_ending_in
SELECT id FROM facts WHERE lower(substr(id, -length(:ending))) = lower(:ending) LIMIT 3

-- name: newest_episodes
SELECT id, channel, thread_id, title, summary, start_time, end_time, event_count, token_count, version,
       previous_version_id, source_request_id
FROM episodes AS latest
WHERE NOT EXISTS (SELECT 1 FROM episodes WHERE previous_version_id = latest.id)
  AND (:entities IS NULL OR id IN (
    SELECT episode_id FROM episode_entity_mentions WHERE entity_id IN (SELECT value FROM json_each(:entities))))
ORDER BY end_time DESC, id DESC LIMIT :limit

-- name: episodes_before
SELECT id, channel, thread_id, title, summary, start_time, end_time, event_count, token_count, version,
       previous_version_id, source_request_id
FROM episodes AS latest
WHERE (end_time, id) < (:at, :id) AND end_time >= :since AND (:channel IS NULL OR channel = :channel)
  AND NOT EXISTS (SELECT 1 FROM episodes WHERE previous_version_id = latest.id)
ORDER BY end_time DESC, id DESC LIMIT :limit

-- name: episode
SELECT id, channel, thread_id, title, summary, start_time, end_time, event_count, token_count, version,
       previous_version_id, source_request_id
FROM episodes WHERE id = ?

-- name: events_of_episode
SELECT event_id FROM episode_events WHERE episode_id = ? ORDER BY position LIMIT ?

-- name: mentions_of_episode
SELECT entity_id, mention_count FROM episode_entity_mentions WHERE episode_id = ?
ORDER BY mention_count DESC, entity_id LIMIT 50

-- name: episodes_with_event
SELECT episode_id FROM episode_events WHERE event_id = ?
  AND NOT EXISTS (SELECT 1 FROM episodes WHERE previous_version_id = episode_id)

-- name: observations_before
SELECT id, NULL, subject_entity_id, content, version, previous_version_id, stale_at, stale_reason,
       source_request_id, created_at,
       (SELECT count(*) FROM observation_facts WHERE observation_id = latest.id)
FROM analysis_runs AS latest
WHERE type_id = 'observation' AND id < :id AND (NOT :stale OR stale_at IS NOT NULL)
  AND created_at >= :since AND created_at < :until
  AND (:subjects IS NULL OR subject_entity_id IN (SELECT value FROM json_each(:subjects)))
  AND NOT EXISTS (SELECT 1 FROM analysis_runs WHERE previous_version_id = latest.id)
ORDER BY id DESC LIMIT :limit

-- name: observation_versions
-- Of the same line: those before it, itself, and those behind it.
WITH RECURSIVE
  older (id) AS (SELECT :id UNION SELECT previous_version_id FROM analysis_runs JOIN older USING (id)),
  newer (id) AS (SELECT :id UNION SELECT run.id FROM analysis_runs AS run JOIN newer ON run.previous_version_id = newer.id)
SELECT id, NULL, subject_entity_id, content, version, previous_version_id, stale_at, stale_reason,
       source_request_id, created_at, (SELECT count(*) FROM observation_facts WHERE observation_id = one.id)
FROM analysis_runs AS one
WHERE type_id = 'observation' AND id IN (SELECT id FROM older UNION SELECT id FROM newer)
ORDER BY version DESC, id DESC LIMIT 50

-- name: sources_of_observation
SELECT 'fact', facts.id, fact, source_event_id FROM observation_facts JOIN facts ON facts.id = fact_id
WHERE observation_id = :id ORDER BY seq DESC LIMIT :limit

-- name: mental_models_before
SELECT id, name, subject_entity_id, content, version, previous_version_id, stale_at, stale_reason,
       source_request_id, created_at, (SELECT count(*) FROM mental_model_sources WHERE model_id = latest.id)
FROM mental_models AS latest
WHERE id < :id AND (NOT :stale OR stale_at IS NOT NULL) AND created_at >= :since AND created_at < :until
  AND (:subjects IS NULL OR subject_entity_id IN (SELECT value FROM json_each(:subjects)))
  AND NOT EXISTS (SELECT 1 FROM mental_models WHERE previous_version_id = latest.id)
ORDER BY id DESC LIMIT :limit

-- name: mental_model_versions
WITH RECURSIVE
  older (id) AS (SELECT :id UNION SELECT previous_version_id FROM mental_models JOIN older USING (id)),
  newer (id) AS (SELECT :id UNION SELECT run.id FROM mental_models AS run JOIN newer ON run.previous_version_id = newer.id)
SELECT id, name, subject_entity_id, content, version, previous_version_id, stale_at, stale_reason,
       source_request_id, created_at, (SELECT count(*) FROM mental_model_sources WHERE model_id = one.id)
FROM mental_models AS one
WHERE id IN (SELECT id FROM older UNION SELECT id FROM newer) ORDER BY version DESC, id DESC LIMIT 50

-- name: sources_of_mental_model
SELECT basis.source_type, source_id,
       coalesce(fact, (SELECT content FROM analysis_runs WHERE id = source_id),
                (SELECT content FROM mental_models WHERE id = source_id), ''),
       source_event_id
FROM mental_model_sources AS basis LEFT JOIN facts ON facts.id = source_id
WHERE model_id = :id ORDER BY basis.source_type, source_id LIMIT :limit

-- name: seen_together
-- Other entities of the same facts and episodes, with how many of each.
WITH
  its_facts (id) AS (
    SELECT id FROM facts WHERE source_entity_id IN (SELECT value FROM json_each(:entities))
    UNION SELECT id FROM facts WHERE target_entity_id IN (SELECT value FROM json_each(:entities))
    UNION SELECT fact_id FROM fact_entities WHERE entity_id IN (SELECT value FROM json_each(:entities))),
  its_episodes (id) AS (
    SELECT episode_id FROM episode_entity_mentions
    WHERE entity_id IN (SELECT value FROM json_each(:entities))),
  others (entity_id, fact_id, episode_id) AS (
    SELECT source_entity_id, id, NULL FROM facts WHERE id IN its_facts AND source_entity_id IS NOT NULL
    UNION ALL
    SELECT target_entity_id, id, NULL FROM facts WHERE id IN its_facts AND target_entity_id IS NOT NULL
    UNION ALL
    SELECT entity_id, fact_id, NULL FROM fact_entities WHERE fact_id IN its_facts
    UNION ALL
    SELECT entity_id, NULL, episode_id FROM episode_entity_mentions AS mention
    WHERE episode_id IN its_episodes
      AND NOT EXISTS (SELECT 1 FROM episodes WHERE previous_version_id = mention.episode_id))
SELECT entity_id, count(DISTINCT fact_id), count(DISTINCT episode_id) FROM others
WHERE entity_id NOT IN (SELECT value FROM json_each(:entities))
GROUP BY entity_id
ORDER BY count(DISTINCT fact_id) + count(DISTINCT episode_id) DESC, entity_id LIMIT :limit

-- name: neighbours
-- As above, among the newest facts and episodes: of somebody who occurs everywhere these are telling enough.
WITH
  its_facts (seq) AS (
    SELECT * FROM (
      SELECT seq FROM facts WHERE source_entity_id IN (SELECT value FROM json_each(:entities))
      ORDER BY created_at DESC LIMIT 1000)
    UNION SELECT * FROM (
      SELECT seq FROM facts WHERE target_entity_id IN (SELECT value FROM json_each(:entities))
      ORDER BY created_at DESC LIMIT 1000)
    UNION SELECT * FROM (
      SELECT facts.seq FROM fact_entities JOIN facts ON facts.id = fact_id
      WHERE entity_id IN (SELECT value FROM json_each(:entities)) ORDER BY fact_id DESC LIMIT 1000)),
  its_episodes (id) AS (
    SELECT episode_id FROM episode_entity_mentions
    WHERE entity_id IN (SELECT value FROM json_each(:entities)) ORDER BY episode_id DESC LIMIT 300),
  others (entity_id, fact_seq, episode_id) AS (
    SELECT source_entity_id, seq, NULL FROM facts WHERE seq IN its_facts AND source_entity_id IS NOT NULL
    UNION ALL
    SELECT target_entity_id, seq, NULL FROM facts WHERE seq IN its_facts AND target_entity_id IS NOT NULL
    UNION ALL
    SELECT entity_id, seq, NULL FROM facts JOIN fact_entities ON fact_id = facts.id WHERE seq IN its_facts
    UNION ALL
    SELECT entity_id, NULL, episode_id FROM episode_entity_mentions AS mention
    WHERE episode_id IN its_episodes
      AND NOT EXISTS (SELECT 1 FROM episodes WHERE previous_version_id = mention.episode_id))
SELECT entity_id, count(DISTINCT fact_seq), count(DISTINCT episode_id) FROM others
WHERE entity_id NOT IN (SELECT value FROM json_each(:entities))
GROUP BY entity_id
ORDER BY count(DISTINCT fact_seq) + count(DISTINCT episode_id) DESC, entity_id LIMIT :limit

-- name: statistics
SELECT 'facts', source_type, count(*) FROM facts GROUP BY source_type
UNION ALL SELECT 'relation_types', relation_type, count(*) FROM facts WHERE relation_type IS NOT NULL
  GROUP BY relation_type
UNION ALL SELECT 'episodes', channel, count(*) FROM episodes AS latest
  WHERE NOT EXISTS (SELECT 1 FROM episodes WHERE previous_version_id = latest.id) GROUP BY channel
UNION ALL SELECT 'causal_links', relation, count(*) FROM causal_links GROUP BY relation

-- name: anything_learned
SELECT EXISTS (SELECT 1 FROM facts) OR EXISTS (SELECT 1 FROM analysis_runs) OR EXISTS (SELECT 1 FROM mental_models)
       OR EXISTS (SELECT 1 FROM episodes)

-- name: last_seal
SELECT seq, digest FROM fact_seals ORDER BY seq DESC LIMIT 1

-- name: unsealed_facts
-- As bytes, because what somebody else wrote need not be valid text.
SELECT seq, CAST(id AS BLOB), CAST(source_entity_id AS BLOB), CAST(relation_type AS BLOB),
       CAST(target_entity_id AS BLOB), CAST(fact AS BLOB), confidence, CAST(source_type AS BLOB),
       CAST(as_of AS BLOB), CAST(valid_at AS BLOB), CAST(source_event_id AS BLOB),
       CAST(source_episode_id AS BLOB), CAST(source_request_id AS BLOB), CAST(metadata_json AS BLOB),
       CAST(created_at AS BLOB)
FROM facts WHERE seq > :after ORDER BY seq LIMIT :limit

-- name: seal_fact
INSERT INTO fact_seals (seq, digest) VALUES (?, ?)

-- name: sealed_facts
SELECT seal.seq, seal.digest, facts.seq, CAST(id AS BLOB), CAST(source_entity_id AS BLOB),
       CAST(relation_type AS BLOB), CAST(target_entity_id AS BLOB), CAST(fact AS BLOB), confidence,
       CAST(source_type AS BLOB), CAST(as_of AS BLOB), CAST(valid_at AS BLOB), CAST(source_event_id AS BLOB),
       CAST(source_episode_id AS BLOB), CAST(source_request_id AS BLOB), CAST(metadata_json AS BLOB),
       CAST(created_at AS BLOB)
FROM fact_seals AS seal LEFT JOIN facts ON facts.seq = seal.seq
WHERE seal.seq > :after ORDER BY seal.seq LIMIT :limit

-- name: facts_without_seal
SELECT seq FROM facts
WHERE seq <= (SELECT max(seq) FROM fact_seals) AND seq NOT IN (SELECT seq FROM fact_seals)

-- name: unsealed_count
SELECT count(*) FROM facts WHERE seq > coalesce((SELECT max(seq) FROM fact_seals), -9223372036854775807)

-- name: break_seals
DELETE FROM fact_seals WHERE seq >= ?

-- name: record_reseal
INSERT INTO fact_reseals (id, reason, broken) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING

-- name: broken_before_reseal
SELECT coalesce(sum(broken), 0) FROM fact_reseals
WHERE reason = 'forget' AND rowid > coalesce((SELECT max(rowid) FROM fact_reseals WHERE reason = 'accepted'), 0)

-- name: standing_observations
SELECT content, stale_at IS NOT NULL FROM analysis_runs AS latest
WHERE type_id = 'observation' AND subject_entity_id IN (SELECT value FROM json_each(?))
  AND NOT EXISTS (SELECT 1 FROM analysis_runs WHERE previous_version_id = latest.id)
ORDER BY created_at, id

-- name: standing_mental_models
SELECT name, content, stale_at IS NOT NULL FROM mental_models AS latest
WHERE NOT EXISTS (SELECT 1 FROM mental_models WHERE previous_version_id = latest.id) ORDER BY name, id

-- name: add_backfill
INSERT INTO backfills (
  id, import_id, sort, episodes_an_hour, budget_microusd, budget_tokens, estimate_json, created_at, updated_at)
VALUES (:id, :import_id, :sort, :episodes_an_hour, :budget_microusd, :budget_tokens, :estimate, :now, :now)

-- name: add_backfill_episode
INSERT INTO backfill_episodes (backfill_id, episode_id, position) VALUES (?, ?, ?)

-- name: backfills
SELECT id, import_id, sort, status, reason, episodes_an_hour, budget_microusd, budget_tokens, estimate_json, round,
       created_at, updated_at, completed_at
FROM backfills WHERE :id IS NULL OR id = :id ORDER BY created_at, id

-- name: active_backfills
SELECT id FROM backfills WHERE status IN ('running', 'paused') ORDER BY created_at, id

-- name: backfill_progress
SELECT status, count(*), sum(facts), sum(refused), sum(input_tokens), sum(output_tokens), sum(cost_microusd)
FROM backfill_episodes WHERE backfill_id = ? GROUP BY status

-- name: backfill_last
SELECT max(finished_at) FROM backfill_episodes WHERE backfill_id = ? AND status = 'done' AND finished_at <= ?

-- name: next_backfill_episodes
SELECT episode_id FROM backfill_episodes WHERE backfill_id = ? AND status = 'waiting' ORDER BY position LIMIT ?

-- name: mark_backfill_episode
UPDATE backfill_episodes
SET status = :status, facts = :facts, refused = :refused, input_tokens = :input_tokens,
    output_tokens = :output_tokens, cost_microusd = :cost_microusd, finished_at = :now
WHERE backfill_id = :backfill AND episode_id = :episode AND status <> 'done'

-- name: retry_backfill_episodes
UPDATE backfill_episodes SET status = 'waiting' WHERE backfill_id = ? AND status = 'failed'

-- name: set_backfill
UPDATE backfills
SET status = :status, reason = :reason, updated_at = :now,
    completed_at = CASE WHEN :status IN ('done', 'canceled') THEN :now END
WHERE id = :id AND status NOT IN ('done', 'canceled')

-- name: limit_backfill
UPDATE backfills
SET episodes_an_hour = :episodes_an_hour, budget_microusd = :budget_microusd, budget_tokens = :budget_tokens
WHERE id = :id

-- name: next_backfill_round
UPDATE backfills SET round = round + 1 WHERE id = :id AND round = :round

-- name: unread_episodes
-- The newest versions of the episodes that hold some events and that the memory writer has not read.
SELECT episode_id, event_id, start_time, token_count FROM episode_events JOIN episodes ON episodes.id = episode_id
WHERE event_id IN (SELECT value FROM json_each(?))
  AND NOT EXISTS (SELECT 1 FROM episodes AS newer WHERE newer.previous_version_id = episode_id)
  AND NOT EXISTS (
    SELECT 1 FROM processing_log WHERE processor = 'memory-writer' AND target_type = 'episode'
      AND target_id = episode_id AND status <> 'failed')

-- name: attempts
SELECT attempts FROM processing_log WHERE processor = ? AND target_type = ? AND target_id = ?

-- name: facts_of_events
SELECT id, fact, source_event_id FROM facts WHERE source_event_id IN (SELECT value FROM json_each(?)) ORDER BY seq

-- name: add_review
INSERT INTO fact_reviews (fact_id, decision, actor, reason, created_at) VALUES (:fact, :decision, :actor, :reason, :now)

-- name: fact_states
SELECT value, (SELECT decision FROM fact_verdicts WHERE fact_id = value), (SELECT actor FROM fact_verdicts WHERE fact_id = value),
       (SELECT created_at FROM fact_verdicts WHERE fact_id = value), (SELECT reason FROM fact_verdicts WHERE fact_id = value),
       EXISTS (SELECT 1 FROM pinned_facts WHERE fact_id = value)
FROM json_each(?)

-- name: pinned_about
-- Pinned facts that still hold: those that are about, or name, one of the entities, and those about nobody.
SELECT f.id, f.source_entity_id IS NULL AND f.target_entity_id IS NULL
         AND NOT EXISTS (SELECT 1 FROM fact_entities WHERE fact_id = f.id)
FROM pinned_facts AS p JOIN facts AS f ON f.id = p.fact_id
WHERE NOT EXISTS (SELECT 1 FROM fact_successions WHERE old_fact_id = f.id)
  AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = f.id)
  AND (f.source_entity_id IN (SELECT value FROM json_each(:entities))
    OR f.target_entity_id IN (SELECT value FROM json_each(:entities))
    OR EXISTS (SELECT 1 FROM fact_entities WHERE fact_id = f.id AND entity_id IN (SELECT value FROM json_each(:entities)))
    OR (f.source_entity_id IS NULL AND f.target_entity_id IS NULL
        AND NOT EXISTS (SELECT 1 FROM fact_entities WHERE fact_id = f.id)))
ORDER BY p.created_at DESC LIMIT :limit

-- name: fact_to_correct
SELECT fact, source_entity_id, relation_type, target_entity_id,
       (SELECT json_group_array(entity_id) FROM fact_entities WHERE fact_id = facts.id),
       (SELECT new_fact_id FROM fact_successions WHERE old_fact_id = facts.id)
FROM facts WHERE id = ?

-- name: fact_chain
-- Everything that the newest fact of a chain replaced, directly or not, and itself.
WITH RECURSIVE
  later (id, step) AS (
    SELECT :id, 0
    UNION
    SELECT l.new_fact_id, step + 1 FROM later JOIN fact_successions AS l ON l.old_fact_id = later.id WHERE step < 100
  ),
  chain (id) AS (
    SELECT * FROM (SELECT id FROM later ORDER BY step DESC LIMIT 1)
    UNION
    SELECT l.old_fact_id FROM chain JOIN fact_successions AS l ON l.new_fact_id = chain.id
  )
SELECT seq, id, coalesce(as_of, valid_at) AS at, fact, relation_type, source_entity_id, target_entity_id,
       confidence, source_type, as_of, created_at, source_event_id, source_episode_id, source_request_id
FROM facts WHERE id IN (SELECT id FROM chain) ORDER BY seq DESC LIMIT :limit

-- name: rival_facts
-- Other facts of the same kind about the same entity that still hold.
SELECT seq, id, coalesce(as_of, valid_at) AS at, fact, relation_type, source_entity_id, target_entity_id,
       confidence, source_type, as_of, created_at, source_event_id, source_episode_id, source_request_id
FROM facts
WHERE source_entity_id IN (SELECT value FROM json_each(:entities)) AND relation_type = :type AND id <> :id
  AND NOT EXISTS (SELECT 1 FROM fact_successions WHERE old_fact_id = facts.id)
  AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = facts.id)
ORDER BY seq DESC LIMIT :limit

-- name: facts_to_review
-- Learned since a moment, nobody has decided about it, and nothing newer has replaced it.
SELECT seq, id, coalesce(as_of, valid_at), fact, relation_type, source_entity_id, target_entity_id,
       confidence, source_type, as_of, created_at, source_event_id, source_episode_id, source_request_id
FROM facts WHERE created_at >= :since AND seq < :before
  AND NOT EXISTS (SELECT 1 FROM fact_verdicts WHERE fact_id = facts.id)
  AND NOT EXISTS (SELECT 1 FROM fact_successions WHERE old_fact_id = facts.id)
ORDER BY seq DESC LIMIT :limit

-- name: facts_to_review_count
SELECT count(*) FROM (
  SELECT 1 FROM facts WHERE created_at >= :since
    AND NOT EXISTS (SELECT 1 FROM fact_verdicts WHERE fact_id = facts.id)
    AND NOT EXISTS (SELECT 1 FROM fact_successions WHERE old_fact_id = facts.id)
  LIMIT :limit)

-- name: reviewed_facts
SELECT facts.seq, id, coalesce(as_of, valid_at), fact, relation_type, source_entity_id, target_entity_id,
       confidence, source_type, as_of, facts.created_at, source_event_id, source_episode_id, source_request_id
FROM fact_verdicts AS v JOIN facts ON facts.id = v.fact_id
WHERE v.decision = :decision AND v.created_at >= :since AND facts.seq < :before
ORDER BY facts.seq DESC LIMIT :limit

-- name: pinned
SELECT facts.seq, id, coalesce(as_of, valid_at), fact, relation_type, source_entity_id, target_entity_id,
       confidence, source_type, as_of, facts.created_at, source_event_id, source_episode_id, source_request_id
FROM pinned_facts AS p JOIN facts ON facts.id = p.fact_id WHERE facts.seq < :before ORDER BY facts.seq DESC LIMIT :limit

-- name: fact
SELECT seq, id, coalesce(as_of, valid_at), fact, relation_type, source_entity_id, target_entity_id,
       confidence, source_type, as_of, created_at, source_event_id, source_episode_id, source_request_id
FROM facts WHERE id = ?

-- name: sources_of_memories
-- What some memories rest on: facts, each with its message and who is named as its speaker, and messages.
-- And what an agent concluded itself, with its name: it may have read more than what it cites.
-- The reflection role was shown the version before its own.
WITH RECURSIVE base (id) AS (
  SELECT value FROM json_each(?)
  UNION
  SELECT of_observation.fact_id FROM base JOIN observation_facts AS of_observation ON observation_id = base.id
  UNION
  SELECT of_model.source_id FROM base JOIN mental_model_sources AS of_model ON model_id = base.id
  UNION
  SELECT model.previous_version_id FROM base JOIN mental_models AS model ON model.id = base.id
  WHERE model.previous_version_id IS NOT NULL AND model.metadata_json ->> 'author_kind' IS NULL
)
SELECT base.id, coalesce(fact.source_event_id, member.event_id), json_extract(fact.metadata_json, '$.speaker'), fact.fact
FROM base LEFT JOIN facts AS fact ON fact.id = base.id LEFT JOIN episode_events AS member ON member.episode_id = base.id
UNION ALL
SELECT id, NULL, metadata_json ->> 'author', content
FROM mental_models WHERE id IN (SELECT id FROM base) AND metadata_json ->> 'author_kind' <> 'owner'

-- name: add_follow_up
INSERT INTO follow_ups (
  id, event_id, reply_thread_id, source_request_id, promiser, promiser_entity_id, promiser_name,
  recipient_entity_id, recipient_name, promise, due_at, raise_at, created_at
) VALUES (
  :id, :event_id, :reply_thread_id, :source_request_id, :promiser, :promiser_entity_id, :promiser_name,
  :recipient_entity_id, :recipient_name, :promise, :due_at, :raise_at, :created_at
) ON CONFLICT (id) DO NOTHING

-- name: follow_up_columns
id, event_id, reply_thread_id, source_request_id, promiser, promiser_entity_id, promiser_name,
recipient_entity_id, recipient_name, promise, due_at, raise_at, status, closed_at, closed_by_event_id,
raised_at, raised_by, created_at

-- name: follow_ups
SELECT {columns} FROM follow_ups
WHERE (:status = '' OR status = :status)
ORDER BY status <> 'open', due_at IS NULL, due_at, created_at DESC, id DESC LIMIT :limit

-- name: follow_ups_ending_in
SELECT {columns} FROM follow_ups WHERE id = :ending OR substr(id, -length(:ending)) = :ending LIMIT 20

-- name: follow_ups_of_requests
SELECT {columns} FROM follow_ups
WHERE source_request_id IN (SELECT value FROM json_each(:requests)) ORDER BY id

-- name: follow_ups_to_raise
SELECT {columns} FROM follow_ups
WHERE raised_by = :by OR (status = 'open' AND raised_at IS NULL AND raise_at <= :now)
ORDER BY raised_by IS NULL, due_at, id LIMIT :limit

-- name: follow_ups_of_person
SELECT {columns} FROM follow_ups
WHERE raised_by = :by OR (
  status = 'open' AND raised_at IS NULL AND created_at < :before AND (due_at IS NULL OR due_at <= :until)
  AND (promiser_entity_id = :entity OR recipient_entity_id = :entity))
ORDER BY raised_by IS NULL, due_at IS NULL, due_at, id LIMIT :limit

-- name: follow_ups_for_brief
SELECT {columns} FROM follow_ups
WHERE raised_by = :by OR (
  status = 'open' AND raised_at IS NULL AND (due_at IS NULL OR due_at <= :until))
ORDER BY raised_by IS NULL, due_at IS NULL, due_at, id LIMIT :limit

-- name: next_follow_up_at
SELECT min(raise_at) FROM follow_ups WHERE status = 'open' AND raised_at IS NULL AND raise_at IS NOT NULL

-- name: mark_follow_ups_raised
UPDATE follow_ups SET raised_at = :now, raised_by = :by
WHERE id IN (SELECT value FROM json_each(:ids)) AND raised_at IS NULL AND status = 'open'

-- name: count_follow_up_messages
SELECT count(DISTINCT raised_by) FROM follow_ups
WHERE raised_at >= :since AND raised_by <> :by AND raised_by NOT LIKE 'brief:%'

-- name: close_follow_up
UPDATE follow_ups SET status = :status, closed_at = :now, closed_by_event_id = :event_id
WHERE id = :id AND status = 'open'

-- name: postpone_follow_up
UPDATE follow_ups
SET status = 'open', closed_at = NULL, closed_by_event_id = NULL, raised_at = NULL, raised_by = NULL,
    due_at = :due_at, raise_at = :raise_at
WHERE id = :id

-- name: add_exam
INSERT INTO exams (id, sample_id, facts, settings_json, questioner, cost_microusd, duration_ms, created_at)
VALUES (:id, :sample_id, :facts, :settings, :questioner, :cost_microusd, :duration_ms, :created_at)

-- name: add_exam_answer
-- A fact may have been forgotten while it was asked for.
INSERT INTO exam_answers (exam_id, fact_id, age, kind, entity_id, asked, found)
SELECT :exam_id, :fact_id, :age, :kind, :entity_id, :asked, :found WHERE EXISTS (SELECT 1 FROM facts WHERE id = :fact_id)

-- name: add_exam_finding
INSERT INTO exam_findings (exam_id, fact_id, kind, other_fact_id, entity_id, detail, fixes_json)
SELECT :exam_id, :fact_id, :kind, :other_fact_id, :entity_id, :detail, :fixes
WHERE EXISTS (SELECT 1 FROM facts WHERE id = :fact_id)
  AND (:other_fact_id IS NULL OR EXISTS (SELECT 1 FROM facts WHERE id = :other_fact_id))

-- name: exams
-- The newest first. Facts that were forgotten since are counted nowhere.
SELECT e.id, e.sample_id, e.created_at, e.facts, e.settings_json, e.questioner, e.cost_microusd, e.duration_ms,
       count(a.fact_id), coalesce(sum(2 * a.found >= a.asked), 0)
FROM (SELECT * FROM exams ORDER BY created_at DESC, id DESC LIMIT :limit) AS e
LEFT JOIN exam_answers AS a ON a.exam_id = e.id
GROUP BY e.id ORDER BY e.created_at DESC, e.id DESC

-- name: exam_answers
SELECT fact_id, age, kind, entity_id, asked, found FROM exam_answers WHERE exam_id = ? ORDER BY fact_id

-- name: exam_findings
SELECT w.kind, w.fact_id, f.fact, w.other_fact_id, o.fact, w.entity_id, w.detail, w.fixes_json
FROM exam_findings AS w JOIN facts AS f ON f.id = w.fact_id LEFT JOIN facts AS o ON o.id = w.other_fact_id
WHERE w.exam_id = ? ORDER BY w.kind, f.seq DESC

-- name: exam_finding_counts
SELECT exam_id, kind, count(*) FROM exam_findings
WHERE exam_id IN (SELECT value FROM json_each(?)) GROUP BY exam_id, kind

-- name: exam_wordings
SELECT fact_id, question FROM exam_wordings
WHERE model = :model AND fact_id IN (SELECT value FROM json_each(:facts)) ORDER BY fact_id, number

-- name: add_exam_wording
INSERT INTO exam_wordings (fact_id, model, number, question, created_at)
SELECT :fact_id, :model, :number, :question, :now WHERE EXISTS (SELECT 1 FROM facts WHERE id = :fact_id)
ON CONFLICT DO UPDATE SET question = excluded.question, created_at = excluded.created_at
