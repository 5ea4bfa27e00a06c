"""All six ledgers of a live home as they are at one moment, while others go on writing."""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import apsw

from nexus.home import Home, HomeLock
from nexus.ledgers.connection import keep_wal
from nexus.ledgers.failures import translated

# What refers is caught before what it refers to. Each file's snapshot is taken a moment after the one
# before it, so whatever a row points at in a later file was there when the row was written and is still
# there. The way back (an event's resolved sender, the request that an answer belongs to) can miss only
# what was written in the milliseconds between the snapshots; no foreign key crosses files.
ORDER: Final = ("embeddings", "memory", "agents", "runtime", "identity", "events")

_BUSY_TIMEOUT_MS = 30_000


@contextmanager
def snapshots(
    home: Home, open_: Callable[[Path, str], apsw.Connection]
) -> Generator[dict[str, apsw.Connection]]:
    """A connection to each ledger that sees this moment until the end; nobody waits for it."""
    with ExitStack() as stack:
        stack.enter_context(HomeLock(home.require(), "shared"))
        connections: dict[str, apsw.Connection] = {}
        for name in ORDER:
            with translated(name, home.ledger(name)):
                connections[name] = open_(home.ledger(name), name)
            stack.callback(connections[name].close)
        # All at once and only now, because opening takes longer than beginning to read.
        for name, connection in connections.items():
            with translated(name, home.ledger(name)):
                connection.execute("BEGIN")
                connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
        yield connections


def as_it_is(path: Path, ledger: str) -> apsw.Connection:
    """Open a file without migrating it."""
    # Not read-only: after a crash SQLite must be able to recover the WAL before anything can be read.
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
    keep_wal(connection)
    connection.execute("PRAGMA query_only = ON")
    return connection
