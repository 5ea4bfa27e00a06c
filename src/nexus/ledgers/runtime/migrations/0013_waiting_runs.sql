-- Runs that wait for a provider, and requests that nothing works on any more.
ALTER TABLE executions ADD COLUMN waiting_since TEXT;
ALTER TABLE executions ADD COLUMN waiting_for TEXT;
CREATE INDEX requests_running ON requests (created_at) WHERE status = 'running';
