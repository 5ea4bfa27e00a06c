-- embeddings.db: vectors of what the other ledgers hold. It can be deleted and is then rebuilt.

CREATE TABLE schema_migrations (
  -- Which migrations this file has seen; each row was committed together with what it did.
  version     INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  applied_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE embedding_models (
  -- The models that vectors were made with; exactly one serves searches.
  id          TEXT PRIMARY KEY,   -- the model's name and the hash of its files
  dimensions  INTEGER NOT NULL,
  serving     INTEGER NOT NULL DEFAULT 0 CHECK (serving IN (0, 1)),
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE UNIQUE INDEX embedding_models_serving ON embedding_models (serving) WHERE serving = 1;

CREATE TABLE embeddings (
  -- One vector for each thing and model, as float16 numbers in little-endian order.
  seq               INTEGER PRIMARY KEY AUTOINCREMENT,   -- a follower's cursor: what is new since
  target_type       TEXT NOT NULL,    -- event, fact, relationship, episode, entity, observation, mental_model
  target_id         TEXT NOT NULL,
  model_id          TEXT NOT NULL REFERENCES embedding_models (id),
  vector            BLOB NOT NULL,
  source_text_hash  TEXT NOT NULL,    -- of the text that was embedded: tells whether it changed
  created_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (target_type, target_id, model_id)
) STRICT;
CREATE INDEX embeddings_model ON embeddings (model_id);

CREATE TABLE embedding_progress (
  -- How far each model has come: what lies before the position has its vector. A shortcut, not the truth.
  model_id     TEXT NOT NULL REFERENCES embedding_models (id),
  target_type  TEXT NOT NULL,    -- as in embeddings
  position     TEXT NOT NULL,    -- of a log, a seq; of a table whose rows change, the time of a change
  updated_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (model_id, target_type)
) STRICT, WITHOUT ROWID;
