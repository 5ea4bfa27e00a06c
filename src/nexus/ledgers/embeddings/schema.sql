-- embeddings.db: vectors of texts in the other ledgers. If deleted, it is rebuilt.

CREATE TABLE schema_migrations (
  -- Migrations applied to this file, each committed together with its row.
  version     INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  applied_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE embedding_models (
  -- Embedding models in use. Exactly one serves searches.
  id          TEXT PRIMARY KEY,   -- model name and hash of its files
  dimensions  INTEGER NOT NULL,
  serving     INTEGER NOT NULL DEFAULT 0 CHECK (serving IN (0, 1)),
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE UNIQUE INDEX embedding_models_serving ON embedding_models (serving) WHERE serving = 1;

CREATE TABLE embeddings (
  -- One vector per item and model, as little-endian float16.
  seq               INTEGER PRIMARY KEY AUTOINCREMENT,   -- cursor for programs that follow along
  target_type       TEXT NOT NULL,    -- event, fact (relationships too), episode, entity, observation, mental_model
  target_id         TEXT NOT NULL,
  model_id          TEXT NOT NULL REFERENCES embedding_models (id),
  vector            BLOB NOT NULL,
  source_text_hash  TEXT NOT NULL,    -- hash of the embedded text, to detect changes
  created_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (target_type, target_id, model_id)
) STRICT;
CREATE INDEX embeddings_model ON embeddings (model_id);

CREATE TABLE embedding_progress (
  -- Progress of each model: items before the position have vectors. Only an optimization.
  model_id     TEXT NOT NULL REFERENCES embedding_models (id),
  target_type  TEXT NOT NULL,    -- as in embeddings
  position     TEXT NOT NULL,    -- a seq for append-only tables, otherwise a time of change
  updated_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (model_id, target_type)
) STRICT, WITHOUT ROWID;
