"""How a ledger's file gets its schema, and keeps up with the program.

A new file is built beside its place and moved there when it is complete. A file of an earlier release is
migrated one numbered step at a time, each committed together with the record that it ran. So at every
moment, also after a crash, a file is at exactly one version. The numbers begin with the schema of 0.1.0.
"""

import os
from functools import cache
from pathlib import Path
from typing import cast

import apsw

from nexus import ids
from nexus.errors import LedgerCorruptError, LedgerError, SchemaError
from nexus.home import LEDGERS, PRIVATE_FILE
from nexus.ledgers import sql
from nexus.ledgers.failures import translate_errors

# "NXS" and the ledger's number: tells `file`, `nexus doctor` and us what a file is.
APPLICATION_IDS = {name: 0x4E585300 + number for number, name in enumerate(LEDGERS, start=1)}
_RECORD = "INSERT INTO schema_migrations (version, name) VALUES (?, ?)"


def latest(ledger: str) -> int:
    """Return the newest schema version that this program knows."""
    return sql.migrations(ledger)[-1][0]


def version(connection: apsw.Connection, ledger: str) -> int:
    """Return the schema version of an open file; 0 for one that is empty or has the table `hooks`.

    SchemaError if a checkout from before 0.1.0 wrote it.
    """
    application_id = connection.pragma("application_id")
    if application_id == APPLICATION_IDS[ledger]:
        found = int(connection.pragma("user_version"))
        if found < sql.BASELINE:
            raise SchemaError(
                f"The home is from before Nexus 0.1.0: its {ledger} ledger has schema {found}",
                hint="Run `nexus export home.jsonl.gz` with the checkout that wrote it, move the home away, "
                "and run `nexus import home.jsonl.gz` with this program.",
            )
        return found
    other = next((name for name, number in APPLICATION_IDS.items() if number == application_id), None)
    if other is not None:
        raise LedgerCorruptError(
            f"The {ledger} ledger's file contains the {other} ledger",
            hint="Rename the files in data/ back, or restore a backup.",
        )
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if tables and not (ledger == "runtime" and "hooks" in tables):
        raise LedgerCorruptError(
            f"The {ledger} ledger's file belongs to another program",
            hint="Move it away and run `nexus doctor --fix`, or restore a backup.",
        )
    return 0


def _steps(ledger: str, at_version: int) -> list[tuple[int, str, str]]:
    return [step for step in sql.migrations(ledger) if step[0] <= at_version]


def known_version(connection: apsw.Connection, ledger: str) -> int:
    """Return the schema version of an open file; SchemaError if no way leads from it to the newest.

    A number alone says little: a file from another line of development may have the same one. So the names
    of the steps that the file took are compared too, and the tables that they left.
    """
    connection.execute("SAVEPOINT look")  # another process may migrate it meanwhile
    try:
        return _known_version(connection, ledger)
    finally:
        if connection.in_transaction:  # a full disk has ended it
            connection.execute("RELEASE look")


def _known_version(connection: apsw.Connection, ledger: str) -> int:
    found, known = version(connection, ledger), latest(ledger)
    if found > known:
        raise SchemaError(
            f"The {ledger} ledger has schema {found}; this version supports up to {known}",
            hint="It was written by a newer Nexus. Install that version or a later one.",
        )
    difference = _difference(connection, ledger, found)
    if difference:
        raise SchemaError(
            f"The {ledger} ledger was written by another line of Nexus: {difference}",
            hint="Use the version that wrote it: what its `nexus export` writes, this `nexus import` reads.",
        )
    return found


def _difference(connection: apsw.Connection, ledger: str, found: int) -> str:
    if not found:
        return ""
    rows = connection.execute("SELECT version, name FROM schema_migrations").fetchall()
    taken = dict(cast("list[tuple[int, str]]", rows))
    for number, name, _ in _steps(ledger, found):
        if taken.get(number) != name:
            return f"its migration {number} is {taken.get(number, 'missing')}, ours is {name}"
    if found == latest(ledger):
        return ""  # nothing will be changed, and what is missing can be made again
    has, wanted = _columns(connection), _replay(ledger, found)
    strange = next((table for table in wanted if has.get(table) != wanted[table]), None)
    return f"its table {strange} is not the one of schema {found}" if strange else ""


