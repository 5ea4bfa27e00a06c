-- Full-text search over episodes, observations and mental models, and staleness that the ledger itself notes.
CREATE TABLE summaries (
  -- The number under which an episode, an observation or a mental model stands in the full-text index.
  seq  INTEGER PRIMARY KEY AUTOINCREMENT,
  id   TEXT NOT NULL UNIQUE   -- episodes, analysis_runs or mental_models
) STRICT;

-- The full-text index keeps no copy of the texts: it reads them through this view.
CREATE VIEW summaries_text AS
SELECT seq, id AS summary_id, coalesce(title || ': ', '') || summary AS content FROM summaries JOIN episodes USING (id)
UNION ALL
SELECT seq, id, content FROM summaries JOIN analysis_runs USING (id)
UNION ALL
SELECT seq, id, name || ': ' || content FROM summaries JOIN mental_models USING (id);

CREATE VIRTUAL TABLE summaries_fts USING fts5 (
  summary_id UNINDEXED, content,
  content = 'summaries_text', content_rowid = 'seq', tokenize = 'porter unicode61'
);

CREATE TRIGGER episodes_are_indexed AFTER INSERT ON episodes
WHEN NEW.summary IS NOT NULL
BEGIN
  INSERT INTO summaries (id) VALUES (NEW.id);
  INSERT INTO summaries_fts (rowid, summary_id, content)
  SELECT seq, NEW.id, coalesce(NEW.title || ': ', '') || NEW.summary FROM summaries WHERE id = NEW.id;
END;

CREATE TRIGGER episodes_are_reindexed AFTER UPDATE OF title, summary ON episodes
BEGIN
  INSERT INTO summaries_fts (summaries_fts, rowid, summary_id, content)
  SELECT 'delete', seq, OLD.id, coalesce(OLD.title || ': ', '') || OLD.summary FROM summaries WHERE id = OLD.id;
  DELETE FROM summaries WHERE id = OLD.id;
  INSERT INTO summaries (id) SELECT NEW.id WHERE NEW.summary IS NOT NULL;
  INSERT INTO summaries_fts (rowid, summary_id, content)
  SELECT seq, NEW.id, coalesce(NEW.title || ': ', '') || NEW.summary FROM summaries WHERE id = NEW.id;
END;

CREATE TRIGGER episodes_are_unindexed AFTER DELETE ON episodes
BEGIN
  INSERT INTO summaries_fts (summaries_fts, rowid, summary_id, content)
  SELECT 'delete', seq, OLD.id, coalesce(OLD.title || ': ', '') || OLD.summary FROM summaries WHERE id = OLD.id;
  DELETE FROM summaries WHERE id = OLD.id;
END;

CREATE TRIGGER analysis_runs_are_indexed AFTER INSERT ON analysis_runs
WHEN NEW.type_id = 'observation'
BEGIN
  INSERT INTO summaries (id) VALUES (NEW.id);
  INSERT INTO summaries_fts (rowid, summary_id, content)
  SELECT seq, NEW.id, NEW.content FROM summaries WHERE id = NEW.id;
END;

CREATE TRIGGER analysis_runs_are_reindexed AFTER UPDATE OF content ON analysis_runs
BEGIN
  INSERT INTO summaries_fts (summaries_fts, rowid, summary_id, content)
  SELECT 'delete', seq, OLD.id, OLD.content FROM summaries WHERE id = OLD.id;
  DELETE FROM summaries WHERE id = OLD.id;
  INSERT INTO summaries (id) SELECT NEW.id WHERE NEW.type_id = 'observation';
  INSERT INTO summaries_fts (rowid, summary_id, content)
  SELECT seq, NEW.id, NEW.content FROM summaries WHERE id = NEW.id;
END;

CREATE TRIGGER analysis_runs_are_unindexed AFTER DELETE ON analysis_runs
BEGIN
  INSERT INTO summaries_fts (summaries_fts, rowid, summary_id, content)
  SELECT 'delete', seq, OLD.id, OLD.content FROM summaries WHERE id = OLD.id;
  DELETE FROM summaries WHERE id = OLD.id;
END;

CREATE TRIGGER mental_models_are_indexed AFTER INSERT ON mental_models
BEGIN
  INSERT INTO summaries (id) VALUES (NEW.id);
  INSERT INTO summaries_fts (rowid, summary_id, content)
  SELECT seq, NEW.id, NEW.name || ': ' || NEW.content FROM summaries WHERE id = NEW.id;
