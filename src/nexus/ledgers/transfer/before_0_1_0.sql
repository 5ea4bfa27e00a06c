-- What rows that a checkout from before 0.1.0 exported lack, to be as 0.1.0 would have written them. A statement
-- applies to exports whose ledger has a schema below the number in its name.

-- name: identity_before_6
-- Senders were matched by their case-folded identifier, so that different people could be taken for one.
UPDATE OR IGNORE contact_identifiers SET normalized = identifier WHERE type = 'handle' AND normalized <> identifier;

-- name: memory_before_5
-- Replacements were in the links only.
INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis)
SELECT cause_fact_id, effect_fact_id, min(1.0, max(0.0, confidence)), 'stated'
FROM causal_links WHERE relation = 'replaced' ORDER BY created_at
ON CONFLICT (old_fact_id) DO UPDATE
SET new_fact_id = excluded.new_fact_id, confidence = excluded.confidence;

-- name: memory_before_10
-- Conclusions were stale with any news about their subject. Those that rest on a replaced fact become so again below.
UPDATE mental_models SET stale_at = NULL, stale_reason = NULL
WHERE stale_reason LIKE 'newer: fact\_%' ESCAPE '\' OR stale_reason LIKE 'stale: obs\_%' ESCAPE '\';
UPDATE analysis_runs SET stale_at = NULL, stale_reason = NULL WHERE stale_reason LIKE 'newer: fact\_%' ESCAPE '\';

-- name: memory_before_15
-- Replacements could form circles, and replace what somebody had called distinct. The triggers refuse circles.
CREATE TEMP TABLE found AS SELECT * FROM fact_successions AS s WHERE NOT EXISTS (
  SELECT 1 FROM causal_links AS l
  WHERE l.relation = 'distinct' AND (l.cause_fact_id, l.effect_fact_id) IN (
      VALUES (s.old_fact_id, s.new_fact_id), (s.new_fact_id, s.old_fact_id))
    AND NOT EXISTS (
      SELECT 1 FROM causal_links AS later
      WHERE later.relation = 'replaced' AND later.confidence >= 1.0 AND later.rowid > l.rowid
        AND later.cause_fact_id = s.old_fact_id AND later.effect_fact_id = s.new_fact_id));
DELETE FROM fact_successions;
INSERT INTO fact_successions SELECT * FROM found ORDER BY basis = 'judged', derived_at, old_fact_id;
DROP TABLE found;

-- name: runtime_before_24
-- What rules for approvals allowed had not been shown whole.
UPDATE approvals SET pattern = NULL;

-- name: runtime_before_25
-- Steps were numbered by run, not by name.
CREATE TEMP TABLE found AS
SELECT execution_id, name, row_number() OVER (PARTITION BY execution_id, name ORDER BY number) - 1 AS number,
  failed, outcome, created_at
FROM steps WHERE failed = 0;
DELETE FROM steps;
INSERT INTO steps (execution_id, name, number, failed, outcome, created_at) SELECT * FROM found;
DROP TABLE found;
