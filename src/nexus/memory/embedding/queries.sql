-- name: register_model
INSERT INTO embedding_models (id, dimensions) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: serve_no_model
UPDATE embedding_models SET serving = 0 WHERE serving = 1 AND id <> ?

-- name: serve_model
UPDATE embedding_models SET serving = 1 WHERE id = ?

-- name: serving_model
SELECT id FROM embedding_models WHERE serving = 1

-- name: put
INSERT OR REPLACE INTO embeddings (target_type, target_id, model_id, vector, source_text_hash)
VALUES (?, ?, ?, ?, ?)

-- name: hash_of
SELECT source_text_hash FROM embeddings WHERE target_type = ? AND target_id = ? AND model_id = ?

-- name: newer
SELECT seq, target_id, vector FROM embeddings WHERE seq > ? AND model_id = ? ORDER BY seq LIMIT ?

-- name: events_after
SELECT seq, id, sender, content FROM events WHERE seq > ? ORDER BY seq LIMIT ?

-- name: facts_after
SELECT seq, id, fact FROM facts WHERE seq > ? ORDER BY seq LIMIT ?
