-- An async invocation runs later, also after a crash: what it is given is kept with it, and what it printed.

ALTER TABLE invocations ADD COLUMN input_json TEXT;
ALTER TABLE invocations ADD COLUMN output TEXT;
CREATE INDEX invocations_unfinished ON invocations (id) WHERE status IN ('queued', 'running');
