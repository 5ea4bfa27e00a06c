-- A summary from an episode's own words is not indexed: its messages are.
DROP TRIGGER episodes_are_indexed;
DROP TRIGGER episodes_are_reindexed;

CREATE TRIGGER episodes_are_indexed AFTER INSERT ON episodes
WHEN NEW.summary IS NOT NULL AND (NEW.metadata_json ->> 'extracted') IS NOT 1
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
  INSERT INTO summaries (id) SELECT NEW.id WHERE NEW.summary IS NOT NULL AND (NEW.metadata_json ->> 'extracted') IS NOT 1;
  INSERT INTO summaries_fts (rowid, summary_id, content)
  SELECT seq, NEW.id, coalesce(NEW.title || ': ', '') || NEW.summary FROM summaries WHERE id = NEW.id;
END;
