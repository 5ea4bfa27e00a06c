-- name: counts
SELECT 'automations', count(*) FROM automations WHERE status <> 'superseded'
UNION ALL SELECT 'requests', count(*) FROM requests UNION ALL SELECT 'executions', count(*) FROM executions
