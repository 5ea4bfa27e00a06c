"""A run reads its own session: however much the home holds, no statement goes through all of it."""

from typing import Any

import pytest

from nexus.ledgers import sql
from unit.ledgers.agents.conversation import Conversation

_GIVEN: dict[str, dict[str, Any]] = {
    "history": {"session_id": "", "until": 1, "after": 0, "replaced": "[]", "since": ""},
    "summaries": {"session_id": "", "before": 1, "made_by": None, "replaced": "[]", "opened_at": 1},
    "summarisers": {"session_id": ""},
    "replaced_turns": {"session_id": "", "before": 1, "own": None},
}


@pytest.mark.parametrize("name", list(_GIVEN))
def test_a_history_is_read_through_indexes(name: str) -> None:
    connection = Conversation().connection
    plan = connection.execute(f"EXPLAIN QUERY PLAN {sql.queries('agents')[name]}", _GIVEN[name])
    steps = [str(row[3]) for row in plan]
    assert not [step for step in steps if step.startswith(("SCAN turn", "SCAN message"))], steps
    assert any("turn USING INDEX" in step and "session_id=?" in step for step in steps), steps
