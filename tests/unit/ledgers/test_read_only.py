"""SQL from outside, over a connection that reads: whatever it says, no ledger changes."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import apsw
import pytest

from new_homes import new_home
from nexus.home import LEDGERS, Home
from nexus.ledgers import read_only

_PLANT = "INSERT INTO facts (id, fact) VALUES ('fact_1', 'Ada likes tea')"

_ATTACKS = [
    "ATTACH '{memory}' AS again",
    "ATTACH 'file:{memory}?mode=rw' AS again",
    "ATTACH ':memory:' AS scratch",
    "DETACH memory",
    "DROP TRIGGER memory.facts_are_not_deleted",
    "DROP TABLE memory.facts",
    "ALTER TABLE memory.facts RENAME TO gone",
    "CREATE TABLE memory.planted (a)",
    "CREATE TEMP TABLE planted (a)",
    "CREATE TEMP TRIGGER planted AFTER INSERT ON facts BEGIN SELECT 1; END",
    "CREATE TEMP VIEW planted AS SELECT 1",
    "CREATE VIRTUAL TABLE temp.planted USING fts5 (a)",
    "INSERT INTO facts (id, fact) VALUES ('fact_2', 'planted')",
    "INSERT OR REPLACE INTO facts (id, fact) VALUES ('fact_1', 'planted')",
    "UPDATE facts SET fact = 'planted'",
    "DELETE FROM facts",
    "WITH old AS (SELECT id FROM facts) DELETE FROM facts WHERE id IN old RETURNING id",
    "INSERT INTO facts_fts (facts_fts) VALUES ('delete-all')",
    "INSERT INTO facts_fts (facts_fts) VALUES ('rebuild')",
    "INSERT INTO facts_fts (facts_fts, rank) VALUES ('secure-delete', 0)",
    "DELETE FROM facts_fts_data",
    "VACUUM",
    "VACUUM memory INTO '{copy}'",
    "REINDEX",
    "ANALYZE",
    "PRAGMA query_only = OFF",
    "PRAGMA query_only(0)",
    "PRAGMA writable_schema = ON",
    "PRAGMA memory.writable_schema = RESET",
    "PRAGMA memory.journal_mode = DELETE",
    "PRAGMA memory.wal_checkpoint(TRUNCATE)",
    "PRAGMA memory.incremental_vacuum",
    "PRAGMA memory.user_version = 7",
    "PRAGMA memory.schema_version = 7",
    "PRAGMA memory.application_id = 7",
    "PRAGMA memory.locking_mode = EXCLUSIVE",
    "PRAGMA optimize",
    "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA hard_heap_limit = 0",
    "SELECT load_extension('planted')",
    "SELECT fts3_tokenizer('simple', x'0000000000000000')",
    "SELECT * FROM pragma_query_only(0)",
    "BEGIN IMMEDIATE",
    "BEGIN EXCLUSIVE",
]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = new_home(tmp_path / "home")
    connection = apsw.Connection(str(home.ledger("memory")))
    connection.execute(_PLANT)
    connection.close()
    return home


@pytest.fixture
def reader(home: Home) -> Iterator[apsw.Connection]:
    connection = read_only.connect(home)
    yield connection
    connection.close()


@pytest.mark.parametrize("attack", _ATTACKS)
def test_sql_from_outside_changes_nothing(home: Home, reader: apsw.Connection, attack: str) -> None:
    before, folder = _content(home), {path.name for path in home.root.rglob("*")}
    copy = home.root / "copy.db"

    with pytest.raises(apsw.Error):
        reader.execute(attack.format(memory=home.ledger("memory"), copy=copy)).fetchall()

    assert _content(home) == before
    assert {path.name for path in home.root.rglob("*")} == folder
    assert reader.pragma("query_only") == 1


@pytest.mark.parametrize(
    "question",
    [
        "SELECT fact FROM facts",
        "SELECT fact FROM facts_fts WHERE facts_fts MATCH 'liked'",
        "SELECT term FROM facts_terms",
        "SELECT name FROM pragma_table_info('facts')",
        "SELECT name FROM memory.sqlite_schema",
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT i FROM n",
        "SELECT id, json_extract(metadata_json, '$.a'), strftime('%Y', created_at) FROM facts",
        "EXPLAIN QUERY PLAN SELECT * FROM facts",
        "PRAGMA memory.integrity_check",
        "PRAGMA user_version",
    ],
)
def test_questions_are_answered(reader: apsw.Connection, question: str) -> None:
    assert reader.execute(question).fetchall()


def test_one_value_cannot_take_the_memory_of_the_machine(reader: apsw.Connection) -> None:
    with pytest.raises(apsw.TooBigError):
        reader.execute("SELECT hex(zeroblob(900000000))").fetchall()


def _content(home: Home) -> dict[str, str]:
    """What the files hold."""
    return {
        f"{name}{part}": sha256(Path(f"{home.ledger(name)}{part}").read_bytes()).hexdigest()
        for name in LEDGERS
        for part in ("", "-wal")
        if Path(f"{home.ledger(name)}{part}").exists()
    }
