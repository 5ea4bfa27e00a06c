-- Texts in scripts without spaces (Chinese, Japanese, Thai…), which the index above can't cut into words. The
-- space at the end lets the last two characters be the beginning of a trigram.
CREATE VIEW events_unspaced AS
SELECT seq, id AS event_id, sender, content || ' ' AS content FROM events
WHERE content GLOB '*[ก-ໟက-႟ក-៹々-ヿ㐀-鿿豈-龎𠀀-𳍐]*';

CREATE VIRTUAL TABLE events_unspaced_fts USING fts5 (
  event_id UNINDEXED, sender, content,
  content = 'events_unspaced', content_rowid = 'seq', tokenize = 'trigram'
);
CREATE VIRTUAL TABLE events_unspaced_terms USING fts5vocab (events_unspaced_fts, row);

CREATE TRIGGER unspaced_events_are_indexed AFTER INSERT ON events
BEGIN
  INSERT INTO events_unspaced_fts (rowid, event_id, sender, content)
  SELECT seq, event_id, sender, content FROM events_unspaced WHERE seq = NEW.seq;
END;

CREATE TRIGGER unspaced_events_are_unindexed BEFORE DELETE ON events
BEGIN
  INSERT INTO events_unspaced_fts (events_unspaced_fts, rowid, event_id, sender, content)
  SELECT 'delete', seq, event_id, sender, content FROM events_unspaced WHERE seq = OLD.seq;
END;

INSERT INTO events_unspaced_fts (events_unspaced_fts) VALUES ('rebuild');
