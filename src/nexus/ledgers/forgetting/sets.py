"""The keys of what will go, as temporary tables beside all six ledgers attached read-only.

For each table `T` there are `gone_T`, all keys so far, `new_T`, those of the latest round, and `next_T`,
those of the round that is being made; `emptied` holds columns that lose their text while the row stays.
"""

from collections.abc import Callable, Iterator
from typing import cast

import apsw

from nexus.home import LEDGERS, Home
from nexus.ledgers.attach import statement
from nexus.ledgers.failures import translate_errors
from nexus.ledgers.forgetting.rules import Ref, Table
from nexus.ledgers.forgetting.tables import RECORDED, TOUCHED

Bindings = dict[str, str | None]
# Files that go are planned beside the rows, under this kind.
FILES = "files"
# The plan looks keys up all over the indexes.
_CACHE_KIB = 65_536
_URI = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI


def attach_all(home: Home) -> apsw.Connection:
    """Return a connection that reads all six ledgers and writes to none. The caller closes it."""
    connection = apsw.Connection(":memory:", flags=_URI)
    try:
        for ledger in LEDGERS:
            with translate_errors(ledger, home.ledger(ledger)):
                connection.execute(statement(home, ledger, writes=False))
                connection.execute(f"PRAGMA {ledger}.cache_size = -{_CACHE_KIB}")
    except BaseException:
        connection.close()
        raise
    return connection


class Sets:
    """What will go. Keys are added to the next round; `advance` makes it the latest."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.new: set[str] = set()
        for kind in (*TOUCHED, FILES):
            for state in ("gone", "new", "next"):
                connection.execute(
                    f"CREATE TEMP TABLE {state}_{kind} (key TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID"
                )
        connection.execute(
            "CREATE TEMP TABLE emptied "
            "(kind TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID"
        )

    def add(self, kind: str, select: str, bindings: Bindings | None = None) -> bool:
        """Let the keys that a query of one column gives go too. False where all were known."""
        self.connection.execute(
            f"WITH found (key) AS ({select}) INSERT OR IGNORE INTO next_{kind} "  # noqa: S608 - names are constants of the program, values are bound
            f"SELECT key FROM found WHERE key IS NOT NULL AND key NOT IN gone_{kind}",
            bindings or {},
        )
        return self.connection.changes() > 0

    def empty(self, kind: str, column: str, select: str, bindings: Bindings | None = None) -> None:
        """Let a column of the rows that a query gives lose its text."""
        self.connection.execute(
            f"WITH found (key) AS ({select}) "  # noqa: S608 - names are constants of the program, values are bound
            f"INSERT OR IGNORE INTO emptied SELECT '{kind}.{column}', key FROM found",
            bindings or {},
        )

    def advance(self) -> bool:
        """Close the round. False where it brought nothing new."""
        self.new = set()
        for kind in (*TOUCHED, FILES):
            self.connection.execute(f"DELETE FROM new_{kind}")  # noqa: S608 - names are constants of the program, values are bound
            self.connection.execute(f"INSERT INTO new_{kind} SELECT key FROM next_{kind}")  # noqa: S608 - names are constants of the program, values are bound
            if self.connection.changes():
                self.new.add(kind)
                self.connection.execute(f"INSERT OR IGNORE INTO gone_{kind} SELECT key FROM next_{kind}")  # noqa: S608 - names are constants of the program, values are bound
                self.connection.execute(f"DELETE FROM next_{kind}")  # noqa: S608 - names are constants of the program, values are bound
        return bool(self.new)

    def count(self, kind: str) -> int:
        """Count how many keys of a kind go."""
        return cast("int", self.connection.execute(f"SELECT count(*) FROM gone_{kind}").get)  # noqa: S608 - names are constants of the program, values are bound

    def items(self) -> Iterator[tuple[str, str]]:
        """Yield every key with its kind: a table, `table.column` for what is emptied, or `files`."""
        for kind in (*TOUCHED, FILES):
            for (key,) in self.connection.execute(f"SELECT key FROM gone_{kind} ORDER BY key"):  # noqa: S608 - names are constants of the program, values are bound
                yield kind, cast("str", key)
        for kind, key in self.connection.execute("SELECT kind, key FROM emptied"):
            yield cast("str", kind), cast("str", key)


# Gives the SQL of the set of keys that go, for a table's name.
Keys = Callable[[str], str]


def list_removal_conditions(table: Table, keys: Keys) -> list[tuple[str, str]]:
    """Return conditions, any of which lets a row go, each with the name of the one set of keys that it asks.

    Each is a look-up by an index where there is one.
    """
    conditions = [(table.name, key_condition(table, keys(table.name)))]
    if table.name not in RECORDED:
        conditions += [
            (ref.table, referring_condition(ref, keys))
            for ref in table.refs
            if ref.removes and not ref.implied
        ]
    return conditions


def gone_condition(table: Table, keys: Keys) -> str:
    """Return the condition that a row goes."""
    return " OR ".join(f"({condition})" for _, condition in list_removal_conditions(table, keys))


def referring_condition(ref: Ref, keys: Keys) -> str:
    """Return rows that refer to something that goes."""
    return f"{ref.column} IN {keys(ref.table)} AND {ref.when}"


def key_condition(table: Table, keys: str) -> str:
    """Return rows whose key is in a set."""
    if len(table.key) == 1:
        return f"{table.key[0]} IN {keys}"
    parts = ", ".join(f"json_extract(key, '$[{place}]')" for place in range(len(table.key)))
    return f"({', '.join(table.key)}) IN (SELECT {parts} FROM {keys})"  # noqa: S608 - names are constants of the program, values are bound
