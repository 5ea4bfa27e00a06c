-- The tables as they were then; schema.sql has today's.
CREATE TABLE fact_successions (
  -- Which fact replaced which. Derived from the log, and derived again by `nexus memory successions --rebuild`.
  old_fact_id  TEXT PRIMARY KEY REFERENCES facts (id),
  new_fact_id  TEXT NOT NULL REFERENCES facts (id),
  confidence   REAL NOT NULL CHECK (confidence BETWEEN 0.0 AND 1.0),
  basis        TEXT NOT NULL CHECK (basis IN ('stated', 'judged')),   -- stated: a causal link says `replaced`
  derived_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  CHECK (old_fact_id <> new_fact_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX fact_successions_new ON fact_successions (new_fact_id);

CREATE TABLE succession_progress (
  -- How far the log has been searched for replacements, and by which judge.
  judge       TEXT PRIMARY KEY,   -- the version of its weights and the embedding model
  position    INTEGER NOT NULL,   -- facts.seq
  updated_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER replaced_facts_are_succeeded AFTER INSERT ON causal_links
WHEN NEW.relation = 'replaced'
BEGIN
  INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis)
  VALUES (NEW.cause_fact_id, NEW.effect_fact_id, min(1.0, max(0.0, NEW.confidence)), 'stated')
  ON CONFLICT (old_fact_id) DO UPDATE
  SET new_fact_id = excluded.new_fact_id, confidence = excluded.confidence, basis = excluded.basis,
      derived_at = excluded.derived_at;
END;

-- A fact whose successor was forgotten may have another: what came after it is searched again.
CREATE TRIGGER lost_successions_are_searched_again AFTER DELETE ON fact_successions
BEGIN
  UPDATE succession_progress
  SET position = min(position, coalesce((SELECT seq FROM facts WHERE id = OLD.old_fact_id), position));
END;

INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis)
SELECT cause_fact_id, effect_fact_id, min(1.0, max(0.0, confidence)), 'stated'
FROM causal_links WHERE relation = 'replaced' ORDER BY created_at
ON CONFLICT (old_fact_id) DO UPDATE
SET new_fact_id = excluded.new_fact_id, confidence = excluded.confidence;
