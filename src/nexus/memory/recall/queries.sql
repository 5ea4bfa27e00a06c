-- Events, facts and what was made of them, as the arms of recall ask for them.
-- Scope parameters are JSON lists or null; null allows everything.

-- name: newest_event
SELECT coalesce(max(seq), 0) FROM events

-- name: newest_fact
SELECT coalesce(max(seq), 0) FROM facts

-- name: newest_summary
SELECT coalesce(max(seq), 0) FROM summaries

-- name: newest_event_texts
SELECT substr(content, 1, 300) FROM events WHERE content <> '' ORDER BY seq DESC LIMIT ?

-- name: newest_fact_texts
SELECT substr(fact, 1, 300) FROM facts ORDER BY seq DESC LIMIT ?

-- name: events_matching
SELECT count(*), min(seq) FROM (
  SELECT rowid AS seq FROM events_fts WHERE events_fts MATCH ? ORDER BY rowid DESC LIMIT ?
)

-- name: facts_matching
SELECT count(*), min(seq) FROM (
  SELECT rowid AS seq FROM facts_fts WHERE facts_fts MATCH ? ORDER BY rowid DESC LIMIT ?
)

-- name: summaries_matching
SELECT count(*), min(seq) FROM (
  SELECT rowid AS seq FROM summaries_fts WHERE summaries_fts MATCH ? ORDER BY rowid DESC LIMIT ?
)

-- name: events_words_beginning
SELECT term FROM events_terms WHERE term >= :first AND term < :last LIMIT :limit

-- name: facts_words_beginning
SELECT term FROM facts_terms WHERE term >= :first AND term < :last LIMIT :limit

-- name: summaries_words_beginning
SELECT term FROM summaries_terms WHERE term >= :first AND term < :last LIMIT :limit

-- name: events_unspaced_beginning
SELECT term FROM events_unspaced_terms WHERE term >= :first AND term < :last ORDER BY doc DESC LIMIT :limit

-- name: facts_unspaced_beginning
SELECT term FROM facts_unspaced_terms WHERE term >= :first AND term < :last ORDER BY doc DESC LIMIT :limit

-- name: keyword_events
SELECT event_id, -bm25(events_fts, 0.0, 1.0, 1.0) FROM events_fts
WHERE events_fts MATCH :match ORDER BY rank LIMIT :limit

-- name: keyword_events_scoped
SELECT e.id, -bm25(events_fts, 0.0, 1.0, 1.0)
FROM events_fts JOIN events AS e ON e.seq = events_fts.rowid
WHERE events_fts MATCH :match
  AND (:threads IS NULL OR e.thread_id IN (SELECT value FROM json_each(:threads)))
  AND (:channels IS NULL OR e.channel IN (SELECT value FROM json_each(:channels)))
  AND (:after IS NULL OR e.occurred_at >= :after) AND (:before IS NULL OR e.occurred_at < :before)
ORDER BY rank LIMIT :limit

-- name: newest_events
SELECT event_id, 0.0 FROM events_fts WHERE events_fts MATCH :match ORDER BY rowid DESC LIMIT :limit

-- name: newest_events_scoped
SELECT e.id, 0.0 FROM events_fts JOIN events AS e ON e.seq = events_fts.rowid
WHERE events_fts MATCH :match
  AND (:threads IS NULL OR e.thread_id IN (SELECT value FROM json_each(:threads)))
  AND (:channels IS NULL OR e.channel IN (SELECT value FROM json_each(:channels)))
  AND (:after IS NULL OR e.occurred_at >= :after) AND (:before IS NULL OR e.occurred_at < :before)
ORDER BY events_fts.rowid DESC LIMIT :limit

-- name: keyword_facts
SELECT fact_id, -bm25(facts_fts, 0.0, 1.0) FROM facts_fts
WHERE facts_fts MATCH :match ORDER BY rank LIMIT :limit

