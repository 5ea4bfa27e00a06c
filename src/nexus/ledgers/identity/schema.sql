-- identity.db: who and what there is: entities with their aliases, people, and how to reach them.

CREATE TABLE schema_migrations (
  -- Which migrations this file has seen; each row was committed together with what it did.
  version     INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  applied_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE entities (
  -- People, companies, projects, places, …: each once, under one name.
  id                TEXT PRIMARY KEY,                 -- ent_…
  type              TEXT NOT NULL,                    -- Person, Company, Project, …; any text
  canonical_name    TEXT NOT NULL,
  normalized_name   TEXT NOT NULL,                    -- lower case, cleaned, for matching
  summary           TEXT,
  merged_into       TEXT REFERENCES entities (id),    -- the entity that this one turned out to be
  source_event_id   TEXT,                             -- events.events: where it was first met
  metadata_json     TEXT NOT NULL DEFAULT '{}',
  created_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  CHECK (merged_into IS NULL OR merged_into <> id)
) STRICT;
CREATE INDEX entities_name ON entities (normalized_name);
CREATE INDEX entities_merged ON entities (merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX entities_updated ON entities (updated_at, id) WHERE merged_into IS NULL;

CREATE TABLE entity_aliases (
  -- Every name, address, number or handle that an entity goes by.
  id               TEXT PRIMARY KEY,               -- ali_…
  entity_id        TEXT NOT NULL REFERENCES entities (id),
  alias            TEXT NOT NULL,                  -- as it was written
  type             TEXT NOT NULL DEFAULT 'name',   -- name, email, phone, handle, url, …
  normalized       TEXT NOT NULL,                  -- as it is matched
  confidence       REAL NOT NULL DEFAULT 1.0,
  source_type      TEXT,                           -- self_disclosed, mentioned, observed, inferred
  source_event_id  TEXT,
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (entity_id, type, normalized)
) STRICT;
CREATE INDEX entity_aliases_normalized ON entity_aliases (normalized);

CREATE TABLE alias_keys (
  -- How the words of each name begin and end: by these, near names are found among very many.
  key       TEXT NOT NULL,   -- ^sar, rah$
  alias_id  TEXT NOT NULL REFERENCES entity_aliases (id),
  PRIMARY KEY (key, alias_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX alias_keys_alias ON alias_keys (alias_id);

-- Every entity with the one that it stands for now: itself, or the end of its chain of merges.
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
  -- The entities that are people, and which of them owns the home.
  id            TEXT PRIMARY KEY,   -- per_…
  entity_id     TEXT NOT NULL UNIQUE REFERENCES entities (id),
  display_name  TEXT NOT NULL,
  is_owner      INTEGER NOT NULL DEFAULT 0 CHECK (is_owner IN (0, 1)),
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE contacts (
  -- Endpoints that messages come from and go to, one for each correspondent on a channel.
  id            TEXT PRIMARY KEY,   -- con_…
  entity_id     TEXT REFERENCES entities (id),
  channel       TEXT NOT NULL,
  display_name  TEXT,
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX contacts_entity ON contacts (entity_id) WHERE entity_id IS NOT NULL;

CREATE TABLE contact_identifiers (
  -- The numbers, addresses and handles by which a channel names a contact.
  contact_id  TEXT NOT NULL REFERENCES contacts (id),
  channel     TEXT NOT NULL,
  type        TEXT NOT NULL,    -- email, phone, handle, …
  identifier  TEXT NOT NULL,    -- as the channel gave it
  normalized  TEXT NOT NULL,
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (channel, normalized)
) STRICT, WITHOUT ROWID;
CREATE INDEX contact_identifiers_contact ON contact_identifiers (contact_id);

CREATE TABLE person_contact_links (
  -- Which contacts are which person, and how sure that is.
  person_id    TEXT NOT NULL REFERENCES persons (id),
  contact_id   TEXT NOT NULL REFERENCES contacts (id),
  confidence   REAL NOT NULL DEFAULT 1.0,
  source_type  TEXT,
  created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (person_id, contact_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX person_contact_links_contact ON person_contact_links (contact_id);

CREATE TABLE person_facts (
  -- Hard identity data about a person (an address, a birthday, an employer), each with who said so.
  id               TEXT PRIMARY KEY,            -- pfa_…
  person_id        TEXT NOT NULL REFERENCES persons (id),
  category         TEXT NOT NULL,               -- contact, professional, personal, …
  fact_type        TEXT NOT NULL,               -- email_work, birthday, …
  value            TEXT NOT NULL,
  confidence       REAL NOT NULL DEFAULT 1.0,
  source_type      TEXT,
  source_event_id  TEXT,
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX person_facts_person ON person_facts (person_id, category);

CREATE TABLE merge_candidates (
  -- Two entities that may be one, for a person or an agent to decide.
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
  -- Every merge and un-merge that was done, with what is needed to undo it.
  id                TEXT PRIMARY KEY,   -- mev_…
  action            TEXT NOT NULL CHECK (action IN ('merge', 'unmerge')),
  source_entity_id  TEXT NOT NULL REFERENCES entities (id),   -- the one that was merged away
  target_entity_id  TEXT NOT NULL REFERENCES entities (id),   -- the one that stays
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
