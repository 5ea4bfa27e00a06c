-- Sessions are listed by when they were last used.
CREATE INDEX agent_sessions_updated ON agent_sessions (updated_at, id);
