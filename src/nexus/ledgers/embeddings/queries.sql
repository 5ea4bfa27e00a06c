-- name: counts
SELECT 'vectors', count(*) FROM embeddings

-- name: failed
-- Texts that a model could not embed. They are tried again at each start, and by `nexus memory embeddings --check`.
SELECT count(*) FROM embeddings WHERE source_text_hash = ''