-- name: keyword_facts_scoped
SELECT f.id, -bm25(facts_fts, 0.0, 1.0)
FROM facts_fts JOIN facts AS f ON f.seq = facts_fts.rowid
WHERE facts_fts MATCH :match
  AND (:channels IS NULL OR EXISTS (
    SELECT 1 FROM events AS e
    WHERE e.id = f.source_event_id AND e.channel IN (SELECT value FROM json_each(:channels))))
  AND (:after IS NULL OR coalesce(f.as_of, f.valid_at) >= :after)
  AND (:before IS NULL OR coalesce(f.as_of, f.valid_at) < :before)
ORDER BY rank LIMIT :limit

-- name: newest_facts
SELECT fact_id, 0.0 FROM facts_fts WHERE facts_fts MATCH :match ORDER BY rowid DESC LIMIT :limit

-- name: newest_facts_scoped
SELECT f.id, 0.0 FROM facts_fts JOIN facts AS f ON f.seq = facts_fts.rowid
WHERE facts_fts MATCH :match
  AND (:channels IS NULL OR EXISTS (
    SELECT 1 FROM events AS e
    WHERE e.id = f.source_event_id AND e.channel IN (SELECT value FROM json_each(:channels))))
  AND (:after IS NULL OR coalesce(f.as_of, f.valid_at) >= :after)
  AND (:before IS NULL OR coalesce(f.as_of, f.valid_at) < :before)
ORDER BY facts_fts.rowid DESC LIMIT :limit

-- name: keyword_summaries
-- Each in its last version.
SELECT s.id, -bm25(summaries_fts, 0.0, 1.0) FROM summaries_fts JOIN summaries AS s ON s.seq = summaries_fts.rowid
WHERE summaries_fts MATCH :match
  AND NOT EXISTS (SELECT 1 FROM analysis_runs WHERE previous_version_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM mental_models WHERE previous_version_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM episodes WHERE previous_version_id = s.id)
ORDER BY rank LIMIT :limit

-- name: newest_summaries
SELECT s.id, 0.0 FROM summaries_fts JOIN summaries AS s ON s.seq = summaries_fts.rowid
WHERE summaries_fts MATCH :match
  AND NOT EXISTS (SELECT 1 FROM analysis_runs WHERE previous_version_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM mental_models WHERE previous_version_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM episodes WHERE previous_version_id = s.id)
ORDER BY summaries_fts.rowid DESC LIMIT :limit

-- name: speakers
-- Those of the given queries that match any event.
SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM events_fts WHERE events_fts MATCH value)

-- name: events_in_scope
SELECT id FROM events
WHERE (:threads IS NULL OR thread_id IN (SELECT value FROM json_each(:threads)))
  AND (:channels IS NULL OR channel IN (SELECT value FROM json_each(:channels)))
  AND (:after IS NULL OR occurred_at >= :after) AND (:before IS NULL OR occurred_at < :before)
LIMIT :limit

-- name: library_scope
-- The events and facts inside, for channels of an application's users: they have an index of their own.
SELECT e.id, f.id FROM events AS e
LEFT JOIN facts AS f ON f.source_event_id = e.id
  AND (:after IS NULL OR coalesce(f.as_of, f.valid_at) >= :after)
  AND (:before IS NULL OR coalesce(f.as_of, f.valid_at) < :before)
WHERE e.channel IN (SELECT value FROM json_each(:channels)) AND e.channel >= 'library:' AND e.channel < 'library;'
  AND (:after IS NULL OR e.occurred_at >= :after) AND (:before IS NULL OR e.occurred_at < :before)
LIMIT :limit

-- name: facts_in_scope
SELECT id FROM facts
WHERE (:events IS NULL OR source_event_id IN (SELECT value FROM json_each(:events)))
  AND (:after IS NULL OR coalesce(as_of, valid_at) >= :after)
  AND (:before IS NULL OR coalesce(as_of, valid_at) < :before)
LIMIT :limit

-- name: permitted_events
SELECT id FROM events
WHERE id IN (SELECT value FROM json_each(:ids))
  AND (:threads IS NULL OR thread_id IN (SELECT value FROM json_each(:threads)))
  AND (:channels IS NULL OR channel IN (SELECT value FROM json_each(:channels)))
  AND (:after IS NULL OR occurred_at >= :after) AND (:before IS NULL OR occurred_at < :before)

