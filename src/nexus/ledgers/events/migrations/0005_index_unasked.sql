-- What automations sent is looked for with every chat page and every message.
CREATE INDEX events_unasked ON events (thread_id, occurred_at) WHERE direction = 'outbound' AND reply_to_event_id IS NULL;
