-- The control plane of a fleet. Hosts of different versions share it, so changes only add.

CREATE TABLE IF NOT EXISTS fleet (
  -- One row.
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  version  integer NOT NULL,             -- of this schema
  secret   text NOT NULL                 -- proves to a host that another host of the fleet asks
);
CREATE TABLE IF NOT EXISTS hosts (
  name        text PRIMARY KEY,
  url         text NOT NULL,             -- where the other hosts reach it
  version     text NOT NULL,
  schema      integer NOT NULL,          -- the newest ledgers that it can open
  folder_id   text NOT NULL,             -- of its folder: whoever has that folder locked is the only process
  incarnation text NOT NULL,             -- of its present lease; a new one each time it joins
  started_at  timestamptz NOT NULL,
  lease_until timestamptz NOT NULL,      -- it owns its homes until then
  is_draining boolean NOT NULL DEFAULT false,
  load        jsonb NOT NULL DEFAULT '{}'
);
CREATE TABLE IF NOT EXISTS homes (
  id         text PRIMARY KEY,
  name       text NOT NULL UNIQUE,
  added_at   timestamptz NOT NULL DEFAULT now(),
  limits     text NOT NULL DEFAULT '{}',   -- JSON: where they differ from the defaults
  settings   text,                         -- the config.toml that it is made with
  opened_at  timestamptz,                  -- while it is open, or has work that a crash left
  keeps_open boolean NOT NULL DEFAULT false,
  problem    text,                         -- why it could not be opened
  host       text,                         -- who owns it, also while it is closed
  moving_to  text,                         -- the owner is asked to hand it over
  epoch      bigint NOT NULL DEFAULT 0,    -- rises when the owner changes
  copy_epoch bigint,                       -- the epoch of the newest complete copy
  schema     integer NOT NULL DEFAULT 0,   -- of its ledgers: an older host can't open them
  next_wake  timestamptz,                  -- while it is closed: its next schedule
  copied_at  timestamptz                   -- while it is closed, with a complete copy and a folder on its host
);
ALTER TABLE homes ADD COLUMN IF NOT EXISTS copied_at timestamptz;
CREATE INDEX IF NOT EXISTS homes_host ON homes (host, name);
CREATE INDEX IF NOT EXISTS homes_work ON homes (host) WHERE opened_at IS NOT NULL OR keeps_open;
CREATE INDEX IF NOT EXISTS homes_wake ON homes (next_wake) WHERE next_wake IS NOT NULL;
CREATE INDEX IF NOT EXISTS homes_moving ON homes (host) WHERE moving_to IS NOT NULL;
CREATE TABLE IF NOT EXISTS epochs (
  -- Who owned a home, what of the epochs before reached it, and what became of its copy.
  home_id    text NOT NULL REFERENCES homes (id) ON DELETE CASCADE,
  epoch      bigint NOT NULL,
  host       text NOT NULL,
  began_at   timestamptz NOT NULL DEFAULT now(),
  events_seq bigint,                       -- the last event that it began with; NULL: it has served nothing
  PRIMARY KEY (home_id, epoch)
);
ALTER TABLE epochs ADD COLUMN IF NOT EXISTS incarnation text; -- of the lease that it was acquired under
ALTER TABLE epochs ADD COLUMN IF NOT EXISTS base bigint;      -- the epoch whose copy it was restored from
-- 'complete'; 'checked': it was read back; 'unreadable': the next owner began with an older one, and this one
-- stays until its messages are salvaged; 'dropping'; 'dropped'. NULL: it was never complete, and nothing was accepted.
ALTER TABLE epochs ADD COLUMN IF NOT EXISTS copy text;
CREATE TABLE IF NOT EXISTS tokens (
  -- Who may come in. A token itself is nowhere: only its digest is kept.
  digest  bytea PRIMARY KEY,
  home_id text REFERENCES homes (id) ON DELETE CASCADE,  -- NULL: it manages the fleet, and opens no home
  scope   text NOT NULL CHECK (scope IN ('full', 'read', 'admin')),
  made_at timestamptz NOT NULL DEFAULT now(),
  CHECK ((home_id IS NULL) = (scope = 'admin'))
);
CREATE INDEX IF NOT EXISTS tokens_home ON tokens (home_id);
