CREATE TABLE backfills (
  -- Reading imported histories into the memory: what was chosen, and how far it has come.
  id                TEXT PRIMARY KEY,             -- bkf_…
  import_id         TEXT,                         -- events.imports; NULL: all of them
  sort              TEXT NOT NULL DEFAULT 'newest' CHECK (sort IN ('newest', 'oldest', 'relevant')),
  status            TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'paused', 'done', 'canceled')),
  reason            TEXT,                         -- why it is paused
  episodes_an_hour  INTEGER,                      -- the most; NULL: as many as the model answers
  budget_microusd   INTEGER,                      -- the most that it may cost; NULL: no limit
  budget_tokens     INTEGER,                      -- the most tokens that it may use; NULL: no limit
  estimate_json     TEXT NOT NULL DEFAULT '{}',   -- what it was expected to take when it was started
  round             INTEGER NOT NULL DEFAULT 0,   -- of its executions on the engine: only the last one works
  created_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  completed_at      TEXT
) STRICT;

CREATE TABLE backfill_episodes (
  -- The episodes of a backfill in the order in which they are read, and what became of each.
  backfill_id    TEXT NOT NULL REFERENCES backfills (id),
  episode_id     TEXT NOT NULL REFERENCES episodes (id),
  position       INTEGER NOT NULL,
  status         TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'done', 'skipped', 'failed')),
  facts          INTEGER NOT NULL DEFAULT 0,   -- written
  refused        INTEGER NOT NULL DEFAULT 0,   -- writes that the gate refused
  input_tokens   INTEGER NOT NULL DEFAULT 0,   -- of its last attempt, cached ones among them
  output_tokens  INTEGER NOT NULL DEFAULT 0,
  cost_microusd  INTEGER NOT NULL DEFAULT 0,
  finished_at    TEXT,
  PRIMARY KEY (backfill_id, episode_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX backfill_episodes_position ON backfill_episodes (backfill_id, status, position);
CREATE INDEX backfill_episodes_episode ON backfill_episodes (episode_id);
