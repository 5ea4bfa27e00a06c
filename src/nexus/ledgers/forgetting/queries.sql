-- What the rules of `tables.py` cannot say. All ledgers are attached; `gone_T` are the keys of table T
-- that go, `new_T` those that the latest round added. `:start` and `:end` are NULL but for a time range.

-- name: said_by_it_or_to_it_alone
WITH its AS (
  SELECT event_id, role, identifier FROM events.event_participants WHERE entity_id IN new_entities
  UNION
  SELECT event_id, role, identifier FROM events.event_participants WHERE contact_id IN new_contacts
  UNION
  SELECT json_extract(key, '$[0]'), json_extract(key, '$[1]'), json_extract(key, '$[2]')
  FROM new_event_participants
)
SELECT event_id FROM its
WHERE role = 'sender' OR NOT EXISTS (
  SELECT 1 FROM events.event_participants AS other
  WHERE other.event_id = its.event_id AND other.role <> 'sender'
    AND (other.event_id, other.role, other.identifier) NOT IN (SELECT event_id, role, identifier FROM its)
)

-- name: note_of_fact
-- A note says nothing but the facts that it was recorded for.
SELECT events.id FROM memory.facts JOIN events.events ON events.id = facts.source_event_id
WHERE facts.id = :id AND events.kind = 'note'
  AND NOT EXISTS (SELECT 1 FROM memory.facts AS other WHERE other.source_event_id = events.id AND other.id <> :id)

-- name: events_of_scope
SELECT id FROM events.events WHERE channel = :channel

-- name: threads_of_scope
SELECT id FROM events.threads WHERE channel = :channel

-- name: entities_of_scope
SELECT id FROM identity.entities WHERE scope = :channel

-- name: events_of_imports
SELECT events.id FROM events.import_ranges AS range
JOIN events.events ON events.seq BETWEEN range.first_seq AND range.last_seq
WHERE range.import_id IN new_imports

-- name: contacts_without_an_entity
-- An alias of a scope says nothing about the contacts of the owner.
SELECT contact_id FROM identity.contact_identifiers
WHERE normalized IN (
    SELECT alias.normalized FROM identity.entity_aliases AS alias
    JOIN identity.entities AS entity ON entity.id = alias.entity_id
    WHERE entity.id IN new_entities AND entity.scope = '')
  AND contact_id IN (SELECT id FROM identity.contacts WHERE entity_id IS NULL)

-- name: turns_of_tool_events
-- An imported message whose calls and results are events of their own: it is tied to its first event alone.
SELECT message.turn_id FROM events.events AS gone
JOIN events.events AS said ON said.channel = gone.channel AND said.external_id IN (
  substr(gone.external_id, 1, length(rtrim(gone.external_id, '0123456789')) - 6),
  rtrim(gone.external_id, '0123456789') || '0')
JOIN agents.agent_messages AS message ON message.event_id = said.id
WHERE gone.id IN new_events AND gone.kind = 'tool_call'
  AND rtrim(gone.external_id, '0123456789') LIKE '%/tool-'

-- name: recordings_and_transcripts
-- A voice note and what was said in it are two events of one message.
SELECT said.id FROM events.events AS gone
JOIN events.events AS said ON said.channel = gone.channel AND said.external_id = gone.id || ':transcript'
WHERE gone.id IN new_events
UNION
SELECT note.id FROM events.events AS gone
JOIN events.events AS note ON note.id = substr(gone.external_id, 1, length(gone.external_id) - 11)
WHERE gone.id IN new_events AND gone.kind = 'transcript'

-- name: turns_with_results_of_turns
-- An imported result is kept with its call, which an earlier turn may have made. It has the result's time.
WITH gone AS (
  SELECT message.session_id, message.created_at
  FROM agents.agent_messages AS message JOIN agents.agent_sessions AS session ON session.id = message.session_id
  WHERE message.turn_id IN new_agent_turns AND session.source <> 'nexus'
)
SELECT call.turn_id FROM agents.agent_turns AS turn
CROSS JOIN agents.agent_tool_calls AS call ON call.turn_id = turn.id
WHERE turn.session_id IN (SELECT session_id FROM gone)
  AND (turn.session_id, call.ended_at) IN (SELECT session_id, created_at FROM gone)

