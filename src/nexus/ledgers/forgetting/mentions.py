"""Where the ledgers name an entity in their texts."""

from typing import Any, cast

from nexus.ledgers.forgetting import rows
from nexus.ledgers.forgetting.names import Names
from nexus.ledgers.forgetting.rules import Table, Text, Then
from nexus.ledgers.forgetting.sets import Sets
from nexus.ledgers.forgetting.tables import TOUCHED


def seed(sets: Sets, names: Names) -> dict[str, int]:
    """Let everything go that names the entity; returns in how many indexed texts each name was found."""
    if not names.all:
        return {}
    _teach(sets, names)
    found: dict[str, int] = {}
    for which, name in enumerate(names.all):
        found[name] = sum(
            _seed_indexed(sets, table, names, which) for table in TOUCHED.values() if table.indexed
        )
    for table in TOUCHED.values():
        for text in table.texts:
            _seed_text(sets, table, text)
    return found


def kept(sets: Sets, names: Names) -> dict[str, int]:
    """How many rows name the entity and stay, by `ledger.table.column`."""
    counts: dict[str, int] = {}
    for table in TOUCHED.values() if names.all else ():
        for text in table.texts:
            if text.then is Then.TELL:
                goes = rows.any_gone(table, lambda kind: f"gone_{kind}")
                query = f"{table.path} WHERE names_it({text.column}, -1) AND NOT coalesce({goes}, FALSE)"
                counts[f"{table.path}.{text.column}"] = cast(
                    "int",
                    sets.connection.execute(f"SELECT count(*) FROM {query}").get,  # noqa: S608 - names are constants of the program, values are bound
                )
    return {place: count for place, count in counts.items() if count}


def _teach(sets: Sets, names: Names) -> None:
    def names_it(*text_and_which: Any) -> bool:
        return names.found(*text_and_which)

    sets.connection.create_scalar_function("names_it", names_it, 2, deterministic=True)


def _seed_indexed(sets: Sets, table: Table, names: Names, which: int) -> int:
    """Ask the full-text index first, where it can find the name: it is fast, and takes too many forms."""
    in_texts = " OR ".join(f"names_it({column}, {which})" for column in table.indexed)
    query = names.query(which)
    source = f"{table.path} WHERE ({in_texts})"
    if query is not None:
        source += (
            f" AND seq IN (SELECT rowid FROM {table.ledger}.{table.index} WHERE {table.index} MATCH :query)"  # noqa: S608 - names are constants of the program, values are bound
        )
    connection = sets.connection
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS hits (key TEXT NOT NULL)")
    connection.execute("DELETE FROM hits")
    connection.execute(f"INSERT INTO hits SELECT {table.key_sql} FROM {source}", {"query": query})  # noqa: S608 - names are constants of the program, values are bound
    sets.add(table.name, "SELECT key FROM hits")
    return cast("int", connection.execute("SELECT count(*) FROM hits").get)


def _seed_text(sets: Sets, table: Table, text: Text) -> None:
    where = f"{table.path} WHERE {text.when} AND {text.column} <> '{{}}' AND names_it({text.column}, -1)"
    if text.then is Then.CLEAR:
        sets.empty(table.name, text.column, f"SELECT {table.key_sql} FROM {where}")  # noqa: S608 - names are constants of the program, values are bound
    elif text.then is Then.OWNER:
        sets.add(table.owner_table, f"SELECT {table.owner} FROM {where}")  # noqa: S608 - names are constants of the program, values are bound
    elif text.then is Then.ROW:
        sets.add(table.name, f"SELECT {table.key_sql} FROM {where}")  # noqa: S608 - names are constants of the program, values are bound
