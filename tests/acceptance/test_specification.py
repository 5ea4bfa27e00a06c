"""The specification: every statement names what shows it, and every example in it runs.

`specification.toml` lists the statements and what is renamed; `docs/specification.md` is generated from it.
Examples are in the form in which they are specified: SQL and shell as printed, scripts in Python.
"""

import ast
import asyncio
import contextlib
import json
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from acceptance.agents import environment, finish
from acceptance.agents import rows as rows_of
from acceptance.running import Workspace
from apps import dispatching, settings
from automating import ended
from memory_writers import quiet
from migration.old_hooks import old_database
from new_homes import new_home
from nexus.app import App
from nexus.automations.context import Context
from nexus.automations.workspace import Peer
from nexus.automations.workspace import Workspace as Files
from nexus.context import AssembledContext
from nexus.home import Home
from nexus.ledgers import attach, migrate
from nexus.testing import ModelRequest, ModelServer, ToolCall, Turn
from pages import specification

_ROOT = Path(__file__).parents[2]

SEED = """
INSERT INTO entities (id, type, canonical_name, normalized_name) VALUES
  ('tyler', 'Person', 'Tyler', 'tyler'), ('anthropic', 'Company', 'Anthropic', 'anthropic');
INSERT INTO entity_aliases (id, entity_id, alias, type, normalized) VALUES ('a1', 'tyler', 'Tyler', 'name', 'tyler');
INSERT INTO persons (id, entity_id, display_name) VALUES ('p1', 'tyler', 'Tyler');
INSERT INTO person_facts (id, person_id, category, fact_type, value)
  VALUES ('pf1', 'p1', 'contact', 'email_work', 'tyler@example.com');
INSERT INTO relationships (id, source_entity_id, target_entity_id, relation_type, fact, confidence, created_at) VALUES
  ('f1', 'tyler', NULL, 'WORKS_AT', 'Tyler works at Google', 0.8, '2024-03-15T00:00:00.000Z'),
  ('f2', 'tyler', NULL, 'WORKS_AT', 'Tyler left Google', 0.9, '2025-01-10T00:00:00.000Z'),
  ('f3', 'tyler', 'anthropic', 'WORKS_AT', 'Tyler works at Anthropic', 1.0, '2025-02-01T00:00:00.000Z'),
  ('f4', 'tyler', 'anthropic', 'WORKS_AT', 'Tyler is building Nexus at Anthropic', 1.0, '2026-02-10T00:00:00.000Z');
INSERT INTO episodes (id, channel, start_time, end_time) VALUES
  ('e1', 'cli', '2026-02-10T10:00:00.000Z', '2026-02-10T11:00:00.000Z'),
  ('e2', 'cli', '2026-02-11T10:00:00.000Z', '2026-02-11T11:00:00.000Z'),
  ('e3', 'cli', '2026-02-12T10:00:00.000Z', '2026-02-12T11:00:00.000Z');
INSERT INTO episode_entity_mentions (episode_id, entity_id) VALUES
  ('e1', 'tyler'), ('e2', 'tyler'), ('e3', 'tyler'), ('e1', 'anthropic'), ('e2', 'anthropic'), ('e3', 'anthropic');
INSERT INTO episode_relationship_mentions (episode_id, relationship_id, source_type, extracted_fact)
  VALUES ('e1', 'f4', 'self_disclosed', 'I build Nexus');
INSERT INTO events (id, channel, direction, content) VALUES ('evt1', 'cli', 'inbound', 'The project timeline moved');
INSERT INTO agent_sessions (id, label, role) VALUES ('s1', 'chat', 'manager');
INSERT INTO agent_turns (id, session_id, position) VALUES ('t1', 's1', 0);
INSERT INTO agent_messages (id, session_id, turn_id, position, role, content)
  VALUES ('m1', 's1', 't1', 0, 'user', 'about the timeline');
"""

