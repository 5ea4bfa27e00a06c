-- What every agent of the owner knows about the owner, in versions.
CREATE TABLE owner_profiles (
  -- A short summary of the owner. The newest version counts; one that the owner wrote is kept in later ones.
  id                 TEXT PRIMARY KEY,   -- pro_…
  version            INTEGER NOT NULL UNIQUE,
  content            TEXT NOT NULL,
  origin             TEXT NOT NULL CHECK (origin IN ('facts', 'consolidation', 'owner')),
  written            TEXT,               -- the owner's own words among it, which later versions keep
  written_at         TEXT,               -- when the owner wrote them
  source_request_id  TEXT,               -- runtime.requests
  created_at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE owner_profile_facts (
  -- The facts that a version of the owner's profile rests on.
  profile_id  TEXT NOT NULL REFERENCES owner_profiles (id),
  fact_id     TEXT NOT NULL REFERENCES facts (id),
  line        INTEGER NOT NULL,   -- the line of the content that it supports, from 1
  PRIMARY KEY (profile_id, fact_id, line)
) STRICT, WITHOUT ROWID;
CREATE INDEX owner_profile_facts_fact ON owner_profile_facts (fact_id);
