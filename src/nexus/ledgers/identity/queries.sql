-- name: counts
SELECT 'entities', count(*) FROM entities UNION ALL SELECT 'aliases', count(*) FROM entity_aliases

-- name: has_entity
SELECT 1 FROM entities WHERE id = ?

-- name: add_entity
INSERT INTO entities (
  id, type, canonical_name, normalized_name, summary, source_event_id, metadata_json, created_at, updated_at, scope)
VALUES (:id, :type, :name, :normalized, :summary, :event, :metadata, :now, :now, :scope)

-- name: add_placeholder
INSERT INTO entities (id, type, canonical_name, normalized_name, metadata_json, created_at, updated_at)
VALUES (:id, 'Unknown', :id, :normalized, '{"placeholder": true}', :now, :now)

-- name: entity_state
SELECT normalized_name, coalesce(json_extract(metadata_json, '$.placeholder'), 0) FROM entities WHERE id = ?

-- name: describe_entity
UPDATE entities
SET type = :type, canonical_name = :name, normalized_name = :normalized, summary = :summary,
    source_event_id = :event, metadata_json = :metadata, updated_at = :now
WHERE id = :id

-- name: roots_called
WITH RECURSIVE up (id, next) AS (
  SELECT id, merged_into FROM entities WHERE scope = ?2 AND id IN (
    SELECT entity_id FROM entity_aliases WHERE normalized IN (SELECT value FROM json_each(?1))
    UNION SELECT id FROM entities WHERE normalized_name IN (SELECT value FROM json_each(?1)))
  UNION
  SELECT entities.id, entities.merged_into FROM up JOIN entities ON entities.id = up.next
)
SELECT id FROM up WHERE next IS NULL ORDER BY id

-- name: ensure_person
INSERT INTO persons (id, entity_id, display_name, created_at, updated_at)
VALUES (:id, :entity, :name, :now, :now) ON CONFLICT DO NOTHING

-- name: alias_id
SELECT id FROM entity_aliases WHERE entity_id = ? AND type = ? AND normalized = ?

