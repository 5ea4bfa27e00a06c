-- Sessions of other programs are listed by themselves.
DROP INDEX agent_sessions_kind;
CREATE INDEX agent_sessions_kind ON agent_sessions (
  CASE
    WHEN source <> 'nexus' THEN 'imported'
    WHEN substr(label, 1, 4) = 'run:' THEN 'runs'
    WHEN substr(label, 1, 7) = 'worker:' OR substr(label, 1, 10) = 'subworker:' THEN 'workers'
    WHEN substr(label, 1, 9) = 'meeseeks:' OR role <> 'manager' THEN 'automations'
    ELSE 'people' END,
  updated_at, id
);