-- name: permitted_others
WITH wanted (id) AS (SELECT value FROM json_each(:ids)), known (id, source_event_id, at) AS (
  SELECT id, source_event_id, coalesce(as_of, valid_at) FROM facts WHERE id IN (SELECT id FROM wanted)
  UNION ALL
  SELECT id, NULL, end_time FROM episodes
  WHERE id IN (SELECT id FROM wanted)
    AND (:threads IS NULL OR thread_id IN (SELECT value FROM json_each(:threads)))
    AND (:channels IS NULL OR channel IN (SELECT value FROM json_each(:channels)))
  UNION ALL
  SELECT id, NULL, (SELECT at FROM conclusion_dates WHERE conclusion_dates.id = analysis_runs.id)
  FROM analysis_runs WHERE id IN (SELECT id FROM wanted)
  UNION ALL
  SELECT id, NULL, (SELECT at FROM conclusion_dates WHERE conclusion_dates.id = mental_models.id)
  FROM mental_models WHERE id IN (SELECT id FROM wanted)
)
SELECT id, source_event_id FROM known
WHERE (:after IS NULL OR at >= :after) AND (:before IS NULL OR at < :before)

-- name: events_in_window
SELECT id FROM events
WHERE occurred_at >= :start AND occurred_at < :end
  AND (:threads IS NULL OR thread_id IN (SELECT value FROM json_each(:threads)))
  AND (:channels IS NULL OR channel IN (SELECT value FROM json_each(:channels)))
ORDER BY occurred_at DESC LIMIT :limit

-- name: facts_in_window
SELECT id FROM facts
WHERE coalesce(as_of, valid_at) >= :start AND coalesce(as_of, valid_at) < :end
  AND (:channels IS NULL OR EXISTS (
    SELECT 1 FROM events AS e
    WHERE e.id = facts.source_event_id AND e.channel IN (SELECT value FROM json_each(:channels))))
ORDER BY coalesce(as_of, valid_at) DESC LIMIT :limit

-- name: episodes_in_window
SELECT id FROM episodes AS e
WHERE end_time >= :start AND start_time < :end AND summary IS NOT NULL
  AND (:threads IS NULL OR thread_id IN (SELECT value FROM json_each(:threads)))
  AND (:channels IS NULL OR channel IN (SELECT value FROM json_each(:channels)))
  AND (:after IS NULL OR end_time >= :after) AND (:before IS NULL OR end_time < :before)
  AND NOT EXISTS (SELECT 1 FROM episodes AS n WHERE n.previous_version_id = e.id)
ORDER BY end_time DESC LIMIT :limit

-- name: aliases
SELECT a.normalized, a.entity_id, e.canonical_name FROM entity_aliases AS a
JOIN entities AS e ON e.id = a.entity_id
WHERE a.normalized IN (SELECT value FROM json_each(?))
UNION
SELECT normalized_name, id, canonical_name FROM entities
WHERE normalized_name IN (SELECT value FROM json_each(?1))

-- name: entities_of_scopes
-- Those of the given entities that are known on the given channels alone.
SELECT id FROM entities
WHERE id IN (SELECT value FROM json_each(:entities)) AND scope IN (SELECT value FROM json_each(:channels))

-- name: owner
SELECT p.entity_id, e.canonical_name FROM persons AS p JOIN entities AS e ON e.id = p.entity_id WHERE p.is_owner

-- name: called_like
-- What the entities are called.
SELECT normalized, entity_id FROM entity_aliases WHERE entity_id IN (SELECT value FROM json_each(?))
UNION
SELECT normalized_name, id FROM entities WHERE id IN (SELECT value FROM json_each(?1))

-- name: canonical_names
SELECT id, canonical_name FROM entities WHERE id IN (SELECT value FROM json_each(?))

-- name: types
SELECT id, type FROM entities WHERE id IN (SELECT value FROM json_each(?))

