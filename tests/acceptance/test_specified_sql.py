"""The specification's own SQL runs as written in the plain sqlite3 program."""

import json
import subprocess
from typing import Any

import pytest

from new_homes import new_home
from nexus.home import Home
from nexus.ledgers import attach

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
        "SELECT * FROM automations WHERE status = 'active';", [], "name", ["memory-reader", "memory-injection"],
    ),
    "automations at a hook": (
        "SELECT * FROM automations WHERE hook_point = 'worker:pre_execution' AND status = 'active';",
        [], "name", ["memory-reader", "memory-injection"],
    ),
    "automations with workspaces": (
        "SELECT * FROM automations WHERE workspace_dir IS NOT NULL;", [], "timeout_ms", [10000, 3000],
    ),
    "meeseeks": (
        "SELECT * FROM automations WHERE workspace_dir IS NOT NULL AND self_improvement = 1;",
        [], "name", ["memory-reader"],
    ),
    "automations with peers": (
        "SELECT * FROM automations WHERE peer_workspaces IS NOT NULL;", [], "name", ["memory-reader"],
    ),
    "blocking at a hook": (
        "SELECT * FROM automations WHERE hook_point = 'after:runAgent' AND blocking = 1;", [], "name", [],
    ),
}  # fmt: skip


def sqlite3(home: Home, script: str, *, writes: bool = False) -> str:
    """What the plain sqlite3 program prints, with the generated file and nothing else of ours."""
    command = ["sqlite3", "-bail", "-json", "-init", str(attach.path(home, writes=writes)), ":memory:"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    return done.stdout


@pytest.fixture
def seeded(home: Home) -> Home:
    sqlite3(home, SEED + READER + INJECTION, writes=True)
    return home


@pytest.mark.parametrize("name", QUERIES)
def test_a_specified_query_runs_as_written(seeded: Home, name: str) -> None:
    query, parameters, column, expected = QUERIES[name]
    bound = "".join(f".parameter set ?{n} \"'{value}'\"\n" for n, value in enumerate(parameters, start=1))

    printed = sqlite3(seeded, f".parameter init\n{bound}{query}\n")

    rows: list[dict[str, Any]] = json.loads(printed) if printed.strip() else []
    assert [row[column] for row in rows] == expected


def test_the_generated_file_opens_read_only(home: Home) -> None:
    command = ["sqlite3", "-init", str(attach.path(home, writes=False)), ":memory:"]
    script = "PRAGMA query_only = 0; INSERT INTO threads (id, channel) VALUES ('t', 'cli');"
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=30)

    assert "readonly database" in done.stderr
    assert sqlite3(home, "SELECT count(*) AS n FROM threads;").strip() == '[{"n":0}]'


def test_a_home_under_an_awkward_path_can_be_attached(tmp_path_factory: pytest.TempPathFactory) -> None:

    awkward = new_home(tmp_path_factory.mktemp("it's 50% off? #1 ünï"))

    assert sqlite3(awkward, "SELECT count(*) AS n FROM facts;").strip() == '[{"n":0}]'
