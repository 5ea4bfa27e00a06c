-- name: add
INSERT INTO homes (id, name, settings) VALUES (:id, :name, :settings) ON CONFLICT (name) DO NOTHING RETURNING id

-- name: remove
DELETE FROM homes WHERE id = :id

-- name: by_id
SELECT id, name, added_at, limits, opened_at IS NOT NULL, keeps_open, problem, host, moving_to, schema
FROM homes WHERE id = :id

-- name: by_name
SELECT id, name, added_at, limits, opened_at IS NOT NULL, keeps_open, problem, host, moving_to, schema
FROM homes WHERE name = :name

-- name: listed
SELECT id, name, added_at, limits, opened_at IS NOT NULL, keeps_open, problem, host, moving_to, schema
FROM homes WHERE name > :after ORDER BY name LIMIT :limit

-- name: placements
SELECT id, name, added_at, limits, opened_at IS NOT NULL, keeps_open, problem, host, moving_to, schema
FROM homes WHERE host = :host AND name > :after ORDER BY name LIMIT :limit

-- name: count
SELECT count(*) FROM homes

-- name: left_open
-- The schedules of a closed home are in the engine of its owner, unless it was only handed over to it.
SELECT o.id FROM homes AS o
WHERE o.host = :me AND (o.opened_at IS NOT NULL OR o.keeps_open OR (o.next_wake <= clock_timestamp()
  AND NOT EXISTS (SELECT 1 FROM epochs AS e WHERE e.home_id = o.id AND e.epoch = o.epoch AND e.host = :me)))

-- name: limited
SELECT id, limits FROM homes WHERE limits <> '{}'

-- name: set_limits
UPDATE homes SET limits = :limits WHERE id = :id

-- name: opened
UPDATE homes SET opened_at = now() WHERE id = :id AND host = :me

-- name: settled
UPDATE homes SET keeps_open = :keeps_open, problem = NULL WHERE id = :id AND host = :me
  AND (keeps_open <> :keeps_open OR problem IS NOT NULL)

-- name: closed
UPDATE homes SET opened_at = NULL, next_wake = :next_wake,
  copied_at = CASE WHEN :is_copied THEN clock_timestamp() END
WHERE id = :id AND host = :me

-- name: cold
SELECT id, name, added_at, limits, opened_at IS NOT NULL, keeps_open, problem, host, moving_to
FROM homes WHERE host = :me AND opened_at IS NULL
  AND copied_at <= clock_timestamp() - make_interval(secs => :seconds)
ORDER BY copied_at LIMIT :limit

-- name: evicted
UPDATE homes SET copied_at = NULL
WHERE id = :id AND host = :me AND opened_at IS NULL AND copied_at IS NOT NULL RETURNING id

-- name: failed
UPDATE homes SET problem = :problem WHERE id = :id AND (host = :me OR host IS NULL)

-- name: add_token
INSERT INTO tokens (digest, home_id, scope) VALUES (:digest, :home, :scope)

-- name: revoke
DELETE FROM tokens WHERE home_id IS NOT DISTINCT FROM :home

-- name: token
SELECT home_id, scope FROM tokens WHERE digest = :digest

-- name: found
INSERT INTO fleet (version, secret) VALUES (:version, :secret) ON CONFLICT DO NOTHING

-- name: secret
SELECT secret FROM fleet

-- name: hosts
SELECT h.name, h.url, h.version, h.schema, h.started_at, h.lease_until, h.lease_until > clock_timestamp(),
  h.is_draining, h.load, (SELECT count(*) FROM homes AS o WHERE o.host = h.name)
FROM hosts AS h ORDER BY h.name

-- name: join
-- A name is free once its lease has ended; whoever has the same folder locked need not wait for that.
INSERT INTO hosts (name, url, version, schema, folder_id, incarnation, started_at, lease_until)
VALUES (:me, :url, :version, :schema, :folder_id, :incarnation, clock_timestamp(),
  clock_timestamp() + make_interval(secs => :lease_s))
ON CONFLICT (name) DO UPDATE SET url = excluded.url, version = excluded.version, schema = excluded.schema,
  folder_id = excluded.folder_id, incarnation = excluded.incarnation, started_at = excluded.started_at,
  lease_until = clock_timestamp() + make_interval(secs => :lease_s)
WHERE hosts.folder_id = excluded.folder_id OR hosts.lease_until < clock_timestamp()
RETURNING is_draining

-- name: renew
-- A lease that has ended is not renewed: somebody may own its homes.
UPDATE hosts SET lease_until = clock_timestamp() + make_interval(secs => :lease_s), load = CAST(:load AS jsonb)
WHERE name = :me AND incarnation = :incarnation AND lease_until > clock_timestamp()
RETURNING is_draining

-- name: leave
UPDATE hosts SET lease_until = clock_timestamp() WHERE name = :me AND incarnation = :incarnation

-- name: is_member
SELECT schema FROM hosts WHERE name = :me AND incarnation = :incarnation AND lease_until > clock_timestamp()

-- name: set_draining
UPDATE hosts SET is_draining = :is_draining WHERE name = :host RETURNING name

-- name: owner
SELECT h.name, h.url, h.lease_until > clock_timestamp() FROM homes AS o JOIN hosts AS h ON h.name = o.host
WHERE o.id = :id

-- name: lock_home
SELECT host, epoch, schema, settings FROM homes WHERE id = :id FOR UPDATE

-- name: settings
SELECT settings FROM homes WHERE id = :id

-- name: lock_host
-- Nobody joins under that name until the transaction has ended.
SELECT url, lease_until > clock_timestamp() FROM hosts WHERE name = :host FOR SHARE

