"""The tables of the ledgers have a use."""

import re
from pathlib import Path

import apsw
import pytest

import nexus
from nexus.home import LEDGERS
from nexus.ledgers import migrate, tables

_SOURCE = Path(nexus.__file__).parent
_INSERT = re.compile(r"\bINSERT (?:OR \w+ )?INTO (?:\w+\.)?(\w+)")


@pytest.mark.parametrize("ledger", LEDGERS)
def test_every_table_is_filled_by_some_statement(tmp_path: Path, ledger: str) -> None:
    statements = [path for path in _SOURCE.rglob("*.sql") if path.parent.name != "migrations"]
    filled = {
        found[1]
        for path in (*statements, *_SOURCE.rglob("*.py"))
        for found in _INSERT.finditer(path.read_text(encoding="utf-8"))
    }
    migrate.build(tmp_path / "ledger.db", ledger)
    connection = apsw.Connection(str(tmp_path / "ledger.db"))
    names = {table.name for table in tables.list_tables(connection)} - {tables.COUNTERS}
    connection.close()
    assert names
    assert names - filled == set()
