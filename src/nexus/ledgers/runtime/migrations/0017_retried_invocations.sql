-- Failed async invocations are tried again, and wait as dead letters when that does not help.
ALTER TABLE automations ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE invocations ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE invocations ADD COLUMN retries_left INTEGER NOT NULL DEFAULT 0;
ALTER TABLE invocations ADD COLUMN retry_at TEXT;
CREATE INDEX invocations_dead ON invocations (created_at) WHERE blocking = 0 AND status IN ('failed', 'timeout');
