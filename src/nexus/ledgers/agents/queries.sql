-- name: counts
SELECT 'sessions', count(*) FROM agent_sessions UNION ALL SELECT 'messages', count(*) FROM agent_messages
