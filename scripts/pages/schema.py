"""The schema page, from six databases that are really built."""

import re
import tempfile
from pathlib import Path

from nexus.home import LEDGERS
from nexus.ledgers import migrate
from pages import markdown
from pages.tables import Column, Ledger, Table, View, describe

_ABOUT = """\
A home stores its data in six SQLite databases, the ledgers. Table names are unique across all six, so
`nexus sql` and `sqlite3 -init ~/.nexus/data/attach.sql` need no prefixes."""

_ID = re.compile(r"^(\w+_…)")

_CONVENTIONS = markdown.bullets(
    [
        "**`id`** is a prefixed ULID such as `evt_01JCQ…`; ids sort by creation time.",
        "**`…_at`** and **`…_time`** are ISO-8601 UTC text with milliseconds. "
        "`created_at` is when the row was recorded, `updated_at` when it last changed.",
        "**`…_json`** is JSON text.",
        "**`confidence`** is between 0 and 1.",
        "**`source_…`** is where a row comes from: an event, episode, request or source type.",
        "**`…_id`** with an arrow references another row; SQLite checks it within a ledger, "
        "but not across ledgers.",
        "Columns after *Also* mean what their names say.",
    ]
)


def page() -> str:
    with tempfile.TemporaryDirectory() as folder:
        ledgers = [_built(Path(folder), name) for name in LEDGERS]
    shared = _shared(ledgers)
    parts = markdown.front("Schema", "src/nexus/ledgers/*/schema.sql", _ABOUT)
    parts += ["## Conventions", _CONVENTIONS, "## Overview", _overview(ledgers, shared)]
    parts += ["## In every ledger { #every-ledger }"]
    parts += [part for table in ledgers[0].tables if table.name in shared for part in _table(table, "")]
    for ledger in ledgers:
        parts += [f"## {ledger.name}.db {{ #{ledger.name} }}", ledger.purpose]
        for table in ledger.tables:
            parts += [] if table.name in shared else _table(table, ledger.name)
        parts += [part for view in ledger.views for part in _view(view, ledger.name)]
        parts += [part for index in ledger.indexes for part in _view(index, ledger.name)]
    return markdown.join(parts)


def anchor(ledger: str, table: str) -> str:
    """Where on the page a table is; the heading and every link to it use this."""
    return f"{ledger}-{table}" if ledger else table


def _built(folder: Path, name: str) -> Ledger:
    path = folder / f"{name}.db"
    migrate.build(path, name)
    return describe(path, name)


def _shared(ledgers: list[Ledger]) -> set[str]:
    """Tables that every ledger has, in the same words; they are described once."""
    first, *others = [set(ledger.tables) for ledger in ledgers]
    return {table.name for table in first.intersection(*others)}


def _overview(ledgers: list[Ledger], shared: set[str]) -> str:
    def links(ledger: Ledger) -> str:
        names = [*ledger.tables, *ledger.views, *ledger.indexes]
        return ", ".join(
            f"[`{one.name}`](#{anchor(ledger.name, one.name)})" for one in names if one.name not in shared
        )

    return markdown.table(
        ["Ledger", "Tables and views"],
        [[f"[`{ledger.name}.db`](#{ledger.name})", links(ledger)] for ledger in ledgers],
    )


def _table(table: Table, ledger: str) -> list[str]:
    rows = [(column, _column(column)) for column in table.columns]
    explained = [row for _, row in rows if row[-1]]
    plain = [f"`{column.name}` ({column.type.lower()})" for column, row in rows if not row[-1]]
    return [
        f"### `{table.name}` {{ #{anchor(ledger, table.name)} }}",
        table.purpose,
        markdown.table(["Column", "Type", "Meaning"], explained) if explained else "",
        f"{'Also' if explained else 'Columns'}: {', '.join(plain)}." if plain else "",
        markdown.bullets(f"{guard.when} is refused: “{guard.message}”." for guard in table.guards),
    ]


def _column(column: Column) -> list[str]:
    kind = [column.type.lower(), *(["or NULL"] if not column.required else [])]
    kind += [f"default {column.default}"] if column.default else []
    meaning = ["Key." if column.key else "", _meaning(column), column.choices]
    return [f"`{column.name}`", ", ".join(kind), " ".join(part for part in meaning if part)]


def _meaning(column: Column) -> str:
    text = _ID.sub(r"`\1`", column.meaning)
    end = "" if text.endswith(("…", "…`")) else "."
    if column.refers_to:
        ledger, table = column.refers_to
        link = f"→ [`{ledger}.{table}`](#{anchor(ledger, table)})"
        return f"{link}: {text}{end}" if text else link
    if not text:
        return ""
    first = text.split()[0]
    # A word of the data, unlike the first word of a sentence, keeps its case.
    return f"{text[0].upper()}{text[1:]}{end}" if first.isalpha() and first.islower() else f"{text}{end}"


def _view(view: View, ledger: str) -> list[str]:
    return [
        f"### `{view.name}` {{ #{anchor(ledger, view.name)} }}",
        f"{view.kind}. {view.purpose}",
        f"Columns: {', '.join(f'`{name}`' for name in view.columns)}.",
        markdown.bullets(view.remarks),
    ]
