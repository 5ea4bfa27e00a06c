-- Capabilities of models are learned, and kept.
CREATE TABLE models (
  -- What is known of each model that was asked: by its server's word, by a trial, or by an error.
  name        TEXT PRIMARY KEY,   -- provider/model, as config.toml names it
  address     TEXT NOT NULL,      -- where it was served: what was learned elsewhere is not used
  known_json  TEXT NOT NULL,      -- its capabilities, as far as they were learned
  updated_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
