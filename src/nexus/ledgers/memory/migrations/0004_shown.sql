-- Runs that were shown something are found when it is forgotten.
CREATE TABLE shown (
  -- What a run of consolidation or reflection was shown of the memory: where that is forgotten, the run is too.
  execution_id  TEXT NOT NULL,   -- runtime.executions
  target_type   TEXT NOT NULL CHECK (target_type IN ('fact', 'observation', 'mental_model')),
  target_id     TEXT NOT NULL,
  PRIMARY KEY (execution_id, target_type, target_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX shown_target ON shown (target_id);
