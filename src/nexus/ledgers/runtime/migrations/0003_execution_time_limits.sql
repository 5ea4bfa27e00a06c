-- A run that is handed to the engine again after a crash keeps its time limit.

ALTER TABLE executions ADD COLUMN timeout_ms INTEGER;