-- name: facts_with_roles
-- Who somebody is gets said early; what changed since is new. Ranking all that match would take too long.
SELECT f.seq, f.fact, f.source_entity_id, f.target_entity_id,
       (SELECT group_concat(entity_id) FROM fact_entities WHERE fact_id = f.id)
FROM (
  SELECT * FROM (SELECT rowid AS seq FROM facts_fts WHERE facts_fts MATCH :match ORDER BY rowid LIMIT :limit)
  UNION
  SELECT * FROM (SELECT rowid FROM facts_fts WHERE facts_fts MATCH :match ORDER BY rowid DESC LIMIT :limit)
) AS found JOIN facts AS f ON f.seq = found.seq

-- name: near_aliases
-- Aliases that begin or end like a word and are about as long.
SELECT DISTINCT a.normalized, a.entity_id, e.canonical_name
FROM alias_keys AS k JOIN entity_aliases AS a ON a.id = k.alias_id JOIN entities AS e ON e.id = a.entity_id
WHERE k.key IN (SELECT value FROM json_each(:keys)) AND length(a.normalized) BETWEEN :shortest AND :longest
LIMIT :limit

-- name: families
-- Every entity that is one with a given one: those that it was merged into, and those merged into these.
WITH RECURSIVE
  up (start, id) AS (
    SELECT value, value FROM json_each(?)
    UNION
    SELECT up.start, e.merged_into FROM up JOIN entities AS e ON e.id = up.id WHERE e.merged_into IS NOT NULL
  ),
  family (start, id) AS (
    SELECT start, id FROM up
    UNION
    SELECT family.start, e.id FROM family JOIN entities AS e ON e.merged_into = family.id
  )
SELECT start, id FROM family

-- name: names_of_entities
SELECT normalized FROM entity_aliases WHERE entity_id IN (SELECT value FROM json_each(?))
UNION
SELECT normalized_name FROM entities WHERE id IN (SELECT value FROM json_each(?1))

-- name: entities
SELECT e.id, e.canonical_name, e.type, e.summary, e.updated_at, e.source_event_id,
       (SELECT group_concat(alias, ', ') FROM (
          SELECT DISTINCT alias FROM entity_aliases
          WHERE entity_id = e.id AND alias <> e.canonical_name AND type = 'name' ORDER BY alias LIMIT 8)),
       (SELECT group_concat(what || ' ' || value, '; ') FROM (
          -- What was said last comes first.
          SELECT replace(fact_type, '_', ' ') AS what, value, max(coalesce(k.as_of, k.created_at)) AS said
          FROM person_facts AS k JOIN persons AS p ON p.id = k.person_id WHERE p.entity_id = e.id
          GROUP BY what, value
          UNION ALL
          SELECT type, alias, max(created_at) FROM entity_aliases WHERE entity_id = e.id AND type <> 'name'
          GROUP BY type, alias
          ORDER BY what, said DESC, value LIMIT 24))
FROM entities AS e
WHERE e.id IN (SELECT value FROM json_each(?)) AND e.merged_into IS NULL

-- name: facts_of_entities
SELECT id, 1.0 FROM (
  SELECT * FROM (SELECT id, created_at FROM facts
    WHERE source_entity_id IN (SELECT value FROM json_each(:entities)) ORDER BY created_at DESC LIMIT :limit)
  UNION
  SELECT * FROM (SELECT id, created_at FROM facts
    WHERE target_entity_id IN (SELECT value FROM json_each(:entities)) ORDER BY created_at DESC LIMIT :limit)
  UNION
  SELECT * FROM (SELECT f.id, f.created_at FROM fact_entities AS n JOIN facts AS f ON f.id = n.fact_id
    WHERE n.entity_id IN (SELECT value FROM json_each(:entities)) ORDER BY f.created_at DESC LIMIT :limit)
)
ORDER BY created_at DESC LIMIT :limit

