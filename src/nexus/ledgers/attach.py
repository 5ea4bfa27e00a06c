"""The file that lets the plain `sqlite3` program see all six ledgers at once.

`sqlite3 -init ~/.nexus/data/attach.sql` attaches them read-only; every table has a name of its own,
so queries need no prefix.
"""

import os
from pathlib import Path
from urllib.parse import quote

from nexus.home import LEDGERS, PRIVATE_FILE, Home

_NAMES = {False: "attach.sql", True: "attach-rw.sql"}


def script(home: Home, *, writes: bool) -> str:
    """The statements that attach a home's ledgers."""
    purpose = "for reading and writing" if writes else "read-only"
    lines = [
        f"-- Attaches the six ledgers {purpose}. Made by Nexus; edits are lost.",
        # First, because attaching reads: a process that is just closing the ledger is waited for.
        ".timeout 30000",
        *(f"{statement(home, name, writes=writes)};" for name in LEDGERS),
        "PRAGMA foreign_keys = ON;",
    ]
    return "\n".join(lines) + "\n"


def statement(home: Home, ledger: str, *, writes: bool) -> str:
    """The statement that attaches one ledger under its own name."""
    mode = "rw" if writes else "ro"
    return f"ATTACH DATABASE 'file:{_quoted(home.ledger(ledger))}?mode={mode}' AS {ledger}"


def path(home: Home, *, writes: bool) -> Path:
    """Where the file is."""
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


def _quoted(file: Path) -> str:
    # Percent-encoding serves the URI; nothing it leaves can end the SQL string.
    return quote(str(file), safe="/")
