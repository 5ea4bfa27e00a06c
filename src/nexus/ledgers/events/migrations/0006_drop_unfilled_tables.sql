-- Nothing wrote them. Sessions are archived in `agent_sessions`; skills and documents are files.
DROP TABLE event_state;
DROP TABLE event_tags;
DROP TABLE document_heads;