-- name: related_entities
-- Whom facts tie to them, and who is mentioned in the same episodes, the most often first.
SELECT id, count(*) AS times FROM (
  SELECT * FROM (SELECT target_entity_id AS id FROM facts
    WHERE source_entity_id IN (SELECT value FROM json_each(:entities)) ORDER BY created_at DESC LIMIT :facts)
  UNION ALL
  SELECT * FROM (SELECT source_entity_id FROM facts
    WHERE target_entity_id IN (SELECT value FROM json_each(:entities)) ORDER BY created_at DESC LIMIT :facts)
  UNION ALL
  SELECT other.entity_id FROM episode_entity_mentions AS own
  JOIN episode_entity_mentions AS other ON other.episode_id = own.episode_id
  WHERE own.entity_id IN (SELECT value FROM json_each(:entities))
)
WHERE id IS NOT NULL AND id NOT IN (SELECT value FROM json_each(:entities))
GROUP BY id ORDER BY times DESC LIMIT :limit

-- name: conclusions_of_entities
SELECT 'mental_model', id FROM mental_models AS m
WHERE subject_entity_id IN (SELECT value FROM json_each(:entities))
  AND NOT EXISTS (SELECT 1 FROM mental_models AS n WHERE n.previous_version_id = m.id)
UNION ALL
SELECT 'observation', id FROM observations AS o
WHERE subject_entity_id IN (SELECT value FROM json_each(:entities))
  AND NOT EXISTS (SELECT 1 FROM analysis_runs AS n WHERE n.previous_version_id = o.id)
UNION ALL
SELECT * FROM (SELECT 'episode', e.id FROM episode_entity_mentions AS m JOIN episodes AS e ON e.id = m.episode_id
  WHERE m.entity_id IN (SELECT value FROM json_each(:entities)) AND e.summary IS NOT NULL
    AND (e.metadata_json ->> 'extracted') IS NOT 1
    AND NOT EXISTS (SELECT 1 FROM episodes AS n WHERE n.previous_version_id = e.id)
  ORDER BY e.end_time DESC LIMIT :limit)
LIMIT :limit

-- name: about_entities
-- Those of the given things that are tied to one of the entities.
WITH wanted (id) AS (SELECT value FROM json_each(:ids)), about (id) AS (SELECT value FROM json_each(:entities))
SELECT id FROM facts WHERE id IN (SELECT id FROM wanted)
  AND (source_entity_id IN (SELECT id FROM about) OR target_entity_id IN (SELECT id FROM about)
       OR EXISTS (SELECT 1 FROM fact_entities AS n
                  WHERE n.fact_id = facts.id AND n.entity_id IN (SELECT id FROM about)))
UNION ALL
SELECT id FROM analysis_runs
WHERE id IN (SELECT id FROM wanted) AND subject_entity_id IN (SELECT id FROM about)
UNION ALL
SELECT id FROM mental_models
WHERE id IN (SELECT id FROM wanted) AND subject_entity_id IN (SELECT id FROM about)
UNION ALL
SELECT episode_id FROM episode_entity_mentions
WHERE episode_id IN (SELECT id FROM wanted) AND entity_id IN (SELECT id FROM about)

-- name: causal_neighbours
SELECT effect_fact_id, confidence FROM causal_links
WHERE cause_fact_id IN (SELECT value FROM json_each(:facts)) AND relation <> 'distinct'
UNION ALL
SELECT cause_fact_id, confidence FROM causal_links
WHERE effect_fact_id IN (SELECT value FROM json_each(:facts)) AND relation <> 'distinct'
LIMIT :limit

-- name: succession_chains
-- What replaced the given facts and what they replaced, however many steps away. The end of each chain, and of
-- the others those of the facts given first, the nearest first, as far as the limit goes.
WITH RECURSIVE
  later (place, start, id, step) AS (
    SELECT key, value, new_fact_id, 1 FROM json_each(:facts) JOIN fact_successions ON old_fact_id = value
    UNION
    SELECT later.place, later.start, l.new_fact_id, step + 1
    FROM later JOIN fact_successions AS l ON l.old_fact_id = later.id WHERE step < 1000
  ),
  earlier (place, start, id, step) AS (
    SELECT key, value, old_fact_id, 1 FROM json_each(:facts) JOIN fact_successions ON new_fact_id = value
    UNION
    SELECT earlier.place, earlier.start, l.old_fact_id, step + 1
    FROM earlier JOIN fact_successions AS l ON l.new_fact_id = earlier.id WHERE step < 1000
  ),
  chains (place, start, id, step, is_end) AS (
    SELECT place, start, id, step, NOT EXISTS (SELECT 1 FROM fact_successions WHERE old_fact_id = later.id)
    FROM later
    UNION ALL
    SELECT place, start, id, step, 0 FROM earlier
  )
