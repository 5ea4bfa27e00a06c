"""What forgetting does to the agents ledger. A turn goes whole, so that each tool call keeps its answer."""

from nexus.ledgers.forgetting.rules import Ref, Table, Text, Then, Time

_HAS_REQUEST = "request_id IN (SELECT id FROM runtime.requests)"

TABLES = (
    Table("agents", "schema_migrations", kept="versions of the schema: no content"),
    Table(
        "agents",
        "agent_sessions",
        refs=(Ref("thread_id", "threads"), Ref("parent_session_id", "agent_sessions")),
        texts=(
            Text("label"),
            Text("project", Then.CLEAR),
            Text("title", Then.CLEAR),
            Text("metadata_json", Then.CLEAR, blank="{}"),
        ),
    ),
    Table(
        "agents",
        "agent_turns",
        refs=(
            Ref("session_id", "agent_sessions"),
            Ref("request_id", "requests"),
            Ref("execution_id", "executions"),
        ),
        texts=(Text("error"),),
        time=Time("started_at", "ended_at", unless=_HAS_REQUEST),
    ),
    Table(
        "agents",
        "agent_messages",
        refs=(
            Ref("session_id", "agent_sessions", implied=True),
            Ref("turn_id", "agent_turns"),
            Ref("event_id", "events", Then.OWNER),
        ),
        texts=(Text("content", Then.OWNER), Text("parts_json", Then.OWNER)),
        owner="turn_id",
    ),
    Table(
        "agents",
        "agent_tool_calls",
        refs=(
            Ref("session_id", "agent_sessions", implied=True),
            Ref("turn_id", "agent_turns"),
            Ref("message_id", "agent_messages", implied=True),
        ),
        texts=(
            Text("arguments_json", Then.OWNER),
            Text("result", Then.OWNER),
            Text("error", Then.OWNER),
        ),
        owner="turn_id",
    ),
)