-- name: summaries_of_turns
-- A fork that begins with a turn that goes may have summed it up for itself.
WITH RECURSIVE lost (session_id, position, first_message) AS (
  SELECT turn.session_id, min(turn.position), min(message.position)
  FROM agents.agent_turns AS turn LEFT JOIN agents.agent_messages AS message ON message.turn_id = turn.id
  WHERE turn.id IN new_agent_turns GROUP BY turn.session_id
  UNION
  SELECT fork.id, lost.position, lost.first_message
  FROM lost JOIN agents.agent_sessions AS fork
    ON fork.parent_session_id = lost.session_id AND fork.forked_at_position > lost.first_message
)
SELECT later.id
FROM lost JOIN agents.agent_turns AS later
  ON later.session_id = lost.session_id AND later.position > lost.position AND later.kind = 'summary'

-- name: orphan_threads
SELECT id FROM events.threads AS thread
WHERE (
    id IN (SELECT thread_id FROM events.events WHERE id IN gone_events)
    OR (julianday(created_at) >= julianday(:start) AND julianday(created_at) < julianday(:end))
  )
  AND NOT EXISTS (SELECT 1 FROM events.events WHERE thread_id = thread.id AND id NOT IN gone_events)
  -- A calendar's thread notes, without their texts, which of its events must not be read again.
  AND channel <> 'calendar'
  AND id NOT IN (
    SELECT parent_thread_id FROM events.threads
    WHERE parent_thread_id IS NOT NULL AND id NOT IN gone_threads)

-- name: orphan_sessions
SELECT id FROM agents.agent_sessions AS session
WHERE (
    id IN (SELECT session_id FROM agents.agent_turns WHERE id IN gone_agent_turns)
    OR (julianday(created_at) >= julianday(:start) AND julianday(created_at) < julianday(:end))
  )
  AND NOT EXISTS (
    SELECT 1 FROM agents.agent_turns WHERE session_id = session.id AND id NOT IN gone_agent_turns)
  AND NOT EXISTS (
    SELECT 1 FROM agents.agent_sessions AS child
    WHERE child.parent_session_id = session.id AND child.id NOT IN gone_agent_sessions)

-- name: orphan_contacts
-- An address book is no orphan: a contact of an entity goes only where the entity was met in what goes.
WITH touched AS (
  SELECT DISTINCT contact_id AS id FROM events.event_participants
  WHERE event_id IN gone_events AND contact_id IS NOT NULL
)
SELECT id FROM identity.contacts AS contact
WHERE id IN touched
  AND id NOT IN (
    SELECT contact_id FROM events.event_participants
    WHERE contact_id IN touched AND event_id NOT IN gone_events)
  AND CASE
    WHEN entity_id IS NULL
      THEN NOT EXISTS (SELECT 1 FROM identity.person_contact_links WHERE contact_id = contact.id)
    ELSE (SELECT source_event_id FROM identity.entities WHERE id = contact.entity_id) IN gone_events
  END

