"""A name is planted in every text column of every ledger; after forgetting, no byte of it is left.

The columns come from the schemas: a new one fails here until somebody decides what forgetting does to it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from new_homes import new_home
from nexus.config import LedgersConfig
from nexus.home import LEDGERS, Home
from nexus.ledgers import Ledgers, forgetting, sql
from nexus.ledgers.forgetting.rules import Then
from nexus.ledgers.forgetting.tables import TABLES, TOUCHED
from unit.ledgers.forgetting.scene import VOCABULARY

_NAME: Final = "Wilhelmina"
_ID: Final = "ent_her"


def _schema(ledger: str) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute(sql.text(ledger, "schema.sql"))
    return connection


def _columns(ledger: str, table: str) -> list[tuple[str, str, bool, bool]]:
    """Name, type, whether it must be given, and whether it is a part of the key."""
    rows = _schema(ledger).execute(f"PRAGMA table_info ({table})").fetchall()
    return [(str(r[1]), str(r[2]), bool(r[3] and r[4] is None), bool(r[5])) for r in rows]


def _decided(ledger: str, table: str, column: str) -> str | None:
    """Why a column may keep the name, where that was decided."""
    rule = next(each for each in TABLES if (each.ledger, each.name) == (ledger, table))
    if rule.kept:
        return rule.kept
    if any(text.column == column and text.then is Then.TELL for text in rule.texts):
        return "told in the report"
    if column in {text.column for text in rule.texts} | set(rule.indexed):
        return None
    if column in rule.key or column in {ref.column for ref in rule.refs}:
        return "an id"
    if column in VOCABULARY:
        return "a word of the program's own"
    if column.endswith("_at") or (rule.time and column in (rule.time.start, rule.time.end)):
        return "a time"
    return None


def _every_text() -> Iterator[Any]:
    for table in TABLES:
        for name, kind, _, _ in _columns(table.ledger, table.name):
            if kind == "TEXT" and _decided(table.ledger, table.name, name) is None:
                yield pytest.param(table.ledger, table.name, name, id=f"{table.path}.{name}")


def _plant(home: Home, ledger: str, table: str, column: str) -> None:
    """A row with the name in one column, and whatever is allowed in the others."""
    values: dict[str, Any] = {}
    for name, kind, required, key in _columns(ledger, table):
        if name == column:
            text = f"with {_NAME} on Monday"
            values[name] = json.dumps({"a": text}) if name.endswith("_json") else text
        elif required or (key and kind == "TEXT"):
            values[name] = {"TEXT": "{}" if name.endswith("_json") else f"other-{name}", "BLOB": b"0"}.get(
                kind, 1
            )
    connection = apsw.Connection(str(home.ledger(ledger)))
    connection.execute("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
    places = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})", tuple(values.values()))
    connection.close()


def _holding(home: Home) -> list[str]:
    """The files in which the name is found."""
    wanted = _NAME.lower().encode()
    files = [path for path in home.root.rglob("*") if path.is_file()]
    return [path.name for path in files if wanted in path.read_bytes().lower()]


@pytest.mark.parametrize(("ledger", "table", "column"), list(_every_text()))
async def test_no_text_column_keeps_a_forgotten_name(
    tmp_path: Path, ledger: str, table: str, column: str
) -> None:
    home = new_home(tmp_path / "home")
    _plant(home, ledger, table, column)
    assert _holding(home)
    async with Ledgers(home, LedgersConfig()) as opened:
        await opened.identity.write(_know)
        target = await forgetting.find(opened, lambda c: forgetting.entity(c, _NAME))
        assert await forgetting.forget(opened, target, actor="test")
    assert _holding(home) == []


def _know(connection: apsw.Connection) -> None:
    connection.execute(
        "INSERT INTO entities (id, type, canonical_name, normalized_name) VALUES (?, 'Person', ?, ?)",
        (_ID, _NAME, _NAME.lower()),
    )


def test_every_column_was_thought_of() -> None:
    found = {each.id for each in _every_text()}
    assert len(found) > 50
    assert {"events.threads.title", "events.threads.external_id", "memory.facts.fact"} <= found
    assert {table.ledger for table in TOUCHED.values()} <= set(LEDGERS)
