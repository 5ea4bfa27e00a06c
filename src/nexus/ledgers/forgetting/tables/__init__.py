"""Every table of every ledger, and what forgetting does to it. A table without an entry fails a test."""

from typing import Final

from nexus.ledgers.forgetting.rules import Table
from nexus.ledgers.forgetting.tables import agents, embeddings, events, identity, memory, runtime

TABLES: Final = (
    *events.TABLES,
    *identity.TABLES,
    *memory.TABLES,
    *agents.TABLES,
    *embeddings.TABLES,
    *runtime.TABLES,
)
# Those that it touches have names of their own across ledgers.
TOUCHED: Final = {table.name: table for table in TABLES if not table.kept}
# What others refer to by key: the plan records these keys. The other rows are found by what they refer to.
RECORDED: Final = frozenset(ref.table for table in TABLES for ref in table.refs if not ref.implied)

# Columns that hold a word of the program's own, an id or a time wherever they occur, never anybody's words.
VOCABULARY: Final = frozenset(
    [
        *("action", "call_id", "category", "channel", "circuit_state", "content_type", "delivered_call_id"),
        *(
            "answer",
            "basis",
            "call_hash",
            "call_key",
            "decision",
            "how",
            "signals",
            "direction",
            "quiet_hours",
            "scope",
            "zone",
        ),
        *("fact_type", "hook_point", "kind", "lane", "media_type", "mode", "model", "origin", "outcome"),
        *("provider",),
        *("relation", "role", "script_hash", "script_path", "sha256", "source", "sort", "source_text_hash"),
        *(
            "source_type",
            "stage",
            "status",
            "subject_type",
            "target_type",
            "tool_name",
            "type",
            "type_id",
            "waiting_since",
            "work",
        ),
        *("decided_by", "item_kind", "text_sha256", "used_by"),
        *("workspace_dir", "peer_workspaces", "created_by_agent", "as_of", "last_triggered"),
        # Of what is never removed.
        *("automation_id", "definition_id", "model_id", "previous_version_id"),
    ]
)


def of(ledger: str) -> list[Table]:
    """The tables of a ledger that forgetting touches, in the order of its schema."""
    return [table for table in TOUCHED.values() if table.ledger == ledger]
