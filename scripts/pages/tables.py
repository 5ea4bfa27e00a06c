"""What a built database says about its own tables: SQLite's answers, and the comments that it keeps.

SQLite stores the text of each CREATE TABLE with its comments: the first comment lines inside it are the
table's purpose, a comment at the end of a column's line is the column's meaning. What stands before a
CREATE VIEW is not stored, so views' purposes are read from schema.sql.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import apsw

from nexus.home import LEDGERS
from nexus.ledgers import sql

_NOW = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
_CHOICES = re.compile(r"CHECK \((\w+) IN \(([^)]*)\)\)")
_ELSEWHERE = re.compile(rf"\b({'|'.join(LEDGERS)})\.(\w+)(?:: |, |$)")
_TRIGGER = re.compile(r"CREATE TRIGGER \w+ ((?:BEFORE|AFTER|INSTEAD OF) (\w+))")
_MESSAGE = re.compile(r"RAISE\(ABORT, '((?:[^']|'')*)'\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column; `default` and `choices` are Markdown."""

    name: str
    type: str
    required: bool
    default: str
    key: bool
    meaning: str
    choices: str
    refers_to: tuple[str, str] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Guard:
    """A trigger that refuses a change, and what it says."""

    when: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """An ordinary table."""

    name: str
    purpose: str
    columns: tuple[Column, ...]
    indexed: tuple[str, ...]
    guards: tuple[Guard, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """Something that is read like a table: a view, or a full-text index."""

    name: str
    kind: str
    purpose: str
    columns: tuple[str, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """One database."""

    name: str
    purpose: str
    tables: tuple[Table, ...]
    views: tuple[View, ...]
    indexes: tuple[View, ...]


def describe(path: Path, name: str) -> Ledger:
    """Everything that the page says about one database, in the order in which it was created."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        kinds = {row[1]: row[2] for row in connection.execute("PRAGMA main.table_list")}
        created = [
            (str(row[0]), str(row[1]))
            for row in connection.execute(
                "SELECT name, sql FROM sqlite_schema WHERE type IN ('table', 'view')"
                " AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
            )
        ]
        own = {
            kind: [pair for pair in created if kinds[pair[0]] == kind]
            for kind in ("table", "view", "virtual")
        }
        return Ledger(
            name=name,
            purpose=_ledger_purpose(name),
            tables=tuple(_table(connection, name, *pair) for pair in own["table"]),
            views=tuple(_view(connection, name, *pair) for pair in own["view"]),
            indexes=tuple(_virtual(connection, *pair) for pair in own["virtual"]),
        )
    finally:
        connection.close()


def _ledger_purpose(name: str) -> str:
    """The opening comment of schema.sql is `name.db: what it is for.`"""
    file, _, purpose = _opening_comment(sql.text(name, "schema.sql")).partition(": ")
    if file != f"{name}.db" or not purpose:
        raise SystemExit(f"{name}/schema.sql must begin with a comment `{name}.db: what it is for`")
    return purpose[0].upper() + purpose[1:]


def _table(connection: apsw.Connection, ledger: str, name: str, statement: str) -> Table:
    body = statement.split("\n", 1)[-1]
    purpose = _opening_comment(body)
    if not purpose:
        raise SystemExit(
            f"{ledger}.{name} has no purpose: begin its CREATE TABLE with a comment that says it"
        )
    keys = _foreign_keys(connection, ledger, name)
    return Table(
        name=name,
        purpose=purpose,
        columns=tuple(
            _column(row, _column_comments(body), _choices(body), keys)
            for row in connection.execute(f"PRAGMA table_xinfo({name})")
        ),
        indexed=tuple(_indexed(connection, name)),
        guards=tuple(_guards(connection, name)),
    )


def _column(
    row: tuple[object, ...],
    comments: dict[str, str],
    choices: dict[str, str],
    keys: dict[str, tuple[str, str]],
) -> Column:
    _, name, kind, required, default, key, *_ = row
    name = str(name)
    meaning = comments.get(name, "")
    elsewhere = _ELSEWHERE.search(meaning)
    if elsewhere and name not in keys:
        keys = {**keys, name: (elsewhere[1], elsewhere[2])}
        meaning = (meaning[: elsewhere.start()] + meaning[elsewhere.end() :]).strip(" ,:")
    return Column(
        name=name,
        type=str(kind),
        required=bool(required or key),
        default=_default(default),
        key=bool(key),
        meaning=meaning,
        choices=choices.get(name, ""),
        refers_to=keys.get(name),
    )


def _default(value: object) -> str:
    if value is None:
        return ""
    return "now" if str(value) == _NOW else f"`{value}`"


def _column_comments(body: str) -> dict[str, str]:
    lines = (re.match(r"\s+(\w+)\s.*?--\s*(.+?)\s*$", line) for line in body.splitlines())
    return {found[1]: found[2] for found in lines if found}


def _choices(body: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for column, values in _CHOICES.findall(body):
        *most, last = [f"`{word}`" for word in values.replace("'", "").split(", ")]
        found[column] = f"{', '.join(most)} or {last}."
    return found


def _foreign_keys(connection: apsw.Connection, ledger: str, table: str) -> dict[str, tuple[str, str]]:
    rows = connection.execute(f"PRAGMA foreign_key_list({table})")
    return {str(row[3]): (ledger, str(row[2])) for row in rows}


def _indexed(connection: apsw.Connection, table: str) -> list[str]:
    found: list[str] = []
    for _, name, unique, origin, partial in connection.execute(f"PRAGMA index_list({table})"):
        if origin == "pk":
            continue
        names = [str(row[2] or "(computed)") for row in connection.execute(f"PRAGMA index_info({name})")]
        remarks = ["unique"] * bool(unique) + ["where set"] * bool(partial)
        found.append(f"`{', '.join(names)}`" + (f" ({', '.join(remarks)})" if remarks else ""))
    return sorted(found)


def _guards(connection: apsw.Connection, table: str) -> list[Guard]:
    rows = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? ORDER BY rowid", (table,)
    )
    return [
        Guard(when=_when(str(row[0])), message=message.replace("''", "'"))
        for row in rows.fetchall()
        for message in _MESSAGE.findall(str(row[0]))
    ]


def _when(trigger: str) -> str:
    found = _TRIGGER.match(trigger)
    assert found is not None, trigger
    return {"UPDATE": "Changing a row", "DELETE": "Deleting a row", "INSERT": "Recording a row twice"}[
        found[2]
    ]


def _view(connection: apsw.Connection, ledger: str, name: str, statement: str) -> View:
    purpose = _comment_before(sql.text(ledger, "schema.sql"), f"CREATE VIEW {name} ")
    if not purpose:
        raise SystemExit(f"{ledger}.{name} has no purpose: put a comment that says it before its CREATE VIEW")
    writable = connection.execute(
        "SELECT 1 FROM sqlite_schema"
        " WHERE type = 'trigger' AND tbl_name = ? AND sql LIKE '%INSTEAD OF INSERT%'",
        (name,),
    ).get
    return View(
        name=name,
        kind="View",
        purpose=purpose,
        columns=_column_names(connection, name),
        remarks=("Rows can be inserted into it; they go to the table behind it.",) if writable else (),
    )


def _virtual(connection: apsw.Connection, name: str, statement: str) -> View:
    vocabulary = re.search(r"fts5vocab \((\w+)", statement)
    content = re.search(r"content = '(\w+)'", statement)
    if vocabulary:
        kind, purpose = (
            "Vocabulary",
            f"Word counts of `{vocabulary[1]}`.",
        )
    else:
        assert content is not None, statement
        kind = "Full-text index"
        purpose = f"Search `{content[1]}` with `{name} MATCH …`, ordered by `rank`."
    columns = _column_names(connection, name)
    return View(name=name, kind=kind, purpose=purpose, columns=columns, remarks=())


def _column_names(connection: apsw.Connection, name: str) -> tuple[str, ...]:
    rows = connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
    return tuple(str(row[1]) for row in rows if not row[6])


def _opening_comment(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        if not line.strip().startswith("--"):
            break
        lines.append(line.strip().removeprefix("--").strip())
    return " ".join(lines)


def _comment_before(text: str, statement: str) -> str:
    before = text[: text.index(statement)].rstrip("\n").splitlines()
    lines: list[str] = []
    while before and before[-1].startswith("--"):
        lines.insert(0, before.pop().removeprefix("--").strip())
    return " ".join(lines)