SELECT start, id FROM chains ORDER BY is_end DESC, place, step
LIMIT :limit

-- name: causal_links
-- Facts with those that they led to. What was replaced was not caused, nor what is true beside something else.
SELECT l.cause_fact_id, c.fact, l.effect_fact_id, e.fact, l.relation
FROM causal_links AS l JOIN facts AS c ON c.id = l.cause_fact_id JOIN facts AS e ON e.id = l.effect_fact_id
WHERE l.relation NOT IN ('replaced', 'distinct')
  AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id IN (l.cause_fact_id, l.effect_fact_id))
  AND (l.cause_fact_id IN (SELECT value FROM json_each(?1))
      OR l.effect_fact_id IN (SELECT value FROM json_each(?1)))
ORDER BY l.created_at, l.id

-- name: retained
-- Those of the given events that facts were taken from.
SELECT DISTINCT source_event_id FROM facts WHERE source_event_id IN (SELECT value FROM json_each(?))

-- name: event_places
-- Each event with what was said before it in its thread, the nearest first, and from it on. Commands, and
-- what they printed, aren't remembered; nor are notes, whose facts are.
SELECT e.seq,
  (SELECT group_concat(seq) FROM (
    SELECT seq FROM events WHERE thread_id = e.thread_id AND seq < e.seq AND kind NOT IN ('command', 'note')
    ORDER BY seq DESC LIMIT :reach)),
  (SELECT group_concat(seq) FROM (
    SELECT seq FROM events WHERE thread_id = e.thread_id AND seq > e.seq AND kind NOT IN ('command', 'note')
    ORDER BY seq LIMIT :reach))
FROM events AS e WHERE e.id IN (SELECT value FROM json_each(:ids)) AND e.kind NOT IN ('command', 'note')

-- name: events
SELECT seq, id, content, occurred_at, sender, direction, thread_id
FROM events WHERE seq IN (SELECT value FROM json_each(?))

-- name: facts
-- Of what was replaced: since when, by what directly, and what holds now at the end of the chain.
-- f: the fact; l: its link to n, the next of the chain; e: the end of the chain.
WITH RECURSIVE later (start, id, step) AS (
  SELECT old_fact_id, new_fact_id, 1 FROM fact_successions WHERE old_fact_id IN (SELECT value FROM json_each(:ids))
  UNION
  SELECT later.start, l.new_fact_id, step + 1
  FROM later JOIN fact_successions AS l ON l.old_fact_id = later.id WHERE step < 100
)
SELECT f.id, f.fact AS text, coalesce(f.as_of, f.valid_at) AS at, f.seq, f.source_event_id, f.confidence,
       f.source_type, f.source_entity_id AS source, f.target_entity_id AS target,
       coalesce(
         coalesce(n.as_of, n.valid_at),
         CASE WHEN json_valid(f.metadata_json) AND json_extract(f.metadata_json, '$.valid_until') <= :now
              THEN json_extract(f.metadata_json, '$.valid_until') END) AS stale_since,
       e.id AS end_id, e.fact AS end_text, coalesce(n.as_of, n.valid_at) AS replaced_at, l.how, l.basis, l.signals,
       n.id AS next_id
FROM facts AS f
LEFT JOIN fact_successions AS l ON l.old_fact_id = f.id
LEFT JOIN facts AS n ON n.id = l.new_fact_id
LEFT JOIN facts AS e ON e.id = (SELECT id FROM later WHERE start = f.id ORDER BY step DESC LIMIT 1)
WHERE f.id IN (SELECT value FROM json_each(:ids))
  AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = f.id)