-- name: orphan_entities
SELECT id FROM identity.entities AS entity
WHERE id IN (
    SELECT source_entity_id FROM memory.facts WHERE id IN gone_facts
    UNION SELECT target_entity_id FROM memory.facts WHERE id IN gone_facts
    UNION SELECT entity_id FROM memory.fact_entities WHERE fact_id IN gone_facts
    UNION SELECT entity_id FROM memory.episode_entity_mentions WHERE episode_id IN gone_episodes
    UNION SELECT subject_entity_id FROM memory.analysis_runs WHERE id IN gone_analysis_runs
    UNION SELECT subject_entity_id FROM memory.mental_models WHERE id IN gone_mental_models
    UNION SELECT entity_id FROM events.event_participants WHERE event_id IN gone_events
    UNION SELECT entity_id FROM identity.contacts WHERE id IN gone_contacts
    UNION SELECT id FROM identity.entities WHERE source_event_id IN gone_events
    UNION SELECT id FROM identity.entities
      WHERE julianday(created_at) >= julianday(:start) AND julianday(created_at) < julianday(:end)
  )
  AND NOT EXISTS (SELECT 1 FROM identity.persons WHERE entity_id = entity.id AND is_owner = 1)
  AND NOT EXISTS (
    SELECT 1 FROM events.events WHERE id = entity.source_event_id AND id NOT IN gone_events)
  AND NOT EXISTS (
    SELECT 1 FROM memory.facts WHERE source_entity_id = entity.id AND id NOT IN gone_facts)
  AND NOT EXISTS (
    SELECT 1 FROM memory.facts WHERE target_entity_id = entity.id AND id NOT IN gone_facts)
  AND NOT EXISTS (
    SELECT 1 FROM memory.fact_entities WHERE entity_id = entity.id AND fact_id NOT IN gone_facts)
  AND NOT EXISTS (
    SELECT 1 FROM memory.episode_entity_mentions
    WHERE entity_id = entity.id AND episode_id NOT IN gone_episodes)
  AND NOT EXISTS (
    SELECT 1 FROM memory.analysis_runs
    WHERE subject_entity_id = entity.id AND id NOT IN gone_analysis_runs)
  AND id NOT IN (
    SELECT subject_entity_id FROM memory.mental_models
    WHERE subject_entity_id IS NOT NULL AND id NOT IN gone_mental_models)
  AND NOT EXISTS (
    SELECT 1 FROM events.event_participants WHERE entity_id = entity.id AND event_id NOT IN gone_events)
  AND NOT EXISTS (
    SELECT 1 FROM identity.contacts WHERE entity_id = entity.id AND id NOT IN gone_contacts)
  AND NOT EXISTS (
    SELECT 1 FROM identity.entities AS merged
    WHERE merged.merged_into = entity.id AND merged.id NOT IN gone_entities)
  AND NOT EXISTS (
    SELECT 1 FROM identity.persons JOIN identity.person_facts AS known ON known.person_id = persons.id
    WHERE persons.entity_id = entity.id AND known.id NOT IN gone_person_facts
      AND (known.source_event_id IS NULL OR known.source_event_id NOT IN gone_events))

-- name: work_on_remaining_events
-- The events of an episode that goes can become a new episode.
SELECT json_array(processor, target_type, target_id) FROM memory.processing_log
WHERE processor = 'episodes' AND target_type = 'event'
  AND target_id IN (SELECT event_id FROM memory.episode_events WHERE episode_id IN gone_episodes)
  AND target_id NOT IN gone_events

-- name: work_on_remaining_facts
-- The facts under an observation that goes can become a new observation.
SELECT json_array(processor, target_type, target_id) FROM memory.processing_log
WHERE processor = 'consolidation' AND target_type = 'fact'
  AND target_id IN (SELECT fact_id FROM memory.observation_facts WHERE observation_id IN gone_analysis_runs)
  AND target_id NOT IN gone_facts

-- name: summaries_of_entities
-- What was written about an entity may rest on a fact that goes.
SELECT id FROM identity.entities
WHERE summary IS NOT NULL AND id NOT IN gone_entities AND id IN (
  SELECT source_entity_id FROM memory.facts WHERE id IN gone_facts
  UNION SELECT target_entity_id FROM memory.facts WHERE id IN gone_facts
  UNION SELECT entity_id FROM memory.fact_entities WHERE fact_id IN gone_facts)

-- name: vectors_of_summaries
SELECT seq FROM embeddings.embeddings
WHERE target_type = 'entity'
  AND target_id IN (SELECT key FROM emptied WHERE kind IN ('entities.summary', 'entities.metadata_json'))

-- name: last_errors
SELECT id FROM runtime.automations
WHERE last_error IS NOT NULL AND id IN (
  SELECT automation_id FROM runtime.invocations
  WHERE error IS NOT NULL
    AND (request_id IN gone_requests OR root_request_id IN gone_requests OR id IN gone_invocations))

-- name: files
-- A file that another attachment shares stays.
SELECT path FROM events.attachments
WHERE path IS NOT NULL AND (event_id IN gone_events OR id IN gone_attachments)
EXCEPT
SELECT path FROM events.attachments
WHERE path IS NOT NULL AND event_id NOT IN gone_events AND id NOT IN gone_attachments

