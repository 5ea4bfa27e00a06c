-- What was answered to a request is found by it.
CREATE INDEX events_request ON events (request_id) WHERE request_id IS NOT NULL;