-- name: add_alias
INSERT INTO entity_aliases (id, entity_id, alias, type, normalized, confidence, source_type, source_event_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_alias_key
INSERT INTO alias_keys (key, alias_id) VALUES (?, ?)

-- name: key_count
SELECT count(*) FROM (SELECT 1 FROM alias_keys WHERE key = ? LIMIT ?)

-- name: others_with_keys
SELECT a.entity_id, a.normalized FROM (
  SELECT alias_id FROM alias_keys WHERE key IN (SELECT value FROM json_each(?1))
  GROUP BY alias_id HAVING count(*) >= ?3 LIMIT ?4
) AS k JOIN entity_aliases AS a ON a.id = k.alias_id
WHERE a.entity_id <> ?2 AND (SELECT scope FROM entities WHERE id = a.entity_id) = ?5

-- name: others_with_alias
SELECT DISTINCT entity_id FROM entity_aliases
WHERE normalized = ? AND type = ? AND entity_id <> ?
  AND (SELECT scope FROM entities WHERE id = entity_id) = ? LIMIT ?

-- name: called_alike
-- Others of a name who are not reached on a channel yet, with the channels on which they are.
SELECT e.id, (SELECT group_concat(DISTINCT channel) FROM contacts WHERE entity_id = e.id)
FROM entities AS e
WHERE e.id IN (
    SELECT id FROM entities WHERE normalized_name IN (:name, :sent)
    UNION SELECT entity_id FROM entity_aliases WHERE normalized IN (:name, :sent) AND type = 'name')
  AND e.id <> :id AND e.type = 'Person'
  AND NOT EXISTS (SELECT 1 FROM contacts WHERE entity_id = e.id AND channel = :channel)
LIMIT :limit

-- name: scope_of
SELECT scope FROM entities WHERE id = ?

-- name: canonical_names
SELECT id, normalized_name FROM entities WHERE id IN (SELECT value FROM json_each(?))

-- name: apart_from
-- One entity, and those that do not have the same root.
WITH RECURSIVE up (start, id, next) AS (
  SELECT id, id, merged_into FROM entities WHERE id IN (SELECT value FROM json_each(?1))
  UNION ALL
  SELECT up.start, entities.id, entities.merged_into FROM up JOIN entities ON entities.id = up.next
),
roots (start, root) AS (SELECT start, id FROM up WHERE next IS NULL)
SELECT entities.id, entities.type, entities.canonical_name FROM roots JOIN entities ON entities.id = roots.start
WHERE roots.start = ?2 OR roots.root <> (SELECT root FROM roots WHERE start = ?2)

-- name: put_candidate
INSERT INTO merge_candidates (id, entity_a_id, entity_b_id, score, reasons_json, created_at)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (entity_a_id, entity_b_id) DO UPDATE
SET score = excluded.score, reasons_json = excluded.reasons_json
WHERE status = 'pending' AND excluded.score > score

-- name: pending_candidate
SELECT id, score, reasons_json FROM merge_candidates
WHERE entity_a_id = ? AND entity_b_id = ? AND status = 'pending'

-- name: candidate_of_pair
SELECT id, status, resolved_by, resolved_at FROM merge_candidates WHERE entity_a_id = ? AND entity_b_id = ?

-- name: resolve_candidate
UPDATE merge_candidates SET status = ?, resolved_by = ?, resolved_at = ? WHERE id = ?

-- name: restore_candidate
UPDATE merge_candidates SET status = ?, resolved_by = ?, resolved_at = ?
WHERE id = ? AND status = 'accepted' AND resolved_at = ?

-- name: merged_into
SELECT merged_into FROM entities WHERE id = ?

-- name: set_merged_into
UPDATE entities SET merged_into = ? WHERE id = ?

-- name: add_merge_event
INSERT INTO entity_merge_events (
  id, action, source_entity_id, target_entity_id, candidate_id, undoes_id, actor, reason, before_json, created_at)
VALUES (:id, :action, :source, :target, :candidate, :undoes, :actor, :reason, :before, :now)

-- name: standing_merge
SELECT id, candidate_id, created_at, before_json FROM entity_merge_events AS done
WHERE action = 'merge' AND source_entity_id = ? AND target_entity_id = ?
  AND NOT EXISTS (SELECT 1 FROM entity_merge_events WHERE undoes_id = done.id)
ORDER BY rowid DESC LIMIT 1

-- name: root
WITH RECURSIVE up (id, next) AS (
  SELECT id, merged_into FROM entities WHERE id = ?
  UNION
  SELECT entities.id, entities.merged_into FROM up JOIN entities ON entities.id = up.next
)
SELECT id FROM up WHERE next IS NULL

-- name: family
WITH RECURSIVE same (id) AS (
  SELECT ?
  UNION
  SELECT entities.id FROM entities JOIN same ON entities.merged_into = same.id
)
SELECT id FROM same

-- name: person_of_entity
SELECT id FROM persons WHERE entity_id = ?

-- name: add_person_fact
INSERT INTO person_facts (
  id, person_id, category, fact_type, value, confidence, source_type, source_event_id, created_at, as_of)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: touch_entity
UPDATE entities SET updated_at = ? WHERE id = ?

-- name: contact_by_identifier
SELECT contacts.id, contacts.entity_id FROM contact_identifiers JOIN contacts ON contacts.id = contact_id
WHERE contact_identifiers.channel = ? AND normalized = ?

-- name: add_contact
INSERT INTO contacts (id, entity_id, channel, display_name, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5)

-- name: tie_contact
UPDATE contacts SET entity_id = ?, updated_at = ? WHERE id = ? AND entity_id IS NULL

-- name: add_contact_identifier
INSERT INTO contact_identifiers (contact_id, channel, type, identifier, normalized, created_at)
VALUES (?, ?, ?, ?, ?, ?)

-- name: link_person_contact
INSERT INTO person_contact_links (person_id, contact_id, confidence, source_type, created_at)
SELECT id, ?1, ?2, ?3, ?4 FROM persons WHERE entity_id = ?5 ON CONFLICT DO NOTHING

-- name: merged_called
SELECT id FROM entities
WHERE merged_into IS NOT NULL AND (
  normalized_name = ?1 OR id IN (SELECT entity_id FROM entity_aliases WHERE normalized = ?1))
ORDER BY id

-- name: candidate_status
-- The end of an id is enough, as `nexus memory candidates` shows it.
SELECT id, status FROM merge_candidates WHERE length(?1) >= 6 AND lower(substr(id, -length(?1))) = lower(?1) LIMIT 2

-- name: redescribe_entity
UPDATE entities SET type = coalesce(:type, type), summary = coalesce(:summary, summary), updated_at = :now,
  canonical_name = coalesce(:name, canonical_name), normalized_name = coalesce(:normalized, normalized_name)
WHERE id = :id
RETURNING type, canonical_name

-- name: name_of
SELECT canonical_name FROM entities WHERE id = ?

-- name: rename_person
UPDATE persons SET display_name = ? WHERE entity_id = ?

-- name: people_among
WITH RECURSIVE up (id, next) AS (
  SELECT id, merged_into FROM entities WHERE id IN (SELECT value FROM json_each(?))
  UNION
  SELECT entities.id, entities.merged_into FROM up JOIN entities ON entities.id = up.next
)
SELECT up.id, canonical_name FROM up JOIN entities ON entities.id = up.id
WHERE next IS NULL AND lower(type) = 'person' ORDER BY up.id

-- name: are_people
SELECT id FROM entities WHERE id IN (SELECT value FROM json_each(?)) AND lower(type) = 'person' ORDER BY id

-- name: entities_before
SELECT id, type, canonical_name, summary, created_at, updated_at FROM entities
WHERE merged_into IS NULL AND (updated_at, id) < (:at, :id) AND updated_at >= :since AND (:type IS NULL OR lower(type) = lower(:type))
ORDER BY updated_at DESC, id DESC LIMIT :limit

-- name: matching_entities_before
SELECT id, type, canonical_name, summary, created_at, updated_at FROM entities
WHERE merged_into IS NULL AND (updated_at, id) < (:at, :id) AND updated_at >= :since AND (:type IS NULL OR lower(type) = lower(:type))
  AND id IN (
    SELECT root_id FROM entity_roots WHERE id IN (
      SELECT entity_id FROM entity_aliases WHERE normalized LIKE :like ESCAPE '\'
      UNION SELECT id FROM entities WHERE normalized_name LIKE :like ESCAPE '\'))
ORDER BY updated_at DESC, id DESC LIMIT :limit

-- name: entity_types
SELECT type, count(*) FROM entities WHERE merged_into IS NULL GROUP BY type ORDER BY count(*) DESC, type

-- name: texts_of_items
SELECT id, canonical_name || coalesce(': ' || summary, ''), source_event_id FROM entities
WHERE id IN (SELECT value FROM json_each(?))

-- name: entity
SELECT id, type, canonical_name, summary, merged_into, source_event_id, metadata_json, created_at, updated_at
FROM entities WHERE id = ?

-- name: names_of
-- Entities with the names of those that they stand for now.
WITH RECURSIVE up (start, id, next) AS (
  SELECT id, id, merged_into FROM entities WHERE id IN (SELECT value FROM json_each(?))
  UNION ALL
  SELECT up.start, entities.id, entities.merged_into FROM up JOIN entities ON entities.id = up.next
)
SELECT start, up.id, canonical_name FROM up JOIN entities ON entities.id = up.id WHERE next IS NULL

-- name: aliases_of
SELECT entity_id, alias, type, normalized, confidence, source_type FROM entity_aliases
WHERE entity_id IN (SELECT value FROM json_each(?)) ORDER BY type <> 'name', type, created_at, id

-- name: senders_named
-- Whom identifiers on channels belong to.
SELECT i.channel, i.normalized, c.entity_id, coalesce(c.display_name, i.identifier)
FROM json_each(?) AS wanted
JOIN contact_identifiers AS i ON i.channel = wanted.value ->> 0 AND i.normalized = wanted.value ->> 1
JOIN contacts AS c ON c.id = i.contact_id

-- name: contacts_of
SELECT contacts.entity_id, contacts.channel, identifier, contacts.display_name
FROM contacts JOIN contact_identifiers ON contact_id = contacts.id
WHERE entity_id IN (SELECT value FROM json_each(?)) ORDER BY contacts.channel, identifier

-- name: person_facts_of
SELECT persons.entity_id, category, fact_type, value, confidence, source_type, source_event_id,
       person_facts.created_at, as_of
FROM person_facts JOIN persons ON persons.id = person_id
WHERE entity_id IN (SELECT value FROM json_each(?))
ORDER BY category, fact_type, coalesce(as_of, person_facts.created_at), person_facts.created_at

-- name: merge_events_of
SELECT id, action, source_entity_id, target_entity_id, actor, reason, created_at FROM entity_merge_events
WHERE source_entity_id IN (SELECT value FROM json_each(?1)) OR target_entity_id IN (SELECT value FROM json_each(?1))
ORDER BY created_at, rowid

-- name: listed_candidates
-- A pending pair that has become one entity by other merges needs no decision.
SELECT c.id, c.entity_a_id, a.canonical_name, a.type, c.entity_b_id, b.canonical_name, b.type, c.score,
       c.reasons_json, c.status, c.resolved_by, c.resolved_at, c.created_at
FROM merge_candidates AS c
JOIN entities AS a ON a.id = c.entity_a_id JOIN entities AS b ON b.id = c.entity_b_id
WHERE (:status IS NULL OR c.status = :status)
  AND (:entities IS NULL
    OR c.entity_a_id IN (SELECT value FROM json_each(:entities))
    OR c.entity_b_id IN (SELECT value FROM json_each(:entities)))
  AND (c.status <> 'pending' OR (SELECT root_id FROM entity_roots WHERE id = c.entity_a_id)
    <> (SELECT root_id FROM entity_roots WHERE id = c.entity_b_id))
  AND c.created_at >= :since AND (:until IS NULL OR c.created_at < :until)
ORDER BY c.score DESC, c.created_at DESC, c.id LIMIT :limit

-- name: statistics
SELECT 'entities', type, count(*) FROM entities WHERE merged_into IS NULL GROUP BY type
UNION ALL SELECT 'aliases', type, count(*) FROM entity_aliases GROUP BY type
UNION ALL SELECT 'merge_candidates', status, count(*) FROM merge_candidates GROUP BY status
UNION ALL SELECT 'merges', action, count(*) FROM entity_merge_events GROUP BY action
UNION ALL SELECT 'merged_entities', 'merged', count(*) FROM entities WHERE merged_into IS NOT NULL
  HAVING count(*) > 0

-- name: aliases_without_keys
SELECT id, normalized FROM entity_aliases AS alias
WHERE type = 'name' AND NOT EXISTS (SELECT 1 FROM alias_keys WHERE alias_id = alias.id)

-- name: roots_after
SELECT id FROM entities WHERE merged_into IS NULL AND id > ? ORDER BY id LIMIT ?

-- name: sender
-- Whom a channel's identifier belongs to; an entity that was merged away counts as the one it became.
WITH RECURSIVE became (id, merged_into) AS (
  SELECT e.id, e.merged_into FROM contact_identifiers AS i
  JOIN contacts AS c ON c.id = i.contact_id JOIN entities AS e ON e.id = c.entity_id
  WHERE i.channel = :channel AND i.normalized = :normalized
  UNION ALL SELECT e.id, e.merged_into FROM entities AS e JOIN became ON e.id = became.merged_into)
SELECT b.id, i.contact_id, coalesce(p.is_owner, 0)
FROM became AS b JOIN contact_identifiers AS i ON i.channel = :channel AND i.normalized = :normalized
LEFT JOIN persons AS p ON p.entity_id = b.id
WHERE b.merged_into IS NULL

-- name: told_of
SELECT id, canonical_name, type FROM entities WHERE id IN (SELECT value FROM json_each(?)) ORDER BY canonical_name

-- name: named_in
SELECT count(*) FROM entity_aliases WHERE source_event_id IN (SELECT value FROM json_each(?))

-- name: can_send
SELECT 1 FROM contacts WHERE entity_id = ? LIMIT 1

-- name: is_owner
SELECT 1 FROM persons WHERE entity_id = ? AND is_owner = 1

-- name: owner
SELECT entity_id FROM persons WHERE is_owner = 1 ORDER BY rowid LIMIT 1

-- name: add_sender_entity
INSERT INTO entities (id, type, canonical_name, normalized_name, source_event_id)
VALUES (:id, 'Person', :name, :normalized, :event_id)

-- name: add_sender_person
INSERT INTO persons (id, entity_id, display_name, is_owner) VALUES (:id, :entity_id, :name, :is_owner)
ON CONFLICT (entity_id) DO NOTHING

-- name: add_sender_contact
INSERT INTO contacts (id, entity_id, channel, display_name) VALUES (:id, :entity_id, :channel, :name)

-- name: add_sender_identifier
INSERT INTO contact_identifiers (contact_id, channel, type, identifier, normalized)
VALUES (:contact_id, :channel, 'handle', :identifier, :normalized)

-- name: link_sender
INSERT INTO person_contact_links (person_id, contact_id, source_type)
SELECT id, :contact_id, 'observed' FROM persons WHERE entity_id = :entity_id
ON CONFLICT DO NOTHING

-- name: adopt_contact
UPDATE contacts SET entity_id = :entity_id WHERE id = :contact_id

-- name: contact_of
SELECT contact_id FROM contact_identifiers WHERE channel = :channel AND normalized = :normalized

-- name: grant
SELECT tools_json, directories_json, network, sessions_json, memory FROM grants WHERE entity_id = ?

-- name: put_grant
INSERT INTO grants (entity_id, tools_json, directories_json, network, sessions_json, memory, granted_by)
VALUES (:entity_id, :tools, :directories, :network, :sessions, :memory, :granted_by)
ON CONFLICT (entity_id) DO UPDATE
SET tools_json = excluded.tools_json, directories_json = excluded.directories_json,
    network = excluded.network, sessions_json = excluded.sessions_json, memory = excluded.memory,
    granted_by = excluded.granted_by, updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')

-- name: revoke_grant
DELETE FROM grants WHERE entity_id = ?

-- name: grants
SELECT g.entity_id, e.canonical_name, g.tools_json, g.directories_json, g.network, g.sessions_json, g.memory,
       g.created_at
FROM grants AS g JOIN entities AS e ON e.id = g.entity_id ORDER BY g.created_at, g.entity_id

-- name: pairing_of
SELECT code FROM pairings WHERE contact_id = :contact_id AND expires_at > :now

-- name: put_pairing
INSERT INTO pairings (code, contact_id, expires_at) VALUES (:code, :contact_id, :expires_at)
ON CONFLICT (contact_id) DO UPDATE SET code = excluded.code, expires_at = excluded.expires_at

-- name: pairing
SELECT c.entity_id, p.contact_id FROM pairings AS p JOIN contacts AS c ON c.id = p.contact_id
WHERE p.code = :code AND p.expires_at > :now

-- name: drop_pairing
DELETE FROM pairings WHERE code = ?

-- name: pairings
SELECT p.code, c.channel, i.identifier, c.display_name, p.created_at, p.expires_at
FROM pairings AS p JOIN contacts AS c ON c.id = p.contact_id
JOIN contact_identifiers AS i ON i.contact_id = c.id
WHERE p.expires_at > :now ORDER BY p.created_at

-- name: named_entities
SELECT DISTINCT e.id, e.canonical_name FROM entities AS e LEFT JOIN entity_aliases AS a ON a.entity_id = e.id
WHERE e.merged_into IS NULL AND (e.id = :text OR e.normalized_name = :normalized OR a.normalized = :normalized)
ORDER BY e.id LIMIT 5

-- name: root_by_alias
-- The oldest entity that goes by an alias of that type, as it stands after merges.
WITH RECURSIVE up (id, next) AS (
  SELECT entities.id, merged_into FROM entity_aliases JOIN entities ON entities.id = entity_id
  WHERE entity_aliases.type = ?1 AND normalized = ?2
  UNION
  SELECT entities.id, entities.merged_into FROM up JOIN entities ON entities.id = up.next
)
SELECT up.id FROM up JOIN entities ON entities.id = up.id WHERE next IS NULL ORDER BY entities.rowid LIMIT 1

-- name: root_entities
SELECT id, type, canonical_name, summary FROM entities WHERE merged_into IS NULL
ORDER BY canonical_name, coalesce(source_event_id, ''), id

-- name: withdraw_aliases
-- Addresses and numbers that a contact no longer has, if nobody but the contact's own notes gave them.
DELETE FROM entity_aliases WHERE type <> 'name'
  AND source_event_id IN (SELECT value FROM json_each(:notes))
  AND type || ' ' || normalized NOT IN (SELECT value FROM json_each(:kept))
RETURNING entity_id

-- name: withdraw_person_facts
DELETE FROM person_facts WHERE source_event_id IN (SELECT value FROM json_each(:notes))
RETURNING (SELECT entity_id FROM persons WHERE persons.id = person_id)
