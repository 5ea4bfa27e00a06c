-- People can accept, reject and pin facts. A rejected fact isn't recalled and replaces nothing.
CREATE TABLE fact_reviews (
  -- What people decided about facts: accepted, rejected or pinned, and taken back. Append-only.
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  fact_id     TEXT NOT NULL REFERENCES facts (id),
  decision    TEXT NOT NULL CHECK (decision IN ('accept', 'reject', 'reopen', 'pin', 'unpin')),
  actor       TEXT NOT NULL,
  reason      TEXT,
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX fact_reviews_fact ON fact_reviews (fact_id, seq);
CREATE INDEX fact_reviews_pins ON fact_reviews (fact_id, seq) WHERE decision = 'pin';

CREATE TRIGGER fact_reviews_are_not_changed BEFORE UPDATE ON fact_reviews
BEGIN SELECT RAISE(ABORT, 'fact_reviews is append-only: record a new decision instead'); END;

CREATE TRIGGER fact_reviews_are_not_deleted BEFORE DELETE ON fact_reviews
BEGIN SELECT RAISE(ABORT, 'fact_reviews is append-only: use `nexus forget` to remove'); END;

-- Whether each fact was accepted or rejected: its newest decision counts.
CREATE VIEW fact_verdicts AS
SELECT fact_id, decision, actor, reason, created_at FROM fact_reviews AS newest
WHERE decision IN ('accept', 'reject') AND NOT EXISTS (
  SELECT 1 FROM fact_reviews AS later
  WHERE later.fact_id = newest.fact_id AND later.seq > newest.seq
    AND later.decision IN ('accept', 'reject', 'reopen'));

-- Facts that a person rejected: kept in the log, not recalled.
CREATE VIEW rejected_facts AS SELECT fact_id, actor, reason, created_at FROM fact_verdicts WHERE decision = 'reject';

-- Facts that a person pinned.
CREATE VIEW pinned_facts AS
SELECT fact_id, actor, created_at FROM fact_reviews AS newest
WHERE decision = 'pin' AND NOT EXISTS (
  SELECT 1 FROM fact_reviews AS later
  WHERE later.fact_id = newest.fact_id AND later.seq > newest.seq AND later.decision IN ('pin', 'unpin'));

-- What a rejected fact replaced is replaced by the fact's own successor, or holds again.
CREATE TRIGGER rejected_facts_replace_nothing AFTER INSERT ON fact_reviews
WHEN NEW.decision = 'reject'
BEGIN
  UPDATE fact_successions
  SET new_fact_id = (SELECT new_fact_id FROM fact_successions AS own WHERE own.old_fact_id = NEW.fact_id)
  WHERE new_fact_id = NEW.fact_id AND EXISTS (
    SELECT 1 FROM fact_successions AS own
    WHERE own.old_fact_id = NEW.fact_id AND own.new_fact_id <> fact_successions.old_fact_id);
  DELETE FROM fact_successions WHERE new_fact_id = NEW.fact_id;
  UPDATE analysis_runs SET stale_at = NEW.created_at, stale_reason = 'rejected: ' || NEW.fact_id
  WHERE id IN (SELECT observation_id FROM observation_facts WHERE fact_id = NEW.fact_id) AND stale_at IS NULL;
  UPDATE mental_models SET stale_at = NEW.created_at, stale_reason = 'rejected: ' || NEW.fact_id
  WHERE id IN (SELECT model_id FROM mental_model_sources WHERE source_id = NEW.fact_id) AND stale_at IS NULL;
END;

CREATE TRIGGER reopened_facts_replace_again AFTER INSERT ON fact_reviews
WHEN NEW.decision IN ('accept', 'reopen') AND EXISTS (
  SELECT 1 FROM fact_reviews WHERE fact_id = NEW.fact_id AND decision = 'reject')
BEGIN
  INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis)
  SELECT cause_fact_id, effect_fact_id, min(1.0, max(0.0, confidence)), 'stated'
  FROM causal_links WHERE relation = 'replaced' AND effect_fact_id = NEW.fact_id
  ON CONFLICT (old_fact_id) DO NOTHING;
  UPDATE succession_progress
  SET position = min(position, (SELECT seq - 1 FROM facts WHERE id = NEW.fact_id));
END;
