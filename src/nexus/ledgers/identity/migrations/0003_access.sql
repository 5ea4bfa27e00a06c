-- Who may reach what: grants that the owner gave, and codes by which unknown senders ask for one.

CREATE TABLE grants (
  -- What a person other than the owner may reach. Somebody without a row is not answered at all.
  entity_id         TEXT PRIMARY KEY REFERENCES entities (id),
  tools_json        TEXT NOT NULL DEFAULT '[]',   -- names of tools
  directories_json  TEXT NOT NULL DEFAULT '[]',   -- as in the settings: ~/notes, or ~/notes:rw
  network           INTEGER NOT NULL DEFAULT 0 CHECK (network IN (0, 1)),
  sessions_json     TEXT NOT NULL DEFAULT '[]',   -- patterns of session labels, beside their own
  memory            TEXT NOT NULL DEFAULT 'own' CHECK (memory IN ('none', 'own', 'all')),
  granted_by        TEXT NOT NULL,
  created_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE pairings (
  -- Codes that unknown senders were told, for the owner to approve. Each sender has one at most.
  code        TEXT PRIMARY KEY,
  contact_id  TEXT NOT NULL UNIQUE REFERENCES contacts (id),
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  expires_at  TEXT NOT NULL
) STRICT;
