-- identity.db: entities and their aliases, people, and how to reach them.

CREATE TABLE schema_migrations (
  -- Migrations applied to this file, each committed together with its row.
  version     INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  applied_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE entities (
  -- People, companies, projects, places and other things, each under one canonical name.
  id                TEXT PRIMARY KEY,                 -- ent_…
  type              TEXT NOT NULL,                    -- Person, Company, Project, …; any text
  canonical_name    TEXT NOT NULL,
  normalized_name   TEXT NOT NULL,                    -- case-folded and cleaned, for matching
  summary           TEXT,
  merged_into       TEXT REFERENCES entities (id),    -- the entity this one was merged into
  source_event_id   TEXT,                             -- events.events: first mention
  metadata_json     TEXT NOT NULL DEFAULT '{}',
  created_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  scope             TEXT NOT NULL DEFAULT '',         -- the channel outside which its name means nothing; '': none
  CHECK (merged_into IS NULL OR merged_into <> id)
) STRICT;
CREATE INDEX entities_name ON entities (normalized_name);
CREATE INDEX entities_merged ON entities (merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX entities_updated ON entities (updated_at, id) WHERE merged_into IS NULL;

CREATE TABLE entity_aliases (
  -- Names, addresses, numbers and handles of an entity.
  id               TEXT PRIMARY KEY,               -- ali_…
  entity_id        TEXT NOT NULL REFERENCES entities (id),
  alias            TEXT NOT NULL,                  -- as written
  type             TEXT NOT NULL DEFAULT 'name',   -- name, email, phone, handle, url, …
  normalized       TEXT NOT NULL,                  -- as matched
  confidence       REAL NOT NULL DEFAULT 1.0,
  source_type      TEXT,                           -- self_disclosed, mentioned, observed, inferred
  source_event_id  TEXT,
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (entity_id, type, normalized)
) STRICT;
CREATE INDEX entity_aliases_normalized ON entity_aliases (normalized);

CREATE TABLE alias_keys (
  -- Beginnings and endings of each name's words, to find similar names quickly.
  key       TEXT NOT NULL,   -- ^sar, rah$
  alias_id  TEXT NOT NULL REFERENCES entity_aliases (id),
  PRIMARY KEY (key, alias_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX alias_keys_alias ON alias_keys (alias_id);

-- Every entity with its root: itself, or the end of its chain of merges.
CREATE VIEW entity_roots AS
WITH RECURSIVE up (id, root_id, next) AS (
  SELECT entities.id, above.id, above.merged_into FROM entities JOIN entities AS above ON above.id = entities.merged_into
  WHERE entities.merged_into IS NOT NULL
  UNION
  SELECT up.id, above.id, above.merged_into FROM up JOIN entities AS above ON above.id = up.next
)
SELECT id, root_id FROM up WHERE next IS NULL
UNION ALL
SELECT id, id AS root_id FROM entities WHERE merged_into IS NULL;

CREATE TABLE persons (
  -- Entities that are people, and which of them owns the home.
  id            TEXT PRIMARY KEY,   -- per_…
  entity_id     TEXT NOT NULL UNIQUE REFERENCES entities (id),
  display_name  TEXT NOT NULL,
  is_owner      INTEGER NOT NULL DEFAULT 0 CHECK (is_owner IN (0, 1)),
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE contacts (
  -- Correspondents on a channel, one row per person and channel.
  id            TEXT PRIMARY KEY,   -- con_…
  entity_id     TEXT REFERENCES entities (id),
  channel       TEXT NOT NULL,
  display_name  TEXT,
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX contacts_entity ON contacts (entity_id) WHERE entity_id IS NOT NULL;

CREATE TABLE contact_identifiers (
  -- Numbers, addresses and handles of a contact on its channel.
  contact_id  TEXT NOT NULL REFERENCES contacts (id),
  channel     TEXT NOT NULL,
  type        TEXT NOT NULL,    -- email, phone, handle, …
  identifier  TEXT NOT NULL,    -- as given by the channel
  normalized  TEXT NOT NULL,    -- as matched: of a sender, the identifier itself
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (channel, normalized)
) STRICT, WITHOUT ROWID;
CREATE INDEX contact_identifiers_contact ON contact_identifiers (contact_id);

CREATE TABLE person_contact_links (
  -- Which contact belongs to which person, with confidence.
  person_id    TEXT NOT NULL REFERENCES persons (id),
  contact_id   TEXT NOT NULL REFERENCES contacts (id),
  confidence   REAL NOT NULL DEFAULT 1.0,
  source_type  TEXT,
  created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (person_id, contact_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX person_contact_links_contact ON person_contact_links (contact_id);

CREATE TABLE person_facts (
  -- Identity data of a person (address, birthday, employer), each with its source.
  id               TEXT PRIMARY KEY,            -- pfa_…
  person_id        TEXT NOT NULL REFERENCES persons (id),
  category         TEXT NOT NULL,               -- contact, professional, personal, …
  fact_type        TEXT NOT NULL,               -- email_work, birthday, …
  value            TEXT NOT NULL,
  confidence       REAL NOT NULL DEFAULT 1.0,
  source_type      TEXT,
  source_event_id  TEXT,
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  as_of            TEXT                         -- when it was true, if stated
) STRICT;
CREATE INDEX person_facts_person ON person_facts (person_id, category);

CREATE TABLE merge_candidates (
  -- Pairs of entities that may be the same, for a person or an agent to decide.
  id            TEXT PRIMARY KEY,   -- mrg_…
  entity_a_id   TEXT NOT NULL REFERENCES entities (id),
  entity_b_id   TEXT NOT NULL REFERENCES entities (id),
  score         REAL NOT NULL,
  reasons_json  TEXT NOT NULL DEFAULT '[]',
  status        TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'rejected')),
  resolved_by   TEXT,
  resolved_at   TEXT,
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (entity_a_id, entity_b_id),
  CHECK (entity_a_id < entity_b_id)
) STRICT;
CREATE INDEX merge_candidates_status ON merge_candidates (status);
CREATE INDEX merge_candidates_b ON merge_candidates (entity_b_id);

CREATE TABLE entity_merge_events (
  -- Every merge and unmerge, with what is needed to undo it.
  id                TEXT PRIMARY KEY,   -- mev_…
  action            TEXT NOT NULL CHECK (action IN ('merge', 'unmerge')),
  source_entity_id  TEXT NOT NULL REFERENCES entities (id),   -- the entity merged away
  target_entity_id  TEXT NOT NULL REFERENCES entities (id),   -- the entity that remains
  candidate_id      TEXT REFERENCES merge_candidates (id),
  undoes_id         TEXT REFERENCES entity_merge_events (id),
  actor             TEXT NOT NULL,
  reason            TEXT,
  before_json       TEXT NOT NULL DEFAULT '{}',
  created_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX entity_merge_events_source ON entity_merge_events (source_entity_id);
CREATE INDEX entity_merge_events_target ON entity_merge_events (target_entity_id);

CREATE TABLE grants (
  -- Access of people other than the owner. Senders without a row get no answer.
  entity_id         TEXT PRIMARY KEY REFERENCES entities (id),
  tools_json        TEXT NOT NULL DEFAULT '[]',   -- tool names
  directories_json  TEXT NOT NULL DEFAULT '[]',   -- as in config.toml: ~/notes, or ~/notes:rw
  network           INTEGER NOT NULL DEFAULT 0 CHECK (network IN (0, 1)),
  sessions_json     TEXT NOT NULL DEFAULT '[]',   -- session label patterns, besides their own
  memory            TEXT NOT NULL DEFAULT 'own' CHECK (memory IN ('none', 'own', 'all')),
  granted_by        TEXT NOT NULL,
  created_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE pairings (
  -- Pairing codes of unknown senders, awaiting the owner's approval. At most one per sender.
  code        TEXT PRIMARY KEY,
  contact_id  TEXT NOT NULL UNIQUE REFERENCES contacts (id),
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  expires_at  TEXT NOT NULL
) STRICT;
