CREATE TABLE embedding_progress (
  model_id     TEXT NOT NULL REFERENCES embedding_models (id),
  target_type  TEXT NOT NULL,
  position     TEXT NOT NULL,
  updated_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (model_id, target_type)
) STRICT, WITHOUT ROWID;