# Rows as they are printed; a test says what of them is renamed.
READER = """
INSERT INTO automations (
  name, hook_point, mode, status, blocking, script_path,
  workspace_dir, peer_workspaces, self_improvement, timeout_ms
) VALUES (
  'memory-reader',
  'worker:pre_execution',
  'persistent',
  'active',
  1,                                                    -- blocking: worker waits
  '~/.nexus/state/hooks/scripts/memory-reader.ts',
  '~/.nexus/state/meeseeks/memory-reader/',
  '["~/.nexus/state/meeseeks/memory-writer/"]',         -- peer: can read writer's workspace
  1,
  10000                                                  -- 10s timeout
);
"""
WRITER = """
INSERT INTO automations (
  name, hook_point, mode, status, blocking, script_path,
  workspace_dir, peer_workspaces, self_improvement, timeout_ms
) VALUES (
  'memory-writer',
  'after:runAgent',
  'persistent',
  'active',
  0,                                                    -- async: fire-and-forget
  '~/.nexus/state/hooks/scripts/memory-writer.ts',
  '~/.nexus/state/meeseeks/memory-writer/',
  '["~/.nexus/state/meeseeks/memory-reader/"]',         -- peer: can read reader's workspace
  1,
  30000                                                  -- 30s timeout
);
"""
INJECTION = """
INSERT INTO automations (
  name, hook_point, mode, status, blocking, script_path,
  workspace_dir, timeout_ms
) VALUES (
  'memory-injection',
  'worker:pre_execution',
  'persistent',
  'active',
  1,                                                     -- blocking
  '~/.nexus/state/hooks/scripts/memory-injection.ts',
  '~/.nexus/state/meeseeks/memory-injection/',
  3000                                                   -- 3s timeout
);
"""

