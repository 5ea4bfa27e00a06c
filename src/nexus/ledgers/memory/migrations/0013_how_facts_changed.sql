-- How a fact came to be replaced, what decided that, and "both are true". A model's claim is weighed by the judge.
ALTER TABLE causal_links ADD COLUMN how TEXT CHECK (how IN ('corrected', 'changed', 'cancelled'));
ALTER TABLE fact_successions ADD COLUMN how TEXT NOT NULL DEFAULT 'changed' CHECK (how IN ('corrected', 'changed', 'cancelled'));
ALTER TABLE fact_successions ADD COLUMN signals TEXT NOT NULL DEFAULT '[]';

DROP TRIGGER replaced_facts_are_succeeded;
CREATE TRIGGER replaced_facts_are_succeeded AFTER INSERT ON causal_links
WHEN NEW.relation = 'replaced' AND NEW.confidence >= 1.0
BEGIN
  INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis, how)
  VALUES (NEW.cause_fact_id, NEW.effect_fact_id, 1.0, 'stated', coalesce(NEW.how, 'changed'))
  ON CONFLICT (old_fact_id) DO UPDATE
  SET new_fact_id = excluded.new_fact_id, confidence = excluded.confidence, basis = excluded.basis,
      how = excluded.how, signals = excluded.signals, derived_at = excluded.derived_at;
END;

CREATE TRIGGER distinct_facts_both_hold AFTER INSERT ON causal_links
WHEN NEW.relation = 'distinct'
BEGIN
  DELETE FROM fact_successions
  WHERE (old_fact_id, new_fact_id) IN (VALUES (NEW.cause_fact_id, NEW.effect_fact_id), (NEW.effect_fact_id, NEW.cause_fact_id));
END;

DROP TRIGGER reopened_facts_replace_again;
CREATE TRIGGER reopened_facts_replace_again AFTER INSERT ON fact_reviews
WHEN NEW.decision IN ('accept', 'reopen') AND EXISTS (
  SELECT 1 FROM fact_reviews WHERE fact_id = NEW.fact_id AND decision = 'reject')
BEGIN
  INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis, how)
  SELECT cause_fact_id, effect_fact_id, 1.0, 'stated', coalesce(how, 'changed')
  FROM causal_links WHERE relation = 'replaced' AND confidence >= 1.0 AND effect_fact_id = NEW.fact_id
  ON CONFLICT (old_fact_id) DO NOTHING;
  UPDATE succession_progress
  SET position = min(position, (SELECT seq - 1 FROM facts WHERE id = NEW.fact_id));
END;
