"""How a test sees that something is forgotten: in the bytes, the counts, the indexes and the guards."""

from collections import Counter
from pathlib import Path
from typing import cast

import apsw
import pytest

from acceptance.marked_home import ENTITY_ID, RANGE, STEMS, THREAD_ID, MarkedHome
from nexus.home import LEDGERS, Home
from nexus.ledgers.forgetting.sets import attach_all
from nexus.ledgers.forgetting.tables import TABLES

ARGUMENTS = {"entity": (ENTITY_ID,), "thread": (THREAD_ID,), "range": RANGE}
INDEXES = {"events": "events_fts", "memory": "facts_fts"}


def built(folder: Path, events: int, marked: int) -> MarkedHome:
    """A marked home of which every check below would fail."""
    made = MarkedHome(Home(folder / "home"), events, marked)
    for paths in holding(made.home, *STEMS.values()):
        assert {path.stem for path in paths if path.suffix == ".db"} == {*LEDGERS} - {"embeddings"}
    return made


def holding(home: Home, *words: str) -> list[set[Path]]:
    """For each word, the files of the home whose bytes hold it, whatever its case."""
    found: list[set[Path]] = [set() for _ in words]
    for path in home.root.rglob("*"):
        held = path.read_bytes().lower() if path.is_file() else b""
        for word, paths in zip(words, found, strict=True):
            if word.encode() in held:
                paths.add(path)
    return found


def connection(home: Home, ledger: str) -> apsw.Connection:
    return apsw.Connection(str(home.ledger(ledger)), flags=apsw.SQLITE_OPEN_READWRITE)


def counts(home: Home) -> Counter[str]:
    """The rows of every table, by `ledger.table`."""
    found: Counter[str] = Counter()
    opened = attach_all(home)
    for table in TABLES:
        found[table.path] = cast("int", opened.execute(f"SELECT count(*) FROM {table.path}").get)
    opened.close()
    return +found


def dangling(home: Home) -> dict[str, int]:
    """References, within and across ledgers, to rows that are not there.

    The bus tells of what is gone, so it refers to nothing by intent.
    """
    named = {table.name: table for table in TABLES if not (table.kept or table.name == "bus_events")}
    found: dict[str, int] = {}
    opened = attach_all(home)
    for table in named.values():
        for ref in table.refs:
            target = named[ref.table]
            query = (
                f"SELECT count(*) FROM {table.path} WHERE {ref.column} IS NOT NULL AND {ref.when} "
                f"AND {ref.column} NOT IN (SELECT {target.key[0]} FROM {target.path})"
            )
            found[f"{table.path}.{ref.column} to {ref.table}"] = cast("int", opened.execute(query).get)
    opened.close()
    return {place: count for place, count in found.items() if count}


def terms(home: Home, ledger: str, stem: str) -> set[str]:
    """The words of a full-text index that hold a stem."""
    opened = connection(home, ledger)
    table = INDEXES[ledger].replace("fts", "terms")
    found = {str(row[0]) for row in opened.execute(f"SELECT term FROM {table}")}
    opened.close()
    return {term for term in found if stem in term}


def index_blocks(home: Home, ledger: str, stem: str) -> int:
    """How many blocks of a full-text index hold a stem, be it of rows that are gone."""
    opened = connection(home, ledger)
    query = f"SELECT count(*) FROM {INDEXES[ledger]}_data WHERE instr(block, CAST(? AS BLOB))"
    found = cast("int", opened.execute(query, (stem,)).get)
    opened.close()
    return found


def assert_forgotten(home: Home, marked: MarkedHome, case: str) -> None:
    """No byte of the target is left, everything else is, and all is sound."""
    held = dict(zip(STEMS, holding(home, *STEMS.values()), strict=True))
    assert held.pop(case) == set()
    assert all(held.values())
    expected = sum((marked.tally[owner] for owner in marked.tally if owner != case), start=Counter[str]())
    expected["runtime.forgets"] += 1
    expected["events.bus_events"] += 1
    # Every fact that stays is sealed.
    expected["memory.fact_reseals"] += 1
    expected["memory.fact_seals"] = expected["memory.facts"]
    assert counts(home) == expected
    for ledger in LEDGERS:
        opened = connection(home, ledger)
        assert opened.execute("PRAGMA integrity_check").get == "ok"
        assert opened.execute("PRAGMA foreign_key_check").fetchall() == []
        if ledger in INDEXES:
            index = INDEXES[ledger]
            opened.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
            assert terms(home, ledger, STEMS[case]) == set()
        opened.close()


def assert_guarded(home: Home) -> None:
    """Events and facts still refuse every change."""
    for ledger, table in (("events", "events"), ("memory", "facts")):
        opened = connection(home, ledger)
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET id = id"):
            with pytest.raises(apsw.ConstraintError, match="append-only"):
                opened.execute(statement)
        opened.close()
