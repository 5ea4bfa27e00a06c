"""Executions as people and programs read them: what waits, what runs where, what ended and how.

A dead letter is a run that crashed its process each time, and waits for a person.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from nexus.engine import prepare, serializer, store
from nexus.engine.database import Database, moment, translate_errors
from nexus.engine.errors import FINAL, EngineStateError, State, UnknownExecutionError
from nexus.engine.owner import find_owner
from nexus.engine.settings import Settings

GAVE_UP = "The process crashed each time it ran this"
_TOGETHER = 500


@dataclass(frozen=True, kw_only=True)
class WorkRecord:
    """One execution, as it stands."""

    id: str
    work: str
    lane: str
    key: str
    state: State
    executor_id: str | None
    version: str | None
    starts: int
    """How often it was started; more than once after a takeover."""
    enqueued_at: str
    started_at: str | None
    ended_at: str | None
    result: Any
    error: str | None
    trace: str | None


def get(database: Database, execution_id: str) -> WorkRecord | None:
    """One execution, whole."""
    row = store.get(database, execution_id)
    return None if row is None else _execution(row)


def states(database: Database, execution_ids: Sequence[str]) -> dict[str, State]:
    """The states of those of some executions that are recorded. A failure may be a time-out: see `get`."""
    found: dict[str, State] = {}
    for first in range(0, len(execution_ids), _TOGETHER):
        found |= store.states(database, execution_ids[first : first + _TOGETHER])
    return found


def recent(
    database: Database,
    *,
    state: State | None = None,
    lane: str | None = None,
    key: str | None = None,
    limit: int = 50,
) -> list[WorkRecord]:
    """Executions, the newest first."""
    return [_execution(row) for row in store.recent(database, state=state, lane=lane, key=key, limit=limit)]


def steps(database: Database, execution_id: str) -> list[dict[str, Any]]:
    """The recorded steps of one execution, in order."""
    return [
        {
            "number": row.number,
            "name": row.name,
            "failed": bool(row.failed),
            "started_at": _moment(row.started_ms),
            "ended_at": _moment(row.ended_ms),
        }
        for row in store.steps(database, execution_id)
    ]


def queues(database: Database) -> list[dict[str, Any]]:
    """For each lane: what waits, what runs, over how many keys, and since when the oldest waits."""
    lanes: dict[str, dict[str, Any]] = {}
    for row in store.queues(database):
        empty = {"queued": 0, "waiting_keys": 0, "delayed": 0, "running": 0, "oldest_waits_since": None}
        entry = lanes.setdefault(row.lane, {"lane": row.lane, **empty})
        entry[row.state] = row[2]
        if row.state == "queued":
            entry["waiting_keys"] = row[3]
            entry["oldest_waits_since"] = _moment(row.oldest_ms)
    return [lanes[name] for name in sorted(lanes)]


def _execution(row: store.Row) -> WorkRecord:
    outcome: dict[str, Any] = serializer.loads(row.output) if row.output else {}
    state, end = row.state, _end(row.error)
    if end is not None:
        state = end.kind
        outcome = {"started_ms": end.started_ms, "ended_ms": end.ended_ms}
    gave_up = GAVE_UP if row.was_given_up else None
    return WorkRecord(
        id=row.id,
        work=row.work or "",
        lane=row.lane or "",
        key=row.key or "",
        state=state,
        executor_id=row.executor_id,
        version=row.version,
        starts=row.starts or 0,
        enqueued_at=_moment(row.created_ms) or "",
        started_at=_moment(outcome.get("started_ms") or row.started_ms),
        ended_at=_moment(outcome.get("ended_ms") or row.ended_ms),
        result=outcome.get("value"),
        error=gave_up if end is None else f"{end.type}: {end.message}".removeprefix(": "),
        trace=None if end is None else end.trace or None,
    )


def _end(error: str | None) -> serializer.End | None:
    if not error:
        return None
    loaded = serializer.loads(error)
    if isinstance(loaded, serializer.Ended):
        return loaded.end
    return serializer.End(kind="failed", type=type(loaded).__qualname__, message=str(loaded))


def _moment(milliseconds: int | None) -> str | None:
    return moment(milliseconds) if milliseconds else None


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A run that was given up."""

    execution_id: str
    work: str
    key: str
    attempts: int
    error: str
    created_at: str
    died_at: str


def list_dead_letters(database: Database, limit: int = 50) -> list[DeadLetter]:
    """The newest first."""
    return [
        DeadLetter(
            execution_id=row.execution_id,
            work=row.work,
            key=row.key,
            attempts=row.starts,
            error=GAVE_UP,
            created_at=moment(row.created_at),
            died_at=moment(row.updated_at),
        )
        for row in store.given_up(database, limit)
    ]


def count_dead_letters(database: Database) -> int:
    return store.count_given_up(database)


def close_dead_letter(database: Database, execution_id: str) -> bool:
    """Take a run that crashed its process off the list: it was dealt with. False: it is not on it."""
    return store.close_given_up(database, execution_id)


def retry(database: Database, execution_id: str) -> str:
    """Run an execution that has ended once more, as a new one at the end of its queue; returns its id."""
    execution = get(database, execution_id)
    if execution is None:
        raise UnknownExecutionError(
            f"Unknown execution {execution_id}", hint="List them with `nexus engine executions`."
        )
    if execution.state not in FINAL:
        raise EngineStateError(
            f"{execution_id} is {execution.state}; only finished runs can be retried",
            hint=f"Cancel it first with `nexus engine cancel {execution_id}`.",
        )
    with database.write() as connection:
        work, payload, options = store.load_input(database, connection, execution_id)
        new = store.new_execution(
            work,
            payload,
            key=options["key"],
            lane=options["lane"],
            version=execution.version or "1",
            timeout_ms=options["timeout_ms"],
        )
        store.insert(database, connection, [new])
        database.notify(connection)
    store.close_given_up(database, execution_id)
    return new.id


# Up to here the thorough check is quick enough to be run always.
_THOROUGH_UP_TO_BYTES = 256 * 1024 * 1024


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
                dead_letters=count_dead_letters(database),
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
        found = states(self._database, [self._prefix + id_ for id_ in execution_ids])
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
