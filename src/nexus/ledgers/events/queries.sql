-- name: ensure_thread
INSERT INTO threads (id, channel, external_id, kind, title)
VALUES (:id, :channel, :external_id, :kind, :title)
ON CONFLICT DO NOTHING

-- name: thread_by_external_id
SELECT id FROM threads WHERE channel = ? AND external_id = ?

-- name: thread_metadata
SELECT id, metadata_json FROM threads WHERE channel = ? AND external_id = ?

-- name: thread_updated
SELECT updated_at FROM threads WHERE channel = ? AND external_id = ?

-- name: events_between
-- By their ids in a channel.
SELECT id FROM events WHERE channel = ? AND external_id BETWEEN ? AND ?

-- name: set_thread_metadata
UPDATE threads SET metadata_json = :metadata, updated_at = :now WHERE id = :id

-- name: recorded
SELECT id FROM events WHERE channel = ? AND external_id = ?

-- name: delivered_newest
SELECT id FROM events WHERE channel = :channel AND external_id >= :from AND external_id < :to
ORDER BY seq DESC LIMIT :limit

-- name: append
INSERT INTO events (
  id, thread_id, channel, direction, kind, external_id, sender, content, content_type,
  reply_to_event_id, request_id, metadata_json, occurred_at, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_participant
INSERT INTO event_participants (event_id, role, identifier, display_name, contact_id, entity_id)
VALUES (?, ?, ?, ?, ?, ?)

-- name: get
SELECT seq, id, thread_id, channel, direction, kind, external_id, sender, content, content_type,
       reply_to_event_id, request_id, metadata_json, occurred_at, created_at
FROM events WHERE id = ?

-- name: thread_name
SELECT external_id, title FROM threads WHERE id = ?

-- name: last_heard
SELECT events.id FROM events JOIN threads ON threads.id = thread_id
WHERE threads.channel = ? AND threads.external_id = ? AND direction = 'inbound' ORDER BY seq DESC LIMIT 1

-- name: last_seq
SELECT coalesce(max(seq), 0) FROM events

-- name: outgoing_after
-- Nobody waits for what answers nothing or something scheduled, or for a second answer: a worker's result.
SELECT e.id, e.thread_id, e.reply_to_event_id IS NULL OR EXISTS (
    SELECT 1 FROM events AS asked
    WHERE asked.id = e.reply_to_event_id AND json_extract(asked.metadata_json, '$.scheduled')) OR EXISTS (
    SELECT 1 FROM events AS earlier
    WHERE earlier.thread_id = e.thread_id AND earlier.direction = 'outbound' AND earlier.seq < e.seq
      AND earlier.seq > (SELECT seq FROM events WHERE id = e.reply_to_event_id)
      AND earlier.reply_to_event_id = e.reply_to_event_id)
FROM events AS e
WHERE e.seq > :after AND e.seq <= :until AND e.channel = :channel AND e.direction = 'outbound'
  AND e.request_id IS NOT NULL AND e.thread_id IS NOT NULL
ORDER BY e.seq

-- name: said_in_thread
SELECT e.content FROM events AS e JOIN threads AS t ON t.id = e.thread_id
WHERE t.channel = :channel AND t.external_id = :external_id AND e.direction = 'inbound'
ORDER BY e.seq DESC LIMIT :limit

-- name: inbound_in_thread_contains
SELECT EXISTS (SELECT 1 FROM events WHERE thread_id = ? AND direction = 'inbound' AND instr(content, ?) > 0)

-- name: thread_by_id
SELECT channel, external_id FROM threads WHERE id = ?

-- name: unasked_in_thread
-- What answers nothing: messages that automations sent. Without :after, those since anything was last said.
WITH thread AS (
  SELECT id FROM threads
  WHERE channel IN (SELECT value FROM json_each(:channels)) AND external_id = :external_id)
SELECT seq, occurred_at, content FROM events
WHERE thread_id IN (SELECT id FROM thread) AND direction = 'outbound' AND reply_to_event_id IS NULL
  AND seq > coalesce(:after, (
    SELECT max(seq) FROM events WHERE thread_id IN (SELECT id FROM thread) AND direction = 'inbound'), 0)
ORDER BY seq LIMIT :limit

-- name: unasked_before
-- What was sent between a message and the one before it.
WITH thread AS (
  SELECT id FROM threads
  WHERE channel IN (SELECT value FROM json_each(:channels)) AND external_id = :external_id),
  said AS (SELECT seq FROM events WHERE id = :event_id)
SELECT seq, occurred_at, content FROM events
WHERE thread_id IN (SELECT id FROM thread) AND direction = 'outbound' AND reply_to_event_id IS NULL
  AND seq < (SELECT seq FROM said) AND seq > coalesce((
    SELECT max(seq) FROM events
    WHERE thread_id IN (SELECT id FROM thread) AND direction = 'inbound' AND seq < (SELECT seq FROM said)), 0)
ORDER BY seq DESC LIMIT :limit

-- name: unasked_between
WITH thread AS (
  SELECT id FROM threads
  WHERE channel IN (SELECT value FROM json_each(:channels)) AND external_id = :external_id)
SELECT seq, occurred_at, content FROM events
WHERE thread_id IN (SELECT id FROM thread) AND direction = 'outbound' AND reply_to_event_id IS NULL
  AND occurred_at >= :since AND occurred_at < :until
ORDER BY seq DESC LIMIT :limit

-- name: unasked_lately
-- Messages that automations sent, among the last that were recorded.
SELECT events.id, threads.external_id, content FROM events JOIN threads ON threads.id = thread_id
WHERE events.seq > (SELECT coalesce(max(seq), 0) - 2000 FROM events)
  AND direction = 'outbound' AND reply_to_event_id IS NULL AND occurred_at >= :since
  AND events.channel IN (SELECT value FROM json_each(:channels))
ORDER BY events.seq LIMIT :limit

-- name: search
-- bm25() in ORDER BY with LIMIT keeps only the best rows; `ORDER BY rank` would sort all of them.
SELECT e.id, e.thread_id, e.channel, e.sender, e.content, e.occurred_at, -hits.score
FROM (
  SELECT rowid AS seq, bm25(events_fts) AS score FROM events_fts
  WHERE events_fts MATCH ? ORDER BY score, seq DESC LIMIT ?
) AS hits
JOIN events AS e ON e.seq = hits.seq
ORDER BY hits.score, hits.seq DESC

-- name: search_newest
SELECT e.id, e.thread_id, e.channel, e.sender, e.content, e.occurred_at, 0.0
FROM (
  SELECT rowid AS seq FROM events_fts WHERE events_fts MATCH ? ORDER BY rowid DESC LIMIT ?
) AS hits
JOIN events AS e ON e.seq = hits.seq
ORDER BY hits.seq DESC

-- name: newest_matches
SELECT count(*), min(seq) FROM (
  SELECT rowid AS seq FROM events_fts WHERE events_fts MATCH ? ORDER BY rowid DESC LIMIT ?
)

-- name: newest_seq
SELECT max(seq) FROM events

-- name: publish
INSERT INTO bus_events (type, subject_type, subject_id, payload_json) VALUES (?, ?, ?, ?)

-- name: counts
SELECT 'events', count(*) FROM events UNION ALL SELECT 'threads', count(*) FROM threads

-- name: newest_created_at
SELECT created_at FROM events ORDER BY seq DESC LIMIT 1

-- name: last_occurred_at
SELECT max(occurred_at) FROM events

-- name: threaded_after
SELECT seq, id, thread_id FROM events WHERE seq > ? AND thread_id IS NOT NULL ORDER BY seq LIMIT ?

-- name: events_to_group
SELECT seq, id, occurred_at, content, channel FROM events WHERE id IN (SELECT value FROM json_each(?)) ORDER BY seq

-- name: entities_of_events
SELECT entity_id, count(DISTINCT event_id) FROM event_participants
WHERE event_id IN (SELECT value FROM json_each(?)) AND entity_id IS NOT NULL GROUP BY entity_id

-- name: beginnings
SELECT id, substr(content, 1, :most) FROM events WHERE id IN (SELECT value FROM json_each(:ids))

-- name: said
SELECT seq, id, direction, sender, substr(content, 1, :most), length(content), occurred_at, channel
FROM events WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY seq

-- name: said_before
SELECT seq, id, direction, sender, substr(content, 1, :most), length(content), occurred_at, channel
FROM events WHERE thread_id = :thread_id AND seq < :seq ORDER BY seq DESC LIMIT :limit

-- name: said_after
SELECT seq, id, direction, sender, substr(content, 1, :most), length(content), occurred_at, channel
FROM events WHERE thread_id = :thread_id AND seq > :seq ORDER BY seq LIMIT :limit

-- name: last_message
SELECT content FROM events WHERE thread_id = ? AND direction = 'inbound' AND kind IN ('message', 'transcript')
ORDER BY seq DESC LIMIT 1

-- name: said_for_request
SELECT content FROM events WHERE request_id = ? AND direction = 'outbound' ORDER BY seq

-- name: changed_answers
SELECT request_id, external_id, content, metadata_json ->> '$.original', metadata_json ->> '$.changed_by',
       metadata_json ->> '$.withheld'
FROM events WHERE request_id IN (SELECT value FROM json_each(?)) AND direction = 'outbound'
  AND metadata_json ->> '$.changed_by' IS NOT NULL ORDER BY seq

-- name: threads_of_events
SELECT DISTINCT thread_id FROM events
WHERE id IN (SELECT value FROM json_each(?)) AND thread_id IS NOT NULL

-- name: last_senders
-- Conversations with their titles and who wrote there last.
SELECT t.channel, t.external_id, t.title, (
  SELECT sender FROM events WHERE thread_id = t.id AND direction = 'inbound' ORDER BY seq DESC LIMIT 1)
FROM threads AS t WHERE t.id IN (SELECT value FROM json_each(?))

-- name: thread_title
SELECT coalesce(title, external_id) FROM threads WHERE id = ?

-- name: texts_of_items
SELECT id, substr(content, 1, 1000), id FROM events WHERE id IN (SELECT value FROM json_each(?))

-- name: any_before
SELECT EXISTS (SELECT 1 FROM events WHERE occurred_at < :since AND id <> :id)

-- name: senders
SELECT id, sender FROM events WHERE id IN (SELECT value FROM json_each(?)) AND sender IS NOT NULL

-- name: begin_import
INSERT INTO imports (id, source, location, fingerprint, options_json, created_at, updated_at)
VALUES (:id, :source, :location, :fingerprint, :options, :now, :now)

-- name: unfinished_import
SELECT id FROM imports
WHERE source = :source AND location = :location AND fingerprint = :fingerprint AND options_json = :options
  AND status <> 'done'
ORDER BY created_at DESC LIMIT 1

-- name: imports
SELECT id, source, location, status, cursor, threads, messages, known, set_aside_json, created_at, completed_at
FROM imports WHERE :id IS NULL OR id = :id ORDER BY created_at, id

-- name: advance_import
UPDATE imports
SET cursor = coalesce(:cursor, cursor), threads = threads + :threads, messages = messages + :messages,
    known = known + :known, set_aside_json = coalesce(:set_aside, set_aside_json), updated_at = :now
WHERE id = :id

-- name: end_import
UPDATE imports SET status = 'done', updated_at = :now, completed_at = :now WHERE id = :id

-- name: last_import_range
SELECT first_seq, last_seq FROM import_ranges WHERE import_id = ? ORDER BY first_seq DESC LIMIT 1

-- name: extend_import_range
UPDATE import_ranges SET last_seq = ? WHERE import_id = ? AND first_seq = ?

-- name: add_import_range
INSERT INTO import_ranges (import_id, first_seq, last_seq) VALUES (?, ?, ?)

-- name: ensure_imported_thread
INSERT INTO threads (
  id, channel, external_id, kind, title, parent_thread_id, metadata_json, created_at, updated_at)
VALUES (
  :id, :channel, :external_id, :kind, :title,
  (SELECT id FROM threads WHERE channel = :channel AND external_id = :parent), :metadata, :at, :at)
ON CONFLICT DO NOTHING

-- name: recorded_among
SELECT external_id, id, EXISTS (
         SELECT 1 FROM import_ranges WHERE import_id = :import AND events.seq BETWEEN first_seq AND last_seq)
FROM events WHERE channel = :channel AND external_id IN (SELECT value FROM json_each(:external_ids))

-- name: recorded_events
SELECT external_id, id, thread_id, occurred_at
FROM events WHERE channel = :channel AND external_id IN (SELECT value FROM json_each(:external_ids))

-- name: add_attachment
INSERT INTO attachments (id, event_id, filename, media_type, size_bytes, sha256, path, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: seq_of
SELECT seq FROM events WHERE id = ?

-- name: messages_by_time
SELECT e.seq, e.occurred_at, e.channel, coalesce(t.title, t.external_id, ''), e.kind, e.sender, e.content,
       (SELECT group_concat(coalesce(filename, media_type), ', ') FROM attachments WHERE event_id = e.id)
FROM events AS e LEFT JOIN threads AS t ON t.id = e.thread_id
WHERE (e.occurred_at, e.seq) > (:at, :seq) ORDER BY e.occurred_at, e.seq LIMIT :limit

-- name: presence_of
SELECT count(DISTINCT event_id), min(occurred_at), max(occurred_at)
FROM event_participants JOIN events ON events.id = event_id
WHERE entity_id IN (SELECT value FROM json_each(?))

-- name: copy_participants
INSERT OR IGNORE INTO event_participants (event_id, role, identifier, display_name, contact_id, entity_id)
SELECT :id, role, identifier, display_name, contact_id, entity_id FROM event_participants WHERE event_id = :recorded

-- name: attach
INSERT OR IGNORE INTO attachments (id, event_id, filename, media_type, size_bytes, sha256, path)
VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: attachments_of
-- What an import only knows about is no kept file.
SELECT filename, media_type, size_bytes, sha256 FROM attachments
WHERE event_id = ? AND path IS NOT NULL AND sha256 IS NOT NULL
ORDER BY rowid

-- name: attachment_paths
SELECT DISTINCT path FROM attachments WHERE path IN (SELECT value FROM json_each(?))

-- name: imported_after
-- The next events of an import, or of all, after a seq: their ids, and whether the owner said them.
SELECT events.seq, events.id, events.sender = 'owner' FROM import_ranges
  JOIN events ON events.seq BETWEEN first_seq AND last_seq
WHERE (:import IS NULL OR import_id = :import) AND last_seq > :after AND events.seq > :after
ORDER BY events.seq LIMIT :limit

-- name: senders_by_entity
SELECT event_id, entity_id FROM event_participants
WHERE event_id IN (SELECT value FROM json_each(?)) AND role = 'sender' AND entity_id IS NOT NULL

-- name: received_after
SELECT id FROM events AS v
WHERE v.seq > ? AND v.direction = 'inbound' AND v.kind = 'message'
  AND NOT EXISTS (SELECT 1 FROM import_ranges AS i WHERE v.seq BETWEEN i.first_seq AND i.last_seq)
ORDER BY v.seq
