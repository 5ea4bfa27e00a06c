"""Who may write to a home that several hosts may serve.

Each owner has an epoch, higher than those before. It is stored in all six ledgers, so it goes along with
their copies, and a transaction commits only under it.
"""

from contextlib import closing
from pathlib import Path
from typing import Final, Protocol

import apsw

from nexus.errors import FencedError
from nexus.home import LEDGERS, Home
from nexus.ledgers import sql
from nexus.ledgers.failures import translate_errors
from nexus.ledgers.staging import as_it_is

_STATEMENTS: Final = sql.load_statements(Path(__file__).with_suffix(".sql"))


class Fence(Protocol):
    """The right to write to a home."""

    @property
    def epoch(self) -> int: ...

    def check(self) -> None:
        """Raise FencedError once the right is lost. Called on any thread, before each commit."""
        ...


def hold(connection: apsw.Connection, fence: Fence) -> None:
    """Raise FencedError unless a transaction that is open may be committed."""
    stored = connection.execute(_STATEMENTS["epoch"]).get
    if stored != fence.epoch:
        raise FencedError(
            f"The home is in epoch {stored}, and this host had it in {fence.epoch}",
            hint="Another host owns it.",
        )
    fence.check()


def stamp(home: Home, epoch: int) -> None:
    """Begin an epoch in all ledgers. Waits for the disk."""
    for name in LEDGERS:
        with (
            translate_errors(name, home.ledger(name)),
            closing(as_it_is(home.ledger(name), name)) as connection,
        ):
            connection.execute("PRAGMA query_only = OFF")
            with connection:
                connection.execute(_STATEMENTS["create"])
                connection.execute(_STATEMENTS["raise"], {"epoch": epoch})


def read_epoch(home: Home) -> int | None:
    """Return the epoch that all ledgers of a home have begun; None where one lacks it. Waits for the disk."""
    found: list[int] = []
    for name in LEDGERS:
        if not home.ledger(name).is_file():
            return None
        with closing(as_it_is(home.ledger(name), name)) as connection:
            try:
                epoch = connection.execute(_STATEMENTS["epoch"]).get
            except apsw.SQLError:  # no such table
                epoch = None
        if not isinstance(epoch, int):
            return None
        found.append(epoch)
    return min(found)
