"""What `nexus doctor` checks in the engine's database, and the invariants of `--deep`."""

from collections.abc import Iterator

import apsw

from nexus.broker.invariants import check
from nexus.broker.queue import WORK
from nexus.cli.ledger_checks import Finding
from nexus.cli.place import format_size
from nexus.engine import records
from nexus.engine.errors import EngineError
from nexus.engine.settings import Settings
from nexus.errors import LedgerError
from nexus.home import Home
from nexus.ledgers import health as ledger_health
from nexus.ledgers.invariants import LISTED, Invariant, Violation
from nexus.ledgers.runtime import executions
from nexus.text import pluralize

_RESTORE = "Restore your newest backup with `nexus restore`."
_SERVE = "Start `nexus up`: it resumes them."
_SHOWN = 3
_SETTLE = "Run `nexus up`: it settles work left by a stopped process."
_TITLES: dict[Invariant, str] = {
    "requests": "Requests without a final state",
    "turns": "Turns that the memory writer missed",
    "dispatches": "Worker results that reached no run",
    "answers": "Answers that were not delivered",
    "usage": "Model calls without usage",
    "order": "Turns out of order",
    "effects": "Work done twice",
    "queue": "Stuck in the engine's queue",
    "invocations": "Async automations that never end",
}


def check_engine(home: Home, settings: Settings, *, thorough: bool) -> Iterator[Finding]:
    """Yield every finding about the engine."""
    try:
        found = records.examine(settings, thorough=thorough)
    except EngineError as error:
        yield Finding(check="engine", level="error", message=error.message, remedy=error.hint)
        return
    for line in found.damage:
        yield Finding(check="engine", level="error", message=f"engine.db: {line}", remedy=_RESTORE)
    if found.damage:
        return
    yield Finding(check="engine", level="ok", message=_summary(settings, found))
    if found.interrupted:
        message = f"{pluralize(found.interrupted, 'run')} lost their process"
        yield Finding(check="engine", level="warning", message=message, remedy=_SERVE)
    if found.dead_letters:
        message = f"{pluralize(found.dead_letters, 'run')} crashed the process each time"
        remedy = "List with `nexus engine dead-letters`; retry with `nexus engine retry ID`."
        yield Finding(check="engine", level="warning", message=message, remedy=remedy)
    yield from _compare_with_ledger(home, settings, found)


def _summary(settings: Settings, found: records.Health) -> str:
    waiting = f"{pluralize(len(found.unfinished), 'execution')} not ended"
    if (path := settings.file) is None:
        return f"engine: on Postgres, {waiting}"
    files = [file for file in (path, path.with_name(path.name + "-wal")) if file.is_file()]
    return f"engine: intact, {format_size(sum(file.stat().st_size for file in files))}, {waiting}"


def _compare_with_ledger(home: Home, settings: Settings, found: records.Health) -> Iterator[Finding]:
    """Find runs that only the engine or only the ledger has. Skip Postgres: it may hold other homes' runs."""
    if settings.file is None:
        return
    runs = [id_ for id_, work in found.unfinished.items() if work == WORK]
    try:
        with ledger_health.open_to_read(home.ledger("runtime"), "runtime") as connection:
            recorded = executions.find_known(connection, runs)
            unfinished = set(executions.list_unfinished(connection))
    except LedgerError:
        return  # the ledger's own check reports it
    orphaned = [id_ for id_ in runs if id_ not in recorded]
    if orphaned:
        yield Finding(
            check="engine",
            level="warning",
            message=f"{pluralize(len(orphaned), 'run')} in the engine missing from the runtime ledger",
            remedy="They end when the home is served. Or run `nexus doctor --fix`.",
            fix=lambda: records.remove(settings, orphaned),
        )
    waiting = unfinished - set(runs)
    if waiting:
        message = f"{pluralize(len(waiting), 'run')} recorded but not handed to the engine"
        yield Finding(check="engine", level="warning", message=message, remedy=_SERVE)


def check_invariants(home: Home, settings: Settings) -> Iterator[Finding]:
    """Yield a finding for each invariant that doesn't hold."""
    try:
        verdict = check(home, settings)
    except (LedgerError, EngineError, apsw.SQLError):
        return  # the checks of the ledgers and the engine report it
    for invariant in _TITLES:
        found = [each for each in verdict.violations if each.invariant == invariant]
        if found:
            yield _violation_finding(found, is_served=verdict.is_served)
    if not verdict.violations:
        message = "No work is lost, stuck, duplicated or out of order"
        yield Finding(check="invariants", level="ok", message=message)


def _violation_finding(found: list[Violation], *, is_served: bool) -> Finding:
    count = f"{LISTED} or more" if len(found) >= LISTED else str(len(found))
    shown = "; ".join(map(str, found[:_SHOWN]))
    more = "; …" if len(found) > _SHOWN else ""
    return Finding(
        check="invariants",
        # What a crash left open is settled at the next start; in a served home it should have been.
        level="error" if is_served else "warning",
        message=f"{_TITLES[found[0].invariant]} ({count}): {shown}{more}",
        remedy="Restart Nexus. If the problem remains, report it with this output." if is_served else _SETTLE,
    )
