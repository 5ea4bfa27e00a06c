-- name: counts
SELECT 'entities', count(*) FROM entities UNION ALL SELECT 'aliases', count(*) FROM entity_aliases
