-- Facts that are there already are sealed in the background.

CREATE TABLE fact_seals (
  -- A running hash over the facts, so that one that was changed or removed outside of Nexus is found. Append-only.
  seq     INTEGER PRIMARY KEY,   -- facts.seq
  digest  BLOB NOT NULL          -- SHA-256 of the digest before it and the fact
) STRICT;

CREATE TRIGGER fact_seals_are_not_changed BEFORE UPDATE ON fact_seals
BEGIN SELECT RAISE(ABORT, 'fact_seals is append-only'); END;

CREATE TRIGGER fact_seals_are_not_deleted BEFORE DELETE ON fact_seals
BEGIN SELECT RAISE(ABORT, 'fact_seals is append-only: `nexus memory seals --accept` makes them again'); END;

CREATE TRIGGER fact_seals_are_not_replaced BEFORE INSERT ON fact_seals
WHEN EXISTS (SELECT 1 FROM fact_seals WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'fact_seals is append-only: that fact is sealed already'); END;

CREATE TABLE fact_reseals (
  -- Why seals were made again: `nexus forget` removed facts, or the owner accepted changed ones.
  id          TEXT PRIMARY KEY,   -- forgets.id, or res_…
  reason      TEXT NOT NULL CHECK (reason IN ('forget', 'accepted')),
  broken      INTEGER NOT NULL,   -- facts that did not match their seals before
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
