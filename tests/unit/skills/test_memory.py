"""The memory skill's documents: the schema is today's, and every query runs in the plain sqlite3 program."""

import re
import subprocess
from pathlib import Path

import pytest

from acceptance.test_specification import QUERIES as SPECIFIED
from acceptance.test_specification import SEED, sqlite3
from new_homes import new_home
from nexus.home import LEDGERS, Home
from nexus.skills import memory
from nexus.skills.memory.schema import page

_TEXT = (Path(memory.__file__).parent / "QUERIES.md").read_text(encoding="utf-8")
_QUERIES = re.findall(r"^```sql\n(.*?)^```$", _TEXT, re.MULTILINE | re.DOTALL)
_MORE = """
INSERT INTO entities (id, type, canonical_name, normalized_name, merged_into)
  VALUES ('ty', 'Person', 'Ty', 'ty', 'tyler');
INSERT INTO threads (id, channel) VALUES ('thr', 'cli');
INSERT INTO events (id, channel, direction, content, thread_id)
  VALUES ('evt2', 'cli', 'inbound', 'Hello', 'thr');
INSERT INTO facts (id, fact, source_event_id) VALUES ('f5', 'Somebody greeted', 'evt2');
INSERT INTO fact_entities (fact_id, entity_id) VALUES ('f5', 'tyler');
INSERT INTO causal_links (id, cause_fact_id, effect_fact_id) VALUES ('c1', 'f2', 'f3');
INSERT INTO episode_events (episode_id, event_id) VALUES ('e1', 'evt2');
INSERT INTO contacts (id, entity_id, channel) VALUES ('con', 'tyler', 'email');
INSERT INTO contact_identifiers (contact_id, channel, type, identifier, normalized)
  VALUES ('con', 'email', 'email', 'tyler@example.com', 'tyler@example.com');
INSERT INTO merge_candidates (id, entity_a_id, entity_b_id, score) VALUES ('mrg', 'anthropic', 'tyler', 0.1);
INSERT INTO entity_merge_events (id, action, source_entity_id, target_entity_id, actor)
  VALUES ('mev', 'merge', 'ty', 'tyler', 'test');
INSERT INTO embedding_models (id, dimensions) VALUES ('m', 1);
INSERT INTO embeddings (target_type, target_id, model_id, vector, source_text_hash)
  VALUES ('entity', 'tyler', 'm', x'0000', 'h');
INSERT INTO agent_sessions (id, label, source, role, project)
  VALUES ('ses2', 'claude-code:1', 'claude-code', 'manager', '/home/tyler/kettle');
INSERT INTO agent_turns (id, session_id, position, status, started_at)
  VALUES ('trn2', 'ses2', 0, 'done', '2026-02-11T09:00:00.000Z');
INSERT INTO agent_messages (id, session_id, turn_id, position, role, content)
  VALUES ('msg2', 'ses2', 'trn2', 0, 'user', 'Fix the kettle.');
"""
_VALUES = {
    ":after": "2026-02-10", ":alias": "TYLER", ":before": "2026-02-12", ":entity": "tyler", ":episode": "e1",
    ":fact": "f3", ":other": "anthropic", ":person": "p1", ":relation": "WORKS_AT", ":start": "Ty",
    ":source": "claude-code", ":thread": "thr", ":topic": "timeline",
}  # fmt: skip


def _values(query: str) -> dict[str, str]:
    words = "google" if "facts_fts" in query else "timelines"
    fact = "f5" if "source_event_id" in query else "f3"
    return {**_VALUES, ":words": words, ":fact": fact}


def _title(query: str) -> str:
    return query.partition("\n")[0].removeprefix("-- ")


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Home:

    home = new_home(tmp_path_factory.mktemp("queries") / "home")
    sqlite3(home, SEED + _MORE, writes=True)
    return home


@pytest.mark.parametrize("query", _QUERIES, ids=_title)
def test_every_query_runs_and_finds_something(seeded: Home, query: str) -> None:
    bound = "".join(f".parameter set {name} \"'{value}'\"\n" for name, value in _values(query).items())
    # A query that needs a parameter nobody gives finds nothing: so each must find something here.
    assert set(re.findall(r":[a-z]+", query)) <= set(_values(query))

    assert sqlite3(seeded, f".parameter init\n{bound}{query}").strip(), query


def test_every_specified_query_is_there() -> None:
    def squeezed(query: str) -> str:
        return re.sub(r"\?|:[a-z]+|'tyler'|'WORKS_AT'", "?", " ".join(query.split())).rstrip(";")

    mine = {squeezed(re.sub(r"^--.*\n", "", query)) for query in _QUERIES}
    ours = [query for query, *_ in SPECIFIED.values() if "automations" not in query]
    assert len(ours) >= 9
    assert [query for query in ours if squeezed(query) not in mine] == []


def test_the_schema_page_has_every_table_of_all_six(home: Home) -> None:
    for ledger in LEDGERS:
        names = subprocess.run(
            [
                "sqlite3",
                str(home.ledger(ledger)),
                "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND sql IS NOT NULL "
                "AND name NOT GLOB '*_fts_*' AND name NOT GLOB 'sqlite_*'",
            ],
            capture_output=True,
            text=True,
        ).stdout.split()
        missing = [
            name for name in names if not re.search(rf"CREATE (VIRTUAL )?(TABLE|VIEW) {name}\b", page())
        ]
        assert missing in ([], ["schema_migrations"]), ledger


def test_the_paths_are_those_of_the_home(home: Home, tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    folder = memory.install(home, tmp_path / "workspace", home.run / "me").folder

    about, *lines = (folder / "DB_PATHS").read_text().splitlines()
    paths = dict(line.split("=", 1) for line in lines)

    assert "--ledgers" in about
    assert {name: paths[name] for name in LEDGERS} == {name: str(home.ledger(name)) for name in LEDGERS}
    assert paths["socket"] == str(home.run / "me" / "memory.sock")
    assert Path(paths["nexus"]).is_file()


@pytest.mark.parametrize(
    "script", ["client.sh", "memory-write.sh", "memory-search.sh", "memory-models.sh", "cortex-write.sh"]
)
def test_scripts_are_plain_sh(script: str) -> None:
    path = Path(memory.__file__).parent / script

    assert subprocess.run(["sh", "-n", str(path)], capture_output=True).returncode == 0