@cache
def _replay(ledger: str, at_version: int) -> dict[str, frozenset[str]]:
    connection = apsw.Connection(":memory:")
    try:
        for _, _, script in _steps(ledger, at_version):
            connection.execute(script)
        return _columns(connection)
    finally:
        connection.close()


def _columns(connection: apsw.Connection) -> dict[str, frozenset[str]]:
    """Return the tables by name, with the names of their columns."""
    rows = connection.execute(
        "SELECT s.name, c.name FROM sqlite_schema AS s, pragma_table_xinfo(s.name) AS c "
        "WHERE s.type = 'table'"
    )
    found: dict[str, set[str]] = {}
    for table, column in cast("list[tuple[str, str]]", rows.fetchall()):
        found.setdefault(table, set()).add(column)
    return {table: frozenset(columns) for table, columns in found.items()}


def create(path: Path, ledger: str) -> bool:
    """Make a ledger's file, complete or not at all. False where there is one already."""
    if path.exists():
        return False
    building = path.with_name(f".{path.name}.{ids.new('new')}")
    try:
        with translate_errors(ledger, path):
            os.close(os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
            build(building, ledger)
            # A link never replaces: where two processes race, the first one's file stays.
            path.hardlink_to(building)
    except FileExistsError:
        return False
    except OSError as error:
        raise LedgerError(
            f"Can't create the {ledger} ledger at {path}: {error.strerror}",
            hint=f"Check that {path.parent} is writable and has free disk space.",
        ) from error
    finally:
        building.unlink(missing_ok=True)
    return True


def build(path: Path, ledger: str, at_version: int | None = None) -> None:
    """Lay the schema into an empty file: today's, or replayed up to an older version."""
    connection = apsw.Connection(str(path))
    try:
        # Nobody can see this file yet: speed is free, and one sync at the end makes it durable.
        connection.execute("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY")
        with connection:
            if at_version is None:
                connection.execute(sql.text(ledger, "schema.sql"))
                for number, name, _ in sql.migrations(ledger):
                    _record(connection, ledger, number, name)
            else:
                for number, name, script in _steps(ledger, at_version):
                    connection.execute(script)
                    _record(connection, ledger, number, name)
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def record_history(connection: apsw.Connection, ledger: str, at_version: int) -> None:
    """Record the steps by which a file was built here, whatever the rows that it was filled with say."""
    connection.execute("DELETE FROM schema_migrations WHERE version < ?", (sql.BASELINE,))
    for number, name, _ in _steps(ledger, at_version):
        connection.execute(
            f"{_RECORD} ON CONFLICT (version) DO UPDATE SET name = excluded.name", (number, name)
        )


def upgrade(connection: apsw.Connection, ledger: str) -> list[str]:
    """Bring an open file to the newest version. Returns the names of the steps that were taken."""
    found = known_version(connection, ledger)
    steps = [step for step in sql.migrations(ledger) if step[0] > found]
    return [name for number, name, script in steps if _step(connection, ledger, number, name, script)]


def _step(connection: apsw.Connection, ledger: str, number: int, name: str, script: str) -> bool:
    # A step may rebuild a table that others refer to; what it leaves is checked as a whole below.
    foreign_keys = connection.pragma("foreign_keys")
    connection.pragma("foreign_keys", 0)
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have taken this step while we waited for the lock.
        if version(connection, ledger) >= number:
            connection.execute("ROLLBACK")
            return False
        connection.execute(script)
        if number == sql.BASELINE and connection.table_exists("main", "hooks"):
            connection.execute(sql.text(ledger, "hooks.sql"))
        broken = connection.execute("PRAGMA foreign_key_check").fetchall()
        if broken:
            raise SchemaError(
                f"Migration {name} of the {ledger} ledger would leave dangling rows: {broken[:3]}"
            )
        _record(connection, ledger, number, name)
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, apsw.SQLError | apsw.ConstraintError | apsw.MismatchError):
            raise SchemaError(
                f"Migration {name} of the {ledger} ledger failed and was undone: {error}",
                hint="Nothing changed. Please report this message.",
            ) from error
        raise
    finally:
        connection.pragma("foreign_keys", foreign_keys)
    return True


def _record(connection: apsw.Connection, ledger: str, number: int, name: str) -> None:
    connection.execute(_RECORD, (number, name))
    connection.pragma("user_version", number)
    connection.pragma("application_id", APPLICATION_IDS[ledger])