-- name: replaced_in_episodes
-- Facts learned in the episodes that were replaced: what they said, since when they don't hold, and what holds now.
-- since: when the first of the chain replaced it.
WITH RECURSIVE
  learned (episode, fact) AS (
    SELECT v.episode_id, f.id FROM episode_events AS v JOIN facts AS f ON f.source_event_id = v.event_id
    WHERE v.episode_id IN (SELECT value FROM json_each(?1))
    UNION
    SELECT episode_id, relationship_id FROM episode_relationship_mentions
    WHERE episode_id IN (SELECT value FROM json_each(?1))
  ),
  later (episode, fact, id, since, step) AS (
    SELECT episode, learned.fact, n.id, coalesce(n.as_of, n.valid_at), 1
    FROM learned JOIN fact_successions AS l ON l.old_fact_id = learned.fact JOIN facts AS n ON n.id = l.new_fact_id
    UNION
    SELECT episode, fact, l.new_fact_id, since, step + 1
    FROM later JOIN fact_successions AS l ON l.old_fact_id = later.id WHERE step < 100
  )
SELECT later.episode, o.fact AS old, later.since AS at, n.id AS newer_id, n.fact AS newer
FROM later
JOIN facts AS o ON o.id = later.fact
JOIN facts AS n ON n.id = later.id
WHERE NOT EXISTS (SELECT 1 FROM fact_successions WHERE old_fact_id = later.id)
  AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = n.id)

-- name: summaries
-- A conclusion is as old as the newest of its evidence, whenever it was drawn. With it the fact that made it stale.
WITH RECURSIVE
  found (kind, id, text, at, confidence, stale_at, subject, reason) AS (
    SELECT 'observation', id, content, (SELECT at FROM conclusion_dates WHERE conclusion_dates.id = o.id), confidence,
           stale_at, subject_entity_id, (SELECT stale_reason FROM analysis_runs WHERE analysis_runs.id = o.id)
    FROM observations AS o WHERE id IN (SELECT value FROM json_each(?1))
      AND NOT EXISTS (SELECT 1 FROM analysis_runs AS n WHERE n.previous_version_id = o.id)
    UNION ALL
    SELECT 'mental_model', id, name || ': ' || content,
           (SELECT at FROM conclusion_dates WHERE conclusion_dates.id = m.id), 1.0, stale_at, subject_entity_id,
           coalesce((SELECT stale_reason FROM analysis_runs WHERE m.stale_reason LIKE 'stale: %' AND id = substr(m.stale_reason, 8)),
                    stale_reason)
    FROM mental_models AS m WHERE id IN (SELECT value FROM json_each(?1))
      AND NOT EXISTS (SELECT 1 FROM mental_models AS n WHERE n.previous_version_id = m.id)
    UNION ALL
    SELECT 'episode', id,
           -- A summary from the episode's own words holds the sentence that its title is.
           coalesce(iif(metadata_json ->> 'extracted', summary, title || ': ' || summary), summary, title, ''),
           end_time, 1.0, NULL, NULL, NULL
    FROM episodes AS e WHERE id IN (SELECT value FROM json_each(?1))
      AND NOT EXISTS (SELECT 1 FROM episodes AS n WHERE n.previous_version_id = e.id)
  ),
  newer (start, id, step) AS (
    SELECT id, substr(reason, 8), 0 FROM found WHERE reason LIKE 'newer: %' AND stale_at IS NOT NULL
    UNION
    SELECT newer.start, l.new_fact_id, step + 1
    FROM newer JOIN fact_successions AS l ON l.old_fact_id = newer.id WHERE step < 100
  )
SELECT found.kind, found.id, found.text, found.at, found.confidence, found.stale_at AS stale_since, found.subject,
       n.id AS newer_id, n.fact AS newer
FROM found
LEFT JOIN facts AS n ON n.id = (SELECT newer.id FROM newer WHERE start = found.id ORDER BY step DESC LIMIT 1)
  AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = n.id)
