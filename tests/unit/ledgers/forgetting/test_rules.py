"""No table and no column can be forgotten to be forgotten."""

from collections.abc import Iterator

import apsw
import pytest

from nexus.home import LEDGERS
from nexus.ledgers import sql
from nexus.ledgers.forgetting.rules import Table, Then
from nexus.ledgers.forgetting.tables import RECORDED, TABLES, TOUCHED
from unit.ledgers.forgetting.scene import VOCABULARY

_RULES = {(table.ledger, table.name): table for table in TABLES}
_TOUCHED = [pytest.param(table, id=table.path) for table in TOUCHED.values()]


def schema(ledger: str) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute(sql.text(ledger, "schema.sql"))
    return connection


def columns(table: Table) -> dict[str, tuple[str, bool]]:
    """A table's columns: type, and whether it may be NULL."""
    rows = schema(table.ledger).execute(f"PRAGMA table_info ({table.name})")
    return {str(name): (str(kind), not (required or key)) for _, name, kind, required, _, key in rows}


def tables_in_schemas() -> Iterator[tuple[str, str]]:
    query = (
        "SELECT name FROM pragma_table_list "
        "WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%'"
    )
    for ledger in LEDGERS:
        for (name,) in schema(ledger).execute(query):
            yield ledger, str(name)


def test_every_table_of_every_ledger_has_a_rule_and_every_rule_a_table() -> None:
    assert sorted(tables_in_schemas()) == sorted(_RULES)


def test_names_of_touched_tables_are_their_own() -> None:
    assert len(TOUCHED) == len([table for table in TABLES if not table.kept])


@pytest.mark.parametrize("table", _TOUCHED)
def test_a_rule_names_columns_that_exist(table: Table) -> None:
    named = {*table.key, *table.indexed, *(ref.column for ref in table.refs)}
    named |= {text.column for text in table.texts} | ({table.owner} if table.owner else set())
    if table.time:
        named |= {table.time.start} | ({table.time.end} if table.time.end else set())
    assert named <= columns(table).keys()
    assert {ref.table for ref in table.refs} <= TOUCHED.keys()


@pytest.mark.parametrize("table", _TOUCHED)
def test_every_text_column_is_accounted_for(table: Table) -> None:
    accounted = {*table.key, *table.indexed, *(ref.column for ref in table.refs), *VOCABULARY}
    accounted |= {text.column for text in table.texts}
    if table.time:
        accounted |= {table.time.start, table.time.end}
    texts = {
        name for name, (kind, _) in columns(table).items() if kind == "TEXT" and not name.endswith("_at")
    }
    assert texts <= accounted


@pytest.mark.parametrize("table", _TOUCHED)
def test_every_foreign_key_to_what_can_go_is_followed(table: Table) -> None:
    rows = schema(table.ledger).execute(f"PRAGMA foreign_key_list ({table.name})")
    keys = {(str(column), str(target)) for _, _, target, column, *_ in rows if loses_rows(str(target))}
    assert keys <= {(ref.column, ref.table) for ref in table.refs}


def loses_rows(name: str) -> bool:
    table = TOUCHED.get(name)
    if table is None:
        return False
    return bool(
        table.time
        or table.index
        or any(ref.removes for ref in table.refs)
        or any(text.then is Then.ROW for text in table.texts)
    )


@pytest.mark.parametrize("table", _TOUCHED)
def test_a_column_that_is_emptied_may_be_empty(table: Table) -> None:
    allowed = columns(table)
    for ref in table.refs:
        if not ref.removes:
            assert allowed[ref.column][1], ref.column
    for text in table.texts:
        if text.then is Then.CLEAR and text.blank is None:
            assert allowed[text.column][1], text.column


@pytest.mark.parametrize("table", _TOUCHED)
def test_what_a_row_is_a_part_of_is_one_of_its_references(table: Table) -> None:
    consequences = {ref.then for ref in table.refs} | {text.then for text in table.texts}
    if consequences & {Then.OWNER, Then.NAMED}:
        owners = {ref.owner or table.owner for ref in table.refs if ref.then in (Then.OWNER, Then.NAMED)}
        assert {table.referred_table(owner) for owner in owners} <= RECORDED


def test_a_table_that_is_kept_says_why_and_nothing_else() -> None:
    for table in TABLES:
        if table.kept:
            assert (table.refs, table.texts, table.time, table.index) == ((), (), None, ""), table.path
