-- Sessions are listed by whose they are: people's are few among those of automations.
DROP INDEX agent_sessions_updated;
CREATE INDEX agent_sessions_kind ON agent_sessions (
  CASE
    WHEN substr(label, 1, 4) = 'run:' THEN 'runs'
    WHEN substr(label, 1, 7) = 'worker:' OR substr(label, 1, 10) = 'subworker:' THEN 'workers'
    WHEN substr(label, 1, 9) = 'meeseeks:' OR role <> 'manager' THEN 'automations'
    ELSE 'people' END,
  updated_at, id
);
