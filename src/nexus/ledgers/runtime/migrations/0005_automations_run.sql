-- What automations add to a request lasts until its end, in whatever process that comes.
ALTER TABLE requests ADD COLUMN enrichment_json TEXT;

-- An async invocation runs later, also after a crash: what it is given is kept with it, and what it printed.

ALTER TABLE invocations ADD COLUMN input_json TEXT;
ALTER TABLE invocations ADD COLUMN output TEXT;
CREATE INDEX invocations_unfinished ON invocations (id) WHERE status IN ('queued', 'running');