END;

CREATE TRIGGER mental_models_are_reindexed AFTER UPDATE OF name, content ON mental_models
BEGIN
  INSERT INTO summaries_fts (summaries_fts, rowid, summary_id, content)
  SELECT 'delete', seq, OLD.id, OLD.name || ': ' || OLD.content FROM summaries WHERE id = OLD.id;
  DELETE FROM summaries WHERE id = OLD.id;
  INSERT INTO summaries (id) VALUES (NEW.id);
  INSERT INTO summaries_fts (rowid, summary_id, content)
  SELECT seq, NEW.id, NEW.name || ': ' || NEW.content FROM summaries WHERE id = NEW.id;
END;

CREATE TRIGGER mental_models_are_unindexed AFTER DELETE ON mental_models
BEGIN
  INSERT INTO summaries_fts (summaries_fts, rowid, summary_id, content)
  SELECT 'delete', seq, OLD.id, OLD.name || ': ' || OLD.content FROM summaries WHERE id = OLD.id;
  DELETE FROM summaries WHERE id = OLD.id;
END;

-- What is concluded about an entity is stale from the moment at which something newer is known about it,
-- and what rests on a stale conclusion is stale too, whoever writes.
CREATE INDEX mental_models_subject ON mental_models (subject_entity_id) WHERE subject_entity_id IS NOT NULL;

CREATE TRIGGER facts_make_stale AFTER INSERT ON facts
WHEN NEW.source_entity_id IS NOT NULL OR NEW.target_entity_id IS NOT NULL
BEGIN
  UPDATE analysis_runs SET stale_at = NEW.created_at, stale_reason = 'newer: ' || NEW.id
  WHERE subject_entity_id IN (NEW.source_entity_id, NEW.target_entity_id) AND stale_at IS NULL;
  UPDATE mental_models SET stale_at = NEW.created_at, stale_reason = 'newer: ' || NEW.id
  WHERE subject_entity_id IN (NEW.source_entity_id, NEW.target_entity_id) AND stale_at IS NULL;
END;

CREATE TRIGGER fact_entities_make_stale AFTER INSERT ON fact_entities
BEGIN
  UPDATE analysis_runs SET stale_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), stale_reason = 'newer: ' || NEW.fact_id
  WHERE subject_entity_id = NEW.entity_id AND stale_at IS NULL;
  UPDATE mental_models SET stale_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), stale_reason = 'newer: ' || NEW.fact_id
  WHERE subject_entity_id = NEW.entity_id AND stale_at IS NULL;
END;

CREATE TRIGGER analysis_runs_make_stale AFTER UPDATE OF stale_at ON analysis_runs
WHEN OLD.stale_at IS NULL AND NEW.stale_at IS NOT NULL
BEGIN
  UPDATE mental_models SET stale_at = NEW.stale_at, stale_reason = 'stale: ' || NEW.id
  WHERE id IN (SELECT model_id FROM mental_model_sources WHERE source_id = NEW.id) AND stale_at IS NULL;
END;

CREATE TRIGGER newer_analysis_runs_make_stale AFTER INSERT ON analysis_runs
WHEN NEW.previous_version_id IS NOT NULL
BEGIN
  UPDATE mental_models SET stale_at = NEW.created_at, stale_reason = 'newer: ' || NEW.id
  WHERE id IN (SELECT model_id FROM mental_model_sources WHERE source_id = NEW.previous_version_id)
    AND stale_at IS NULL;
END;

CREATE TRIGGER newer_mental_models_make_stale AFTER INSERT ON mental_models
WHEN NEW.previous_version_id IS NOT NULL
BEGIN
  UPDATE mental_models SET stale_at = NEW.created_at, stale_reason = 'newer: ' || NEW.id
  WHERE id IN (SELECT model_id FROM mental_model_sources WHERE source_id = NEW.previous_version_id)
    AND stale_at IS NULL AND id <> NEW.id;
END;

INSERT INTO summaries (id)
SELECT id FROM episodes WHERE summary IS NOT NULL
UNION ALL SELECT id FROM analysis_runs WHERE type_id = 'observation'
UNION ALL SELECT id FROM mental_models;
INSERT INTO summaries_fts (summaries_fts) VALUES ('rebuild');
