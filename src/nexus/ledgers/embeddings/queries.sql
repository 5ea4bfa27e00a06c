-- name: counts
SELECT 'vectors', count(*) FROM embeddings
