"""What can be wrong with the engine's database, told without changing it."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

from nexus.engine import prepare, records, store
from nexus.engine.database import Database, translate_errors
from nexus.engine.errors import State
from nexus.engine.owner import find_owner
from nexus.engine.settings import Settings

# Up to here the thorough check is quick enough to be run always.
_THOROUGH_UP_TO_BYTES = 256 * 1024 * 1024
_TOGETHER = 500


@dataclass(frozen=True, kw_only=True)
class Health:
    """The state of the engine's database."""

    damage: list[str]
    """What SQLite's own check found; nothing where all is well."""
    unfinished: dict[str, str]
    """The work of each execution that has not ended, by id."""
    interrupted: int
    """How many of these were running in a process that is gone."""
    dead_letters: int


def examine(settings: Settings, *, thorough: bool = False) -> Health:
    """Look at the database. Raises where it cannot be opened at all."""
    with translate_errors(settings):
        database = Database(settings)
        try:
            damage = _damage(database, thorough=thorough)
            if damage or not prepare.is_prepared(database):
                return Health(damage=damage, unfinished={}, interrupted=0, dead_letters=0)
            waiting = list(Look(database).waiting())
            return Health(
                damage=[],
                unfinished={each.id: each.work for each in waiting},
                interrupted=sum(each.state == "running" and not each.is_owned for each in waiting),
                dead_letters=records.count_dead_letters(database),
            )
        finally:
            database.close()


class Waiting(NamedTuple):
    """An execution that has not ended."""

    id: str
    work: str
    lane: str
    state: Literal["queued", "delayed", "running"]
    is_owned: bool
    """Whether there is a process that runs it."""


class Look:
    """A look into the database that reads in pages, however much there is."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._prefix = database.settings.prefix

    @property
    def is_served(self) -> bool:
        """Whether a process is there to run what waits."""
        return find_owner(self._database.settings) is not None

    def states(self, execution_ids: Sequence[str]) -> dict[str, State]:
        """The states of those of some executions that are recorded."""
        found = records.states(self._database, [self._prefix + id_ for id_ in execution_ids])
        return {id_.removeprefix(self._prefix): state for id_, state in found.items()}

    def waiting(self) -> Iterator[Waiting]:
        """Every execution that has not ended, by id."""
        after, is_owned = self._prefix, self.is_served
        while rows := store.find_unfinished(self._database, after, self._prefix, _TOGETHER):
            for row in rows:
                own = row.id.removeprefix(self._prefix)
                yield Waiting(own, str(row.work), row.lane or "", row.state, is_owned)
            after = rows[-1].id


@contextmanager
def look(settings: Settings) -> Generator[Look | None]:
    """Look into the database without changing it. None: no work was ever given to it."""
    if not settings.exists:
        yield None
        return
    with translate_errors(settings):
        database = Database(settings)
        try:
            yield Look(database) if prepare.is_prepared(database) else None
        finally:
            database.close()


def remove(settings: Settings, execution_ids: list[str]) -> None:
    """Remove executions that belong to nothing."""
    stored = [settings.prefix + id_ for id_ in execution_ids]
    with translate_errors(settings):
        database = Database(settings)
        try:
            with database.write() as connection:
                store.delete(database, connection, stored)
        finally:
            database.close()


def _damage(database: Database, *, thorough: bool) -> list[str]:
    if database.path is None:
        return []
    small = database.path.stat().st_size <= _THOROUGH_UP_TO_BYTES
    pragma = "integrity_check" if thorough or small else "quick_check"
    with database.read() as connection:
        lines = [str(row[0]) for row in connection.exec_driver_sql(f"PRAGMA {pragma}(5)")]
    return [line for line in lines if line != "ok"]
