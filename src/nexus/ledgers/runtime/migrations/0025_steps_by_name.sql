-- A run finds its recorded steps by name: the next version may take other steps in between. One that failed
-- is taken again. Among those of one name, a number counted steps that left no record, too.
CREATE TABLE steps_by_name (
  execution_id  TEXT NOT NULL REFERENCES executions (id),
  name          TEXT NOT NULL,
  number        INTEGER NOT NULL,
  failed        INTEGER NOT NULL CHECK (failed IN (0, 1)),
  outcome       TEXT NOT NULL,
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (execution_id, name, number)
) STRICT;
INSERT INTO steps_by_name (execution_id, name, number, failed, outcome, created_at)
SELECT execution_id, name, row_number() OVER (PARTITION BY execution_id, name ORDER BY number) - 1,
  failed, outcome, created_at
FROM steps WHERE failed = 0;
DROP TABLE steps;
ALTER TABLE steps_by_name RENAME TO steps;
