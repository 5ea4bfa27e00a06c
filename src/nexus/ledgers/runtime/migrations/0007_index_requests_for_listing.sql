-- A list of requests is read from its newest on, also where only some of them are wanted.
CREATE INDEX requests_listed ON requests (created_at, id, status, channel) WHERE root_request_id = id;
CREATE INDEX requests_channel ON requests (channel);