-- name: span_of_events
SELECT min(occurred_at), max(occurred_at) FROM events.events WHERE id IN gone_events

-- name: entities_called
SELECT id FROM identity.entities WHERE id = :wanted
UNION
SELECT id FROM identity.entities WHERE canonical_name = :wanted OR normalized_name = :folded
UNION
SELECT entity_id FROM identity.entity_aliases WHERE alias = :wanted OR normalized = :folded

-- name: root_of_entity
WITH RECURSIVE chain (id, merged_into) AS (
  SELECT id, merged_into FROM identity.entities WHERE id = :id
  UNION
  SELECT entities.id, entities.merged_into FROM identity.entities JOIN chain ON entities.id = chain.merged_into
)
SELECT id FROM chain ORDER BY merged_into IS NULL DESC LIMIT 1

-- name: is_owner
WITH RECURSIVE same (id) AS (
  SELECT :id
  UNION
  SELECT entities.id FROM identity.entities JOIN same ON entities.merged_into = same.id
)
SELECT 1 FROM identity.persons WHERE entity_id IN same AND is_owner = 1

-- name: names_of_entity
WITH RECURSIVE same (id) AS (
  SELECT :id
  UNION
  SELECT entities.id FROM identity.entities JOIN same ON entities.merged_into = same.id
)
SELECT canonical_name FROM identity.entities WHERE id IN same
UNION ALL SELECT normalized_name FROM identity.entities WHERE id IN same
UNION ALL SELECT alias FROM identity.entity_aliases WHERE entity_id IN same
UNION ALL SELECT normalized FROM identity.entity_aliases WHERE entity_id IN same
UNION ALL SELECT display_name FROM identity.persons WHERE entity_id IN same
UNION ALL SELECT display_name FROM identity.contacts WHERE entity_id IN same
UNION ALL SELECT identifier FROM identity.contact_identifiers
  WHERE contact_id IN (SELECT id FROM identity.contacts WHERE entity_id IN same)
UNION ALL SELECT normalized FROM identity.contact_identifiers
  WHERE contact_id IN (SELECT id FROM identity.contacts WHERE entity_id IN same)

-- name: entities_like
SELECT canonical_name, id FROM identity.entities WHERE canonical_name LIKE :part
UNION
SELECT alias, entity_id FROM identity.entity_aliases WHERE alias LIKE :part
LIMIT 2000

-- name: begin_forget
INSERT INTO forgets (id, target_kind, target, counts_json, actor) VALUES (?, ?, ?, ?, ?)

-- name: reopen_forget
INSERT INTO forgets (id, target_kind, target, counts_json, actor) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET completed_at = NULL

-- name: channels
SELECT channel FROM events.events UNION SELECT channel FROM events.threads UNION SELECT scope FROM identity.entities

-- name: completed_forgets
SELECT id FROM forgets WHERE completed_at > :after

-- name: plan_item
INSERT OR IGNORE INTO forget_items (forget_id, kind, item_id) VALUES (?, ?, ?)

-- name: update_counts
UPDATE forgets SET counts_json = ? WHERE id = ?

-- name: unfinished_forgets
SELECT id, target_kind, target, counts_json FROM forgets WHERE completed_at IS NULL ORDER BY created_at, id

-- name: planned_kinds
SELECT DISTINCT kind FROM forget_items WHERE forget_id = ?

-- name: planned_files
SELECT item_id FROM forget_items WHERE forget_id = ? AND kind = 'files'

-- name: planned_executions
-- Those that go, and those that lose a text.
SELECT DISTINCT item_id FROM forget_items
WHERE forget_id = ? AND (kind = 'executions' OR kind LIKE 'executions.%')

-- name: drop_items
DELETE FROM forget_items WHERE forget_id = ?

-- name: complete_forget
UPDATE forgets SET completed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE id = ?

-- name: is_published
SELECT 1 FROM bus_events WHERE type = :type AND json_extract(payload_json, '$.forget_id') = :id
