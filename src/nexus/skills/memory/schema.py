"""SCHEMA.md: the tables and views of the six ledgers, in the words of their own schema files."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import apsw

from nexus.home import LEDGERS
from nexus.ledgers import sql

_INTRODUCTION: Final = """\
# The six ledgers

Made by Nexus from its schema; it is made again when the schema changes.

Ask all six at once; every table has a name of its own, so queries need no prefix:

    sqlite3 -init "$(sed -n 's/^attach=//p' DB_PATHS)" :memory: "SELECT count(*) FROM facts"

`DB_PATHS` has the path of each file, as `name=path`. The files can be read and not written; write with
`memory-write.sh`. Ids are prefixed ULIDs and sort by time; times are UTC text and sort as they read.
`QUERIES.md` has queries to start from.
"""
# What a reader of the data needs; indexes and triggers only keep it quick and right.
_SHOWN_STATEMENT: Final = re.compile(
    r"^CREATE (TABLE|VIEW|VIRTUAL TABLE) (?!schema_migrations\b)", re.MULTILINE
)


@cache
def page() -> str:
    """Return the whole page."""
    return "\n".join([_INTRODUCTION, *(_format_section(ledger) for ledger in LEDGERS)])


def _format_section(ledger: str) -> str:
    text = sql.text(ledger, "schema.sql")
    title, _, rest = text.partition("\n\n")
    about = " ".join(line.removeprefix("-- ") for line in title.splitlines())
    wanted = [statement for statement in _split_statements(rest) if _SHOWN_STATEMENT.search(statement)]
    return "\n".join([f"## {about}", "", "```sql", "\n\n".join(wanted), "```", ""])


def _split_statements(text: str) -> Iterator[str]:
    """Each statement with the remarks above it."""
    statement: list[str] = []
    for line in text.splitlines():
        if line.strip() or statement:
            statement.append(line)
        if line.rstrip().endswith(";") and apsw.complete("\n".join(statement)):
            yield "\n".join(statement).strip()
            statement = []
