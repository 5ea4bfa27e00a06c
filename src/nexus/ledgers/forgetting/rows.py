"""SQL conditions made from the rules: which rows of a table go."""

from collections.abc import Callable

from nexus.ledgers.forgetting.rules import Ref, Table
from nexus.ledgers.forgetting.tables import RECORDED

# Gives the SQL of the set of keys that go, for a table's name.
Keys = Callable[[str], str]


def gone(table: Table, keys: Keys) -> list[tuple[str, str]]:
    """Conditions, any of which lets a row go, each with the name of the one set of keys that it asks.

    Each is a look-up by an index where there is one.
    """
    conditions = [(table.name, with_key(table, keys(table.name)))]
    if table.name not in RECORDED:
        conditions += [
            (ref.table, referring(ref, keys)) for ref in table.refs if ref.removes and not ref.implied
        ]
    return conditions


def any_gone(table: Table, keys: Keys) -> str:
    """The condition that a row goes."""
    return " OR ".join(f"({condition})" for _, condition in gone(table, keys))


def referring(ref: Ref, keys: Keys) -> str:
    """Rows that refer to something that goes."""
    return f"{ref.column} IN {keys(ref.table)} AND {ref.when}"


def with_key(table: Table, keys: str) -> str:
    """Rows whose key is in a set."""
    if len(table.key) == 1:
        return f"{table.key[0]} IN {keys}"
    parts = ", ".join(f"json_extract(key, '$[{place}]')" for place in range(len(table.key)))
    return f"({', '.join(table.key)}) IN (SELECT {parts} FROM {keys})"  # noqa: S608 - names are constants of the program, values are bound
