"""Seeing several ledgers at once: on one connection, and in the plain `sqlite3` program by a file for it.

`sqlite3 -init ~/.nexus/data/attach.sql` attaches them read-only; every table has a name of its own,
so queries need no prefix.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

import apsw

from nexus.home import LEDGERS, PRIVATE_FILE, Home

_BUSY_TIMEOUT_MS = 30_000
_NAMES = {False: "attach.sql", True: "attach-rw.sql"}


def script(home: Home, *, writes: bool) -> str:
    """Return the statements that attach a home's ledgers."""
    purpose = "for reading and writing" if writes else "read-only"
    lines = [
        f"-- Attaches the six ledgers {purpose}. Made by Nexus; edits are lost.",
        # First, because attaching reads: a process that is just closing the ledger is waited for.
        ".timeout 30000",
        *(f"{statement(home, name, writes=writes)};" for name in LEDGERS),
        "PRAGMA foreign_keys = ON;",
    ]
    return "\n".join(lines) + "\n"


def statement(home: Home, ledger: str, *, writes: bool, name: str | None = None) -> str:
    """Return the statement that attaches one ledger, under its own name or another."""
    # Percent-encoding serves the URI; nothing it leaves can end the SQL string.
    path, mode = quote(str(home.ledger(ledger)), safe="/"), "rw" if writes else "ro"
    return f"ATTACH DATABASE 'file:{path}?mode={mode}' AS {name or ledger}"


def connect(home: Home, ledgers: Iterable[str] = LEDGERS, *, writes: bool = False) -> apsw.Connection:
    """Open one connection to several ledgers, each under its own name. The caller closes it."""
    connection = apsw.Connection(":memory:", flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
    try:
        connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
        for name in ledgers:
            connection.execute(statement(home, name, writes=writes))
    except BaseException:
        connection.close()
        raise
    return connection


def path(home: Home, *, writes: bool) -> Path:
    """Return where the file is."""
    return home.data / _NAMES[writes]


def ensure(home: Home) -> list[Path]:
    """Write the files that are missing or belong to another place; returns them."""
    written: list[Path] = []
    for writes in (False, True):
        file, content = path(home, writes=writes), script(home, writes=writes)
        if not file.is_file() or file.read_text(encoding="utf-8") != content:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(content)
            written.append(file)
    return written
