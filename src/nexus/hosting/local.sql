-- name: add
INSERT INTO homes (id, name, added_at) VALUES (:id, :name, :now)

-- name: remove
DELETE FROM homes WHERE id = :id

-- name: by_id
SELECT id, name, added_at, limits, opened_at IS NOT NULL, keeps_open, problem FROM homes WHERE id = :id

-- name: by_name
SELECT id, name, added_at, limits, opened_at IS NOT NULL, keeps_open, problem FROM homes WHERE name = :name

-- name: listed
SELECT id, name, added_at, limits, opened_at IS NOT NULL, keeps_open, problem FROM homes
WHERE name > :after ORDER BY name LIMIT :limit

-- name: left_open
SELECT id FROM homes WHERE opened_at IS NOT NULL OR keeps_open = 1

-- name: limited
SELECT id, limits FROM homes WHERE limits <> '{}'

-- name: count
SELECT count(*) FROM homes

-- name: set_limits
UPDATE homes SET limits = :limits WHERE id = :id

-- name: opened
UPDATE homes SET opened_at = :now, copied_at = NULL WHERE id = :id

-- name: settled
UPDATE homes SET keeps_open = :keeps_open, problem = NULL
WHERE id = :id AND (keeps_open <> :keeps_open OR problem IS NOT NULL)

-- name: closed
UPDATE homes SET opened_at = NULL, copied_at = :copied_at WHERE id = :id

-- name: cold
SELECT id, name, added_at, limits, opened_at IS NOT NULL, keeps_open, problem FROM homes
WHERE opened_at IS NULL AND copied_at <= :before ORDER BY copied_at LIMIT :limit

-- name: evicted
UPDATE homes SET copied_at = NULL WHERE id = :id AND opened_at IS NULL AND copied_at IS NOT NULL RETURNING id

-- name: failed
UPDATE homes SET problem = :problem WHERE id = :id

-- name: add_token
INSERT INTO tokens (digest, home_id, scope, made_at) VALUES (:digest, :home, :scope, :now)

-- name: revoke
DELETE FROM tokens WHERE home_id IS :home

-- name: token
SELECT home_id, scope FROM tokens WHERE digest = :digest

-- name: make_key
INSERT INTO keys (id, key) VALUES (1, :key) ON CONFLICT DO NOTHING

-- name: key
SELECT key FROM keys
