-- Texts in scripts without spaces (Chinese, Japanese, Thai…), which the index above can't cut into words. The
-- space at the end lets the last two characters be the beginning of a trigram.
CREATE VIEW facts_unspaced AS
SELECT seq, id AS fact_id, fact || ' ' AS fact FROM facts
WHERE fact GLOB '*[ก-ໟက-႟ក-៹々-ヿ㐀-鿿豈-龎𠀀-𳍐]*';

CREATE VIRTUAL TABLE facts_unspaced_fts USING fts5 (
  fact_id UNINDEXED, fact,
  content = 'facts_unspaced', content_rowid = 'seq', tokenize = 'trigram'
);
CREATE VIRTUAL TABLE facts_unspaced_terms USING fts5vocab (facts_unspaced_fts, row);

CREATE TRIGGER unspaced_facts_are_indexed AFTER INSERT ON facts
BEGIN
  INSERT INTO facts_unspaced_fts (rowid, fact_id, fact)
  SELECT seq, fact_id, fact FROM facts_unspaced WHERE seq = NEW.seq;
END;

CREATE TRIGGER unspaced_facts_are_unindexed BEFORE DELETE ON facts
BEGIN
  INSERT INTO facts_unspaced_fts (facts_unspaced_fts, rowid, fact_id, fact)
  SELECT 'delete', seq, fact_id, fact FROM facts_unspaced WHERE seq = OLD.seq;
END;

INSERT INTO facts_unspaced_fts (facts_unspaced_fts) VALUES ('rebuild');

CREATE VIRTUAL TABLE summaries_terms USING fts5vocab (summaries_fts, row);
