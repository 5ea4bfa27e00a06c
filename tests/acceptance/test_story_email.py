"""The story "Write email to Sarah about project timeline", with the real program and a scripted model.

A conversation teaches facts, the program is started anew, and a worker gets what it needs to know, from where
every line leads back to the message that taught it.
"""

import json
import re
from typing import Any

import pytest

from acceptance.agents import environment, finish, rows
from acceptance.test_automations import chatting, until
from apps import dispatching
from memory_writers import bash, batch, is_reflection, is_writer
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer, Turn

TASK = "Write email to Sarah about project timeline"
SAID = [
    "Sarah Chen from work (sarah.chen@company.com) is Engineering Lead on Project X now.",
    "We decided on Monday that the deadline of Project X is March 15.",
    "Sarah flagged scope creep in the backend module, so the team cut feature Y to meet the deadline.",
]
WROTE: list[list[dict[str, Any]]] = [
    [
        {
            "operation": "entity",
            "id": "sarah",
            "name": "Sarah Chen",
            "type": "Person",
            "alias": ["Sarah:name", "sarah.chen@company.com:email"],
        },
        {"operation": "entity", "id": "project-x", "name": "Project X", "type": "Project"},
        {
            "operation": "relationship",
            "source": "sarah",
            "target": "project-x",
            "type": "LEADS",
            "fact": "Sarah Chen is Engineering Lead on Project X",
        },
        {
            "operation": "person-fact",
            "entity": "sarah",
            "category": "contact",
            "type": "email_work",
            "value": "sarah.chen@company.com",
        },
    ],
    [{"operation": "fact", "about": "Project X", "fact": "The deadline of Project X is March 15"}],
    [
        {
            "operation": "fact",
            "about": "Sarah",
            "fact": "Sarah Chen flagged scope creep in the backend module",
        },
        {
            "operation": "fact",
            "about": "Project X",
            "fact": "Feature Y was cut to meet the deadline of Project X",
        },
    ],
]
STATEMENTS = [str(each["fact"]) for written in WROTE for each in written if "fact" in each]
_SQL = """SELECT '- ' || r.fact || ' (' || substr(r.created_at, 1, 10) || ')' FROM facts AS r;
SELECT '- EMAIL: ' || value FROM person_facts WHERE fact_type = 'email_work'"""
_WRITTEN = (
    "SELECT count(*) FROM processing_log WHERE processor = 'memory-writer' AND target_type = 'execution'"
)
LOOK = f"""sqlite3 -init "$(sed -n 's/^attach=//p' skills/memory/DB_PATHS)" :memory: "{_SQL}" """


def has_called(request: ModelRequest) -> bool:
    return "tool_result" in str(request.json["messages"][-1])


def writes(request: ModelRequest) -> Turn:
    """The writer's part: what the last message taught."""
    if has_called(request):
        return Turn("Wrote it down.")
    told = str(request.json["messages"])
    return batch(*WROTE[max(number for number, said in enumerate(SAID) if said in told)])


def reads(request: ModelRequest) -> Turn:
    """The reader's part: a look into the ledgers, and what was found there as its answer."""
    if not has_called(request):
        return Turn("", [bash(f"skills/memory/memory-search.sh 'Sarah project timeline' >/dev/null; {LOOK}")])
    lines = re.findall(r"- [^\n\\]+", str(request.json["messages"][-1]["content"][0]["content"]))
    return Turn("<memory_context>\n## Facts\n" + "\n".join(lines) + "\n</memory_context>")


@pytest.mark.parametrize("by", ["memory-injection", "memory-reader"])
def test_the_worker_knows_what_the_conversation_taught(home: Home, server: ModelServer, by: str) -> None:
    server.when(is_reflection).always("Nothing learned")
    server.when(is_writer).always(writes)
    server.when(lambda r: "Find in the memory" in str(r.json["messages"])).always(reads)
    server.when(lambda r: r.last_user.endswith(TASK)).script("Dear Sarah, …")
    server.script("Noted.", "Noted.", "Noted.")
    model = {"NEXUS_MODELS_WRITER": "test/large", "NEXUS_MEMORY_WRITER": "code"}
    teach(home, server, model)
    done = finish(home, environment(None), "automations", "enable", by)
    assert done.returncode == 0, done.stderr

    server.script(*dispatching(TASK, then="It is sent."))
    asked = ("run", "--session", "other", "Tell Sarah about the timeline")
    done = finish(home, environment(server, **model), *asked)

    assert done.stdout == "It is sent.\n", done.stderr
    (worker,) = [each.last_user for each in server.requests if each.last_user.endswith(f"\n\n{TASK}")]
    memory = worker.partition("<memory_context>\n")[2].partition("\n</memory_context>")[0]
    told = [statement for statement in STATEMENTS if statement in memory]
    if by == "memory-reader":
        assert told == STATEMENTS
        assert "sarah.chen@company.com" in memory
    else:
        # Without a model, the local triage tells what is surely about her.
        assert {STATEMENTS[0], STATEMENTS[2]} <= set(told), memory
    assert learned_from(home) == {
        **dict.fromkeys(STATEMENTS[:1], SAID[0]),
        **dict.fromkeys(STATEMENTS[1:2], SAID[1]),
        **dict.fromkeys(STATEMENTS[2:], SAID[2]),
    }


def teach(home: Home, server: ModelServer, model: dict[str, str]) -> None:
    """Say what there is to know, and wait until it is written."""
    with chatting(home, server, **model) as chat:
        for number, said in enumerate(SAID, start=1):
            chat.write(f"{said}\n")
            chat.flush()
            until(lambda number=number: rows(home, "memory", _WRITTEN) == [(number,)])
    told = finish(home, environment(None), "automations", "logs", "memory-writer", "--json").stdout
    assert [each["status"] for each in json.loads(told)] == ["done"] * len(SAID)


def learned_from(home: Home) -> dict[str, str]:
    """Every fact, with the message that taught it."""
    found = rows(home, "memory", "SELECT fact, source_event_id FROM facts ORDER BY seq")
    said = dict(rows(home, "events", "SELECT id, content FROM events"))
    return {str(fact): str(said[event]) for fact, event in found}
