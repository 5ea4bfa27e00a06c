"""What `nexus doctor` checks in the ledgers, and the type of any check's finding."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Literal

from nexus import clock, config, ledgers
from nexus.cli.backup import open_engine
from nexus.cli.place import format_size
from nexus.errors import LedgerError
from nexus.home import LEDGERS, Home
from nexus.ledgers import backup, health, migrate, sql
from nexus.ledgers.connection import connect
from nexus.ledgers.failures import REBUILT

Level = Literal["ok", "off", "warning", "error"]
_RECOVER = (
    "Copy the home aside before anything else writes to it; `sqlite3 FILE .recover` reads what is left of a "
    "database."
)
_LOST = {
    "events": "all messages and answers are lost",
    "agents": "the transcripts of all sessions are lost",
    "identity": "everybody the home knows, and who may use it, is lost",
    "memory": "everything remembered is lost",
    "runtime": "automations, pending work, usage and traces are lost",
}
"""What creating a ledger empty costs."""
_TOLERATED = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One result of a check. `fix` repairs it if that needs no decision; `fixed` says how it was repaired."""

    check: str
    level: Level
    message: str
    remedy: str = ""
    fix: Callable[[], object] | None = None
    fixed: str = ""


def check_ledgers(home: Home, *, thorough: bool, creates_empty: bool = False) -> Iterator[Finding]:
    """Yield every finding about the ledgers. One without a backup is replaced only with `creates_empty`."""
    for name in LEDGERS:
        path = home.ledger(name)
        problems = list(health.inspect(path, name, thorough=thorough))
        yield from (_problem_finding(home, problem, creates_empty=creates_empty) for problem in problems)
        if not problems:
            schema = migrate.latest(name)
            yield _ledger_finding(
                "ok", f"{name}: schema {schema}, intact, {format_size(path.stat().st_size)}"
            )
    yield from _check_clock(home)


def _problem_finding(home: Home, problem: health.Problem, *, creates_empty: bool) -> Finding:
    name, path, message = problem.ledger, home.ledger(problem.ledger), problem.message
    match problem.kind:
        case "missing" if name == REBUILT:
            remedy = "Run `nexus up` or `nexus doctor --fix` to rebuild it."
            return _ledger_finding("warning", message, remedy, lambda: ledgers.create(home))
        case "damaged" if name == REBUILT:
            remedy = "Run `nexus up` or `nexus doctor --fix` to set the file aside and rebuild it."
            return _ledger_finding(
                "warning", message, remedy, lambda: _replace_ledger(home, name, backup.rebuild)
            )
        case "missing" | "damaged":
            return _loss_finding(home, problem, creates_empty=creates_empty)
        case "dangling":
            return _ledger_finding("error", message, _RECOVER)
        case "stale-index":
            remedy = "Run `nexus doctor --fix` to rebuild the indexes."
            return _ledger_finding("error", message, remedy, lambda: health.reindex(path))
        case "unreadable":
            return _ledger_finding("error", message, problem.hint)
        case "old-schema":
            remedy = "Run `nexus doctor --fix` to do it now."
            return _ledger_finding("warning", message, remedy, lambda: _migrate_ledger(home, name))
        case "drift":
            remedy = "Run `nexus doctor --fix` to restore missing indexes, triggers and views."
            return _ledger_finding("error", message, remedy, lambda: health.repair_drift(path, name))
        case "large-wal":
            return _ledger_finding("warning", message, "Stop the process with the open query.")
        case "broken-seal":
            remedy = (
                "Compare with a backup (`nexus restore` into another folder). If the facts are right as they "
                "are, run `nexus memory seals --accept`."
            )
            return _ledger_finding("error", message, remedy)
        case "unfinished-forget":
            return _ledger_finding("warning", message, "Run `nexus forget resume`.")


def _ledger_finding(
    level: Level, message: str, remedy: str = "", fix: Callable[[], object] | None = None
) -> Finding:
    return Finding(check="ledgers", level=level, message=message, remedy=remedy, fix=fix)


def _migrate_ledger(home: Home, name: str) -> None:
    connect(home.ledger(name), name, config.LedgersConfig(), writes=True).close()


def _loss_finding(home: Home, problem: health.Problem, *, creates_empty: bool) -> Finding:
    name, found = problem.ledger, backup.newest(home)
    kept = "" if problem.kind == "missing" else " The damaged file is kept in data/."
    if found is not None:
        place = f"{found.folder}, from {found.manifest.created_at}"
        remedy = f"Newest backup: {place}. Run `nexus doctor --fix` to restore this ledger from it.{kept}"
        fix = partial(backup.restore_ledger, backup=found, open_beside=open_engine)
        fixed = f"restored from {place}.{kept}"
    else:
        remedy = (
            "No backup is known here. If you have one, run `nexus restore --replace FOLDER`. Otherwise "
            f"`nexus doctor --fix --create-empty` creates an empty ledger: {_LOST[name]}."
        )
        if problem.kind == "damaged":
            remedy = f"{remedy} {_RECOVER}"
        fix = backup.create_empty if creates_empty else None
        fixed = f"created empty: {_LOST[name]}.{kept}"
    return Finding(
        check="ledgers",
        level="error",
        message=problem.message,
        remedy=remedy,
        fix=fix and partial(_replace_ledger, home, name, fix),
        fixed=fixed,
    )


def _replace_ledger(home: Home, name: str, replace: Callable[[Home, str], None]) -> None:
    if any(each.kind in {"missing", "damaged"} for each in health.inspect(home.ledger(name), name)):
        replace(home, name)  # otherwise it is done already: one damage may have several findings


def _check_clock(home: Home) -> Iterator[Finding]:
    """Find a clock that was set back: new events would sort before earlier ones."""
    newest = _load_newest_event(home)
    if newest is None or clock.parse(newest) - clock.now() < _TOLERATED:
        return
    now = clock.timestamp(clock.now())
    yield Finding(
        check="clock",
        level="warning",
        message=f"The clock says {now}, but the newest event is from {newest}",
        remedy="Set the clock, for example with `timedatectl set-ntp true`.",
    )


def _load_newest_event(home: Home) -> str | None:
    try:
        with health.open_to_read(home.ledger("events"), "events") as connection:
            return connection.execute(sql.queries("events")["newest_created_at"]).get
    except LedgerError:
        return None  # reported above