# Each: the query, its parameters, and the column that must come back with these values.
QUERIES: dict[str, tuple[str, list[str], str, list[Any]]] = {
    "relationships of an entity": (
        """SELECT r.*, e.canonical_name as source_name, e2.canonical_name as target_name
FROM relationships r
JOIN entities e ON r.source_entity_id = e.id
LEFT JOIN entities e2 ON r.target_entity_id = e2.id
WHERE r.source_entity_id = ?
ORDER BY r.created_at DESC;""",
        ["tyler"], "target_name", ["Anthropic", "Anthropic", None, None],
    ),
    "entity by alias": (
        """SELECT e.* FROM entities e
JOIN entity_aliases ea ON e.id = ea.entity_id
WHERE ea.normalized = lower(?)
  AND e.merged_into IS NULL;""",
        ["TYLER"], "id", ["tyler"],
    ),
    "recent episodes of an entity": (
        """SELECT ep.*, eem.mention_count
FROM episodes ep
JOIN episode_entity_mentions eem ON ep.id = eem.episode_id
WHERE eem.entity_id = ?
ORDER BY ep.end_time DESC
LIMIT 10;""",
        ["tyler"], "id", ["e3", "e2", "e1"],
    ),
    "person facts": (
        """SELECT * FROM person_facts
WHERE person_id = ?
  AND category = 'contact'
ORDER BY confidence DESC;""",
        ["p1"], "value", ["tyler@example.com"],
    ),
    "full text over events": (
        """SELECT e.* FROM events e
JOIN events_fts fts ON e.id = fts.event_id
WHERE events_fts MATCH ?
ORDER BY rank
LIMIT 20;""",
        ["timelines"], "id", ["evt1"],
    ),
    "recent agent sessions": (
        """SELECT s.*, COUNT(m.id) as message_count
FROM agent_sessions s
JOIN agent_messages m ON s.id = m.session_id
WHERE m.content LIKE '%' || ? || '%'
GROUP BY s.id
ORDER BY s.created_at DESC
LIMIT 5;""",
        ["timeline"], "message_count", [1],
    ),
    "history between two entities": (
        """SELECT r.fact, r.confidence, r.created_at,
       erm.source_type, erm.extracted_fact
FROM relationships r
LEFT JOIN episode_relationship_mentions erm ON r.id = erm.relationship_id
WHERE r.source_entity_id = ? AND r.target_entity_id = ?
ORDER BY r.created_at ASC;""",
        ["tyler", "anthropic"], "extracted_fact", [None, "I build Nexus"],
    ),
    "entities that occur together": (
        """SELECT e1.id as entity_a, e2.id as entity_b,
       COUNT(DISTINCT m1.episode_id) as co_occurrences
FROM episode_entity_mentions m1
JOIN episode_entity_mentions m2
  ON m1.episode_id = m2.episode_id AND m1.entity_id < m2.entity_id
JOIN entities e1 ON m1.entity_id = e1.id
JOIN entities e2 ON m2.entity_id = e2.id
GROUP BY e1.id, e2.id
HAVING co_occurrences >= 3
ORDER BY co_occurrences DESC;""",
        [], "co_occurrences", [3],
    ),
    "observation log in order": (
        """SELECT fact, confidence, created_at FROM relationships
WHERE source_entity_id = 'tyler' AND relation_type = 'WORKS_AT'
ORDER BY created_at ASC;""",
        [], "fact",
        ["Tyler works at Google", "Tyler left Google", "Tyler works at Anthropic", "Tyler is building Nexus at Anthropic"],
    ),
    "all automations": (
        "SELECT * FROM automations WHERE status = 'active';", [], "name",
        ["memory-reader", "memory-writer", "memory-injection"],
    ),
    "automations at a hook": (
        "SELECT * FROM automations WHERE hook_point = 'worker:pre_execution' AND status = 'active';",
        [], "name", ["memory-reader", "memory-injection"],
    ),
    "automations with workspaces": (
        "SELECT * FROM automations WHERE workspace_dir IS NOT NULL;", [], "timeout_ms", [10000, 30000, 3000],
    ),
    "meeseeks": (
        "SELECT * FROM automations WHERE workspace_dir IS NOT NULL AND self_improvement = 1;",
        [], "name", ["memory-reader", "memory-writer"],
    ),
    "automations with peers": (
        "SELECT * FROM automations WHERE peer_workspaces IS NOT NULL;",
        [], "name", ["memory-reader", "memory-writer"],
    ),
    "blocking at a hook": (
        "SELECT * FROM automations WHERE hook_point = 'after:runAgent' AND blocking = 1;", [], "name", [],
    ),
}  # fmt: skip
# Statements that the documents give in passing, as replacements of tools or steps of a search.
IN_PASSING: dict[str, tuple[str, list[str], str, list[Any]]] = {
    "an entity": ("SELECT * FROM entities WHERE id = ?;", ["tyler"], "canonical_name", ["Tyler"]),
    "relationships": (
        "SELECT * FROM relationships WHERE source_entity_id = ? ORDER BY created_at DESC;",
        ["tyler"], "id", ["f4", "f3", "f2", "f1"],
    ),
    "an episode": ("SELECT * FROM episodes WHERE id = ?;", ["e1"], "channel", ["cli"]),
    "how many entities": ("SELECT COUNT(*) AS n FROM entities;", [], "n", [2]),
    "pending merges": ("SELECT * FROM merge_candidates WHERE status = 'pending';", [], "id", ["mrg"]),
    "an address": (
        "SELECT * FROM person_facts WHERE person_id = ? AND fact_type = 'email_work';",
        ["p1"], "value", ["tyler@example.com"],
    ),
    "all facts of a person": ("SELECT * FROM person_facts WHERE person_id = ?;", ["p1"], "id", ["pf1"]),
    "mentions of two": (
        "SELECT * FROM episode_entity_mentions WHERE entity_id IN (?, ?) AND episode_id = 'e1';",
        ["tyler", "anthropic"], "entity_id", ["anthropic", "tyler"],
    ),
    "recent turns": ("SELECT * FROM agent_turns WHERE session_id = ?;", ["s1"], "id", ["t1"]),
    "vector of an entity": (
        "SELECT * FROM embeddings WHERE target_type = 'entity' AND target_id = ?;", ["tyler"], "source_text_hash", ["h"],
    ),
    "vector of a relationship": (
        "SELECT * FROM embeddings WHERE target_type = 'relationship' AND target_id = ?;", ["f4"], "source_text_hash", ["r"],
    ),
}  # fmt: skip
_MORE = """
INSERT INTO merge_candidates (id, entity_a_id, entity_b_id, score) VALUES ('mrg', 'anthropic', 'tyler', 0.1);
INSERT INTO embedding_models (id, dimensions) VALUES ('m', 1);
INSERT INTO embeddings (target_type, target_id, model_id, vector, source_text_hash) VALUES
  ('entity', 'tyler', 'm', x'0000', 'h'), ('fact', 'f4', 'm', x'0000', 'r');
"""
_PEERS = """
UPDATE automations
SET peer_workspaces = '["~/.nexus/state/meeseeks/memory-writer/"]'
WHERE name = 'memory-reader';

UPDATE automations
SET peer_workspaces = '["~/.nexus/state/meeseeks/memory-reader/"]'
WHERE name = 'memory-writer';
"""
_RESOLVE = "UPDATE merge_candidates SET status = 'rejected', resolved_at = '2026-02-13T10:00:00.000Z' WHERE id = 'mrg';"
_ALTER = """
ALTER TABLE hooks RENAME TO automations;
ALTER TABLE automations ADD COLUMN hook_point TEXT;
ALTER TABLE automations ADD COLUMN workspace_dir TEXT;
ALTER TABLE automations ADD COLUMN peer_workspaces TEXT;     -- JSON array of workspace dirs this automation can access
ALTER TABLE automations ADD COLUMN self_improvement INTEGER NOT NULL DEFAULT 0;
ALTER TABLE automations ADD COLUMN timeout_ms INTEGER;
ALTER TABLE automations ADD COLUMN blocking INTEGER NOT NULL DEFAULT 1;

CREATE INDEX IF NOT EXISTS idx_automations_hook_point ON automations(hook_point);
"""
_REGISTER = r"""
nexus automations register memory-reader.ts \
  --name "memory-reader" \
  --hook-point "worker:pre_execution" \
  --blocking \
  --workspace \
  --peer "memory-writer" \
  --self-improvement \
  --timeout 10000
"""
WRITE = r"""
# Entity creation with alias handling
cortex-write.sh entity --name "Sarah Chen" --type Person \
  --alias "Sarah:name" --alias "sarah.chen@company.com:email"

# Relationship observation append
cortex-write.sh relationship \
  --source entity-123 --target entity-456 \
  --type WORKS_AT --fact "Sarah works at Anthropic" \
  --source-type self_disclosed --confidence 1.0

# Episode creation with event linking
cortex-write.sh episode \
  --channel imessage --start "2026-02-13T10:00:00Z" --end "2026-02-13T10:30:00Z" \
  --summary "Discussion about project timeline" \
  --events event-1,event-2,event-3 \
  --entities entity-123,entity-456
"""
_SEARCH = 'cortex-search.sh "Sarah project timeline" --scope entities,episodes,events --limit 10'
_TASK = "Write email to Sarah about project timeline"
_READER = """
async def run(ctx):
    # ctx.request is the worker's request.
    task_content = ctx.request.event.content
    meeseeks_session = f"meeseeks:memory-reader:{ctx.request.agent.session_label or ctx.request.request_id}"
    assembled = await ctx.assemble_context(
        session_label=meeseeks_session,
        task=f"Search memory for context relevant to: {task_content}",
    )
    assembled.role_context += f"\\n\\n{ctx.workspace.role}\\n{ctx.workspace.skills}"
    execution = await ctx.start_execution(assembled, session_label=meeseeks_session)
    result = await execution.result()
    peer = ctx.workspace.peers["memory-writer"]
    peer.write_file("NOTES_FOR_WRITER.md", "Read: " + peer.read_file("SKILLS.md"))
    return {"fire": True, "blocking": True, "enrich": {"memories": result.response.content or None}}
"""
_WRITER = """
async def run(ctx):
    assembled = await ctx.assemble_context(task="Extract what the turn taught.", fork=True)
    assembled.role_context = ctx.workspace.role
    await ctx.start_execution(assembled)  # nobody waits for it
    peer = ctx.workspace.peers["memory-reader"]
    peer.write_file("NOTES_FOR_READER.md", "Read: " + peer.read_file("SKILLS.md"))
"""
_HELLO = "def run(ctx):\n    print('hello')\n"
_FOUND = "- Project X is due on March 15 (2026-02-10)"
_LEARNED = json.dumps({"edits": [{"file": "SKILLS.md", "content": "# Skills\n- Ask for names first.\n"}]})
_RECALLS = (
    {"query": "Tyler dietary restrictions allergies", "entity": "Tyler"},
    {"query": "Tyler favorite restaurants", "entity": "Tyler"},
    {"query": _TASK, "budget": "low"},
)


