"""What `nexus doctor` checks in the ledgers, and a finding of any check."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from nexus import clock, config, ledgers
from nexus.cli.place import size
from nexus.errors import LedgerError
from nexus.home import LEDGERS, Home, HomeLock
from nexus.ledgers import health, migrate, sql
from nexus.ledgers.connection import connect

Level = Literal["ok", "warning", "error"]
_RESTORE = "Restore your newest backup with `nexus restore`."
_DAMAGED = (
    f"{_RESTORE} Without one, copy the home aside before anything else writes to it; `sqlite3 FILE .recover` "
    "reads what is left of a database."
)
# What made it can be asked again: vectors come from the other ledgers.
_REBUILT = "embeddings"
_TOLERATED = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One result of a check. `fix` mends it, where that can be done without a decision."""

    check: str
    level: Level
    message: str
    remedy: str = ""
    fix: Callable[[], object] | None = None


def examine_ledgers(home: Home, *, thorough: bool) -> Iterator[Finding]:
    """Every finding about the ledgers."""
    for name in LEDGERS:
        path = home.ledger(name)
        problems = list(health.inspect(path, name, thorough=thorough))
        yield from (_problem(home, problem) for problem in problems)
        if not problems:
            schema = migrate.latest(name)
            yield _finding("ok", f"{name}: schema {schema}, intact, {size(path.stat().st_size)}")
    yield from _clock(home)


def _problem(home: Home, problem: health.Problem) -> Finding:
    name, path, told = problem.ledger, home.ledger(problem.ledger), problem.message
    match problem.kind:
        case "missing" if name == _REBUILT:
            remedy = "Run `nexus up` or `nexus doctor --fix` to rebuild it."
            return _finding("warning", told, remedy, lambda: ledgers.create(home))
        case "missing":
            remedy = f"{_RESTORE} Without a backup, `nexus doctor --fix` creates an empty one."
            return _finding("error", told, remedy, lambda: ledgers.create(home))
        case "damaged" if name == _REBUILT:
            remedy = "Run `nexus doctor --fix` to move the file away and rebuild the embeddings."
            return _finding("error", told, remedy, lambda: _rebuild(home, name))
        case "damaged":
            return _finding("error", told, _DAMAGED)
        case "stale-index":
            remedy = "Run `nexus doctor --fix` to rebuild the indexes."
            return _finding("error", told, remedy, lambda: health.reindex(path))
        case "unreadable":
            return _finding("error", told, problem.hint)
        case "old-schema":
            remedy = "Run `nexus doctor --fix` to do it now."
            return _finding("warning", told, remedy, lambda: _migrate(home, name))
        case "drift":
            remedy = "Run `nexus doctor --fix` to restore missing indexes, triggers and views."
            return _finding("error", told, remedy, lambda: health.repair_drift(path, name))
        case "large-wal":
            return _finding("warning", told, "Stop the process with the open query.")
        case "broken-seal":
            remedy = (
                "Compare with a backup (`nexus restore` into another folder). If the facts are right as they "
                "are, run `nexus memory seals --accept`."
            )
            return _finding("error", told, remedy)
        case "unfinished-forget":
            return _finding("warning", told, "Run `nexus forget resume`.")


def _finding(
    level: Level, message: str, remedy: str = "", fix: Callable[[], object] | None = None
) -> Finding:
    return Finding(check="ledgers", level=level, message=message, remedy=remedy, fix=fix)


def _migrate(home: Home, name: str) -> None:
    connect(home.ledger(name), name, config.LedgersConfig(), writes=True).close()


def _rebuild(home: Home, name: str) -> None:
    with HomeLock(home, "alone"):
        if not any(each.kind == "damaged" for each in health.inspect(home.ledger(name), name)):
            return  # done already: one damage may have several findings
        stamp = clock.now().strftime("%Y%m%dT%H%M%S")
        for file in home.data.glob(f"{name}.db*"):
            file.rename(file.with_name(f"damaged-{stamp}-{file.name}"))
        ledgers.create(home)


def _clock(home: Home) -> Iterator[Finding]:
    """A clock that was set back: what is recorded now would stand before what was recorded earlier."""
    newest = _newest_event(home)
    if newest is None or clock.parse(newest) - clock.now() < _TOLERATED:
        return
    now = clock.timestamp(clock.now())
    yield Finding(
        check="clock",
        level="warning",
        message=f"The clock says {now}, but the newest event is from {newest}",
        remedy="Set the clock, for example with `timedatectl set-ntp true`.",
    )


def _newest_event(home: Home) -> str | None:
    try:
        with health.reading(home.ledger("events"), "events") as connection:
            return connection.execute(sql.queries("events")["newest_created_at"]).get
    except LedgerError:
        return None  # reported above