-- name: take
UPDATE homes SET host = :me, epoch = :epoch, moving_to = CASE WHEN host = :me THEN moving_to END,
  opened_at = clock_timestamp(), next_wake = NULL, copied_at = NULL
WHERE id = :id

-- name: begin_epoch
INSERT INTO epochs (home_id, epoch, host, incarnation) VALUES (:id, :epoch, :me, :incarnation)
ON CONFLICT DO NOTHING

-- name: is_unbegun
-- This process acquired the epoch, and wrote nothing in it.
SELECT 1 FROM epochs
WHERE home_id = :id AND epoch = :epoch AND incarnation = :incarnation AND events_seq IS NULL

-- name: copies
-- The newest first. What was passed over as unreadable comes last.
SELECT e.epoch FROM epochs AS e JOIN homes AS o ON o.id = e.home_id
WHERE o.id = :id AND (e.copy IN ('complete', 'checked', 'unreadable') OR e.epoch = o.copy_epoch)
ORDER BY (e.copy IS NOT DISTINCT FROM 'unreadable'), e.epoch DESC

-- name: pass_over
-- What the owner could not read is kept: its messages may still be salvaged.
UPDATE epochs AS e SET copy = 'unreadable' FROM homes AS o, epochs AS n
WHERE o.id = :id AND n.home_id = o.id AND n.epoch = :epoch AND n.copy IS NULL
  AND e.home_id = o.id AND e.epoch > n.base AND e.epoch < n.epoch
  AND (e.copy IN ('complete', 'checked') OR e.epoch = o.copy_epoch)

-- name: copied
UPDATE homes SET copy_epoch = :epoch, schema = greatest(schema, :schema)
WHERE id = :id AND host = :me AND epoch = :epoch RETURNING epoch

-- name: complete
UPDATE epochs SET copy = coalesce(copy, 'complete') WHERE home_id = :id AND epoch = :epoch RETURNING copy

-- name: checked
UPDATE epochs AS e SET copy = 'checked' FROM homes AS o
WHERE o.id = :id AND o.host = :me AND o.epoch = :epoch AND e.home_id = o.id AND e.epoch = o.epoch
RETURNING e.epoch

-- name: begun
UPDATE epochs SET events_seq = :events_seq, base = :base
WHERE home_id = :id AND epoch = :epoch AND events_seq IS NULL

-- name: superseded
-- Of older epochs than one whose copy was read back, those whose copies are there, and which of them may still
-- have messages that came too late for it. One that was never complete has none.
SELECT epoch, coalesce(copy IN ('complete', 'checked', 'unreadable'), false) FROM epochs AS e
WHERE home_id = :id AND epoch < :epoch AND copy IS DISTINCT FROM 'dropped'
  AND EXISTS (SELECT 1 FROM epochs AS n WHERE n.home_id = e.home_id AND n.epoch = :epoch AND n.copy = 'checked')
ORDER BY epoch

-- name: dropping
-- From now on nobody reads it: half of it may be gone.
UPDATE epochs SET copy = 'dropping' WHERE home_id = :id AND epoch = :epoch

-- name: dropped
UPDATE epochs SET copy = 'dropped' WHERE home_id = :id AND epoch = :epoch

-- name: place
UPDATE homes SET host = :host, moving_to = NULL, copied_at = NULL WHERE id = :id

-- name: wish
UPDATE homes SET moving_to = :host WHERE id = :id

-- name: wishes
SELECT id FROM homes WHERE host = :me AND moving_to IS NOT NULL ORDER BY opened_at NULLS FIRST LIMIT :limit

-- name: hand_over
-- A closed home with work is opened by its new owner.
UPDATE homes AS o SET host = o.moving_to, moving_to = NULL, problem = NULL, copied_at = NULL FROM hosts AS h
WHERE o.id = :id AND o.host = :me AND o.moving_to IS NOT NULL
  AND h.name = :me AND h.incarnation = :incarnation AND h.lease_until > clock_timestamp()
RETURNING o.host

-- name: orphans
-- Homes with work whose owner is gone. Each host begins at another place.
SELECT o.id FROM homes AS o LEFT JOIN hosts AS h ON h.name = o.host
WHERE (o.opened_at IS NOT NULL OR o.keeps_open OR o.next_wake <= clock_timestamp()) AND o.schema <= :schema
  AND o.host <> :me AND (h.lease_until IS NULL OR h.lease_until < clock_timestamp())
ORDER BY md5(o.id || :me) LIMIT :limit

-- name: current
-- Which of some folders are current, and what the epoch after each began with.
SELECT o.name, o.id, o.host, o.epoch FROM homes AS o WHERE o.name = ANY(:names)

-- name: successor
-- Of the events of an epoch, those up to that one are in every later epoch. One that was restored from an older
-- copy has only what the epochs between began with.
SELECT o.epoch,
  (SELECT min(least(n.events_seq, (SELECT min(k.events_seq) FROM epochs AS k
      WHERE k.home_id = o.id AND k.epoch > n.base AND k.epoch <= :epoch)))
    FROM epochs AS n WHERE n.home_id = o.id AND n.epoch > :epoch AND n.events_seq IS NOT NULL),
  EXISTS (SELECT 1 FROM epochs AS e WHERE e.home_id = o.id AND e.epoch = :epoch AND (e.copy = 'dropped'
    OR e.copy = 'unreadable' AND EXISTS (SELECT 1 FROM epochs AS n
      WHERE n.home_id = o.id AND n.epoch > :epoch AND n.copy = 'checked')))
FROM homes AS o WHERE o.id = :id