def sqlite3(home: Home, script: str, *, writes: bool = False) -> str:
    """What the plain sqlite3 program prints, with the generated file and nothing else of ours."""
    command = ["sqlite3", "-bail", "-json", "-init", str(attach.path(home, writes=writes)), ":memory:"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home in which what the queries ask about is known, with the printed rows of automations."""
    home = new_home(tmp_path_factory.mktemp("specified") / "home")
    sqlite3(home, SEED + READER + WRITER + INJECTION + _MORE, writes=True)
    return home


@pytest.mark.parametrize("name", [*QUERIES, *IN_PASSING])
def test_a_specified_query_runs_as_written(seeded: Home, name: str) -> None:
    query, parameters, column, expected = {**QUERIES, **IN_PASSING}[name]
    bound = "".join(f".parameter set ?{n} \"'{value}'\"\n" for n, value in enumerate(parameters, start=1))

    printed = sqlite3(seeded, f".parameter init\n{bound}{renamed(query)}\n")

    rows: list[dict[str, Any]] = json.loads(printed) if printed.strip() else []
    assert [row[column] for row in rows] == expected


def test_nexus_sql_asks_all_ledgers_at_once(seeded: Home) -> None:
    done = finish(
        seeded,
        environment(None),
        *("sql", "-json"),
        "SELECT r.fact, e.content, s.label, a.name FROM relationships r, events e, agent_sessions s, automations a"
        " WHERE r.id = 'f4' AND a.name = 'memory-reader'",
    )
    assert json.loads(done.stdout) == [
        {
            "fact": "Tyler is building Nexus at Anthropic",
            "content": "The project timeline moved",
            "label": "chat",
            "name": "memory-reader",
        }
    ], done.stderr


def test_the_specified_alterations_give_the_columns_of_the_table(tmp_path: Path) -> None:
    """Of a table of hooks from before; what is added to ours beyond them is named in the list."""
    old = tmp_path / "old.db"
    old_database(old, [])
    columns = ".mode list\nSELECT name FROM pragma_table_info('automations') ORDER BY cid;\n"
    plain = subprocess.run(
        ["sqlite3", "-bail", str(old)], input=_ALTER + columns, capture_output=True, text=True
    )
    assert plain.returncode == 0, plain.stderr
    migrate.build(tmp_path / "new.db", "runtime")
    ours = subprocess.run(
        ["sqlite3", str(tmp_path / "new.db")], input=columns, capture_output=True, text=True
    )
    specified = plain.stdout.split()
    assert ours.stdout.split()[: len(specified)] == specified
    assert ours.stdout.split()[len(specified) :] == ["priority", "retries"]


def test_a_merge_can_be_decided_with_plain_sql(seeded: Home, tmp_path: Path) -> None:
    home = Home(Path(shutil.copytree(seeded.root, tmp_path / "copy")))
    attach.ensure(home)
    sqlite3(home, _RESOLVE, writes=True)
    assert sqlite3(home, IN_PASSING["pending merges"][0]).strip() == ""


def test_relationships_are_appended_however_often_they_are_observed(seeded: Home, tmp_path: Path) -> None:
    """The log is a view over facts with an id and a time for each row, so no index of theirs refuses one."""
    home = Home(Path(shutil.copytree(seeded.root, tmp_path / "copy")))
    attach.ensure(home)
    again = """INSERT INTO relationships (source_entity_id, target_entity_id, relation_type, fact)
        VALUES ('tyler', 'anthropic', 'WORKS_AT', 'Tyler works at Anthropic');"""
    sqlite3(home, again * 2, writes=True)
    count = """SELECT count(*) AS n, count(DISTINCT id) AS ids, sum(valid_at = created_at) AS same FROM relationships
        WHERE created_at > '2026-03';"""
    assert json.loads(sqlite3(home, count)) == [{"n": 2, "ids": 2, "same": 2}]


def test_the_generated_file_opens_read_only(home: Home) -> None:
    command = ["sqlite3", "-init", str(attach.path(home, writes=False)), ":memory:"]
    script = "PRAGMA query_only = 0; INSERT INTO threads (id, channel) VALUES ('t', 'cli');"
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=30)

    assert "readonly database" in done.stderr
    assert sqlite3(home, "SELECT count(*) AS n FROM threads;").strip() == '[{"n":0}]'


def test_a_home_under_an_awkward_path_can_be_attached(tmp_path_factory: pytest.TempPathFactory) -> None:

    awkward = new_home(tmp_path_factory.mktemp("it's 50% off? #1 ünï"))

    assert sqlite3(awkward, "SELECT count(*) AS n FROM facts;").strip() == '[{"n":0}]'


def test_the_specified_commands_write_and_search_where_nothing_runs(home: Home, tmp_path: Path) -> None:
    workspace = Workspace(home, tmp_path / "workspace")
    done = workspace.typed(f"set -e\n{WRITE}\n{_SEARCH} --json")
    assert (done.returncode, done.stderr) == (0, "")
    *written, searched = [json.loads(line) for line in done.stdout.splitlines()]
    check_written(workspace, *(each["id"] for each in written))
    found = {each["text"] for each in searched["results"]} | {
        each["matched"] for each in searched["entities"]
    }
    assert any("Sarah" in text for text in found)
    assert any("project timeline" in text for text in found)


def check_written(workspace: Workspace, entity: str, fact: str, episode: str) -> None:
    """The rows that the three commands made, and the rows beside them."""
    (row,) = workspace.sql("""SELECT e.* FROM entities e JOIN entity_aliases ea ON e.id = ea.entity_id
        WHERE ea.normalized = lower('Sarah.Chen@company.com') AND e.merged_into IS NULL""")
    assert row["id"] == entity
    (row,) = workspace.sql("SELECT * FROM relationships WHERE source_entity_id = 'entity-123'")
    assert (row["id"], row["fact"], row["confidence"]) == (fact, "Sarah works at Anthropic", 1.0)
    assert (row["relation_type"], row["source_type"]) == ("WORKS_AT", "self_disclosed")
    (row,) = workspace.sql("""SELECT ep.* FROM episodes ep
        JOIN episode_entity_mentions eem ON ep.id = eem.episode_id WHERE eem.entity_id = 'entity-456'""")
    assert (row["id"], row["summary"]) == (episode, "Discussion about project timeline")
    linked = workspace.sql(f"SELECT event_id FROM episode_events WHERE episode_id = '{episode}'")
    assert [row["event_id"] for row in linked] == ["event-1", "event-2", "event-3"]


@dataclass
class Life:
    """A home in which the printed automations ran for one message, and what its models were asked."""

    home: Home
    registered: str
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])

    def asked(self, words: str) -> list[ModelRequest]:
        return [each for each in self.requests if words in each.last_user]

    def rows(self, ledger: str, query: str) -> list[tuple[Any, ...]]:
        return rows_of(self.home, ledger, query)


@pytest.fixture(scope="module")
def lives() -> dict[str, Life]:
    return {}


@pytest.fixture
def life(lives: dict[str, Life], tmp_path_factory: pytest.TempPathFactory) -> Life:
    """One for the module; made here and not there, because what makes recall patient lasts for a test."""
    if not lives:
        lives["one"] = live(new_home(tmp_path_factory.mktemp("lived") / "home"))
    return lives["one"]


def live(home: Home) -> Life:
    """The printed rows, peers and command, with the renames of the list; then one message to a worker."""
    for name, source in (("memory-reader", _READER), ("memory-writer", _WRITER)):
        (home.scripts / f"{name}.py").write_text(source)
    sqlite3(home, renamed(SEED + READER + WRITER + _PEERS), writes=True)
    (home.root.parent / "hello.py").write_text(_HELLO)
    (home.root.parent / "memory-reader.py").write_text(_READER)
    with contextlib.chdir(home.root.parent):
        words = shlex.split(renamed(_REGISTER).replace("\\\n", ""))[1:]
        registered = finish(home, environment(None), *words)
        hello = ("automations", "register", "hello.py")
        greets = finish(home, environment(None), *hello, "--hook-point", "after:runAgent", "--async")
        at_start = ("--name", "at-start", "--hook-point", "gateway:startup")
        starts = finish(home, environment(None), *hello, *at_start)
    assert [each.stderr for each in (registered, greets, starts)] == ["", "", ""]
    with ModelServer() as server:
        server.when(lambda r: "look back at it" in r.last_user).always(_LEARNED)
        server.when(lambda r: "Search memory for context" in r.last_user).always(_FOUND)
        server.when(lambda r: "Extract what the turn taught" in r.last_user).always("Nothing new.")
        server.when(lambda r: r.last_user.endswith(_TASK)).script(
            Turn("", [ToolCall("recall", each) for each in _RECALLS]), "Dear Sarah, March 15."
        )
        server.script(*dispatching(_TASK, then="Sent."))
        asyncio.run(_converse(home, server))
        return Life(home, registered.stdout, [each.request for each in server.exchanges])


def renamed(text: str) -> str:
    """A printed example with what is called differently here."""
    for old, new in specification.load().in_examples.items():
        text = text.replace(old, new)
    return text


async def _converse(home: Home, server: ModelServer) -> None:
    async with App(home, settings(server)) as app:
        # As long as a busy machine needs; the printed time-out is looked at in the rows.
        await app.ledgers.runtime.write(
            lambda c: c.execute(
                "UPDATE automations SET timeout_ms = timeout_ms * 6 WHERE name LIKE 'memory-%er'"
            ).fetchall()
        )
        await (await app.send("Tell Sarah when it is due")).result()
        await quiet(app)
        await ended(app, "at-start")


def test_the_printed_command_registers_the_reader(life: Life) -> None:
    assert life.registered == "Registered memory-reader, version 2, at worker:pre_execution.\n"
    ((*flags, workspace, peers),) = life.rows(
        "runtime",
        "SELECT blocking, self_improvement, timeout_ms / 6, mode, workspace_dir, peer_workspaces"
        " FROM automations WHERE name = 'memory-reader' AND status = 'active'",
    )
    assert flags == [1, 1, 10000, "persistent"]
    assert workspace.endswith("state/meeseeks/memory-reader/")
    (peer,) = json.loads(peers)
    assert peer.endswith("state/meeseeks/memory-writer/")


def test_the_dispatch_script_searches_before_the_worker_and_the_worker_is_told(life: Life) -> None:
    (search,) = life.asked("Search memory for context relevant to: " + _TASK)
    assert "# Memory reader" in search.last_user, "its role comes with the task"
    first = next(each for each in life.requests if each.last_user.endswith(_TASK) and each is not search)
    assert f"<memory_context>\n{_FOUND}\n</memory_context>\n\n{_TASK}" in first.last_user
    assert life.requests.index(search) < life.requests.index(first), "the worker waited"
    assert _FOUND not in str(first.json.get("system")), "it is of the task, not of the session"


def test_one_message_is_one_lineage_with_sessions_of_its_own(life: Life) -> None:
    requests = life.rows("runtime", "SELECT id, parent_request_id, root_request_id FROM requests ORDER BY id")
    (root, worker) = requests
    assert (root[1], worker[1], worker[2]) == (None, root[0], root[0])
    runs = life.rows("runtime", "SELECT session_label, request_id FROM executions ORDER BY id")
    by_label = dict(runs)
    (label,) = [each for each in by_label if each.startswith("worker:")]
    assert by_label[label] == worker[0]
    assert by_label[f"meeseeks:memory-reader:{label}"] == worker[0], "the very request of the worker"
    assert by_label[f"meeseeks:memory-reader:improve:{worker[0]}"] == worker[0]
    paid = life.rows("runtime", "SELECT DISTINCT root_request_id FROM usage")
    assert paid == [(root[0],)], "what it cost is one sum"


def test_the_prompt_prefix_is_shared_and_the_role_comes_last(life: Life) -> None:
    prompts = {json.dumps(each.json["system"]) for each in life.requests}
    assert len(prompts) == 1, "every agent has the same system prompt"
    (search,) = life.asked("Search memory for context")
    assert search.last_user.index("# Memory reader") < search.last_user.index("Search memory for context")


@pytest.mark.parametrize(("name", "times"), [("hello", 2), ("at-start", 1)])
def test_an_automation_says_hello_after_each_turn_and_at_the_start(life: Life, name: str, times: int) -> None:
    said = life.rows(
        "runtime",
        "SELECT i.output FROM invocations i JOIN automations a ON a.id = i.automation_id"
        f" WHERE a.name = '{name}'",
    )
    assert said == [("hello\n",)] * times


def test_the_writer_has_read_the_conversation_and_enriches_nothing(life: Life) -> None:
    extracts = life.asked("Extract what the turn taught.")
    assert len(extracts) == 2, "after the worker's turn and the manager's"
    assert any("Tell Sarah when it is due" in str(each.json["messages"][:-1]) for each in extracts)
    results = life.rows(
        "runtime",
        "SELECT DISTINCT i.status, i.result_json FROM invocations i JOIN automations a ON a.id = i.automation_id"
        " WHERE a.name = 'memory-writer'",
    )
    assert results == [("done", None)]


@pytest.mark.parametrize(
    ("whose", "note", "peer"),
    [
        ("memory-writer", "NOTES_FOR_WRITER.md", "memory-reader"),
        ("memory-reader", "NOTES_FOR_READER.md", "memory-writer"),
    ],
)
def test_peers_read_each_others_skills_and_leave_notes(life: Life, whose: str, note: str, peer: str) -> None:
    place = life.home.meeseeks / whose
    assert {"ROLE.md", "SKILLS.md", "PATTERNS.md", "ERRORS.md", "skills"} <= {
        each.name for each in place.iterdir()
    }
    assert (place / note).read_text() == "Read: # Skills\n", peer


def test_a_reflection_follows_and_what_it_learned_waits_for_the_owner(life: Life) -> None:
    reflections = life.asked("look back at it")
    assert any("SKILLS.md" in each.last_user for each in reflections)
    done = finish(life.home, environment(None), "automations", "lessons", "memory-reader")
    assert "+- Ask for names first." in done.stdout


def test_a_worker_recalls_more_as_printed(life: Life) -> None:
    calls = life.rows(
        "agents", "SELECT arguments_json, status, result FROM agent_tool_calls WHERE tool_name = 'recall'"
    )
    asked = {
        json.dumps(json.loads(arguments)): result for arguments, status, result in calls if status == "done"
    }
    assert asked.keys() == {json.dumps(each) for each in _RECALLS}
    assert "Tyler is building Nexus at Anthropic" in asked[json.dumps(_RECALLS[0])]


def test_every_rename_names_something_that_is_there() -> None:
    there = {
        "ctx": set(dir(Context)) | set(Context.__dataclass_fields__),
        "ctx.workspace": set(dir(Files)) | set(Files.__dataclass_fields__),
        "peer": set(dir(Peer)) | set(Peer.__dataclass_fields__),
        "assembled": set(AssembledContext.__dataclass_fields__),
    }
    names = [
        re.fullmatch(r"(ctx(?:\.workspace)?|peer|assembled)\.(\w+)", each.ours)
        for each in specification.load().renames
    ]
    found = [match.groups() for match in names if match]
    assert len(found) >= 6
    assert [f"{owner}.{name}" for owner, name in found if name not in there[owner]] == []


@cache
def names_in(file: str) -> set[str]:
    path = _ROOT / file
    if not path.is_file():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_statement_names_a_place_and_tests_that_are_there() -> None:
    """So the number of what is built can't rot: a test that is renamed or removed fails here."""
    wrong: list[str] = []
    listed = specification.load().statements
    for each in listed:
        wrong += [f"{each.says}: {test} is not there" for test in each.tests if not is_test(test)]
        wrong += [f"{each.says}: {path} is not there" for path in each.files if not (_ROOT / path).exists()]
        if not each.tests and each.state != "missing":
            wrong.append(f"{each.says}: no test shows it")
        if each.state != "built" and not each.why:
            wrong.append(f"{each.says}: {each.state} without a reason")
    assert wrong == []
    assert len({each.says for each in listed}) == len(listed), "a statement is listed twice"


def is_test(id_: str) -> bool:
    file, _, name = id_.partition("::")
    return name.startswith("test_") and name in names_in(f"tests/{file}")
