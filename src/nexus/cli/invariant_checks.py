"""What `nexus doctor --deep` finds when it checks the invariants of a home."""

from collections.abc import Iterator

import apsw

from nexus.broker.invariants import check
from nexus.cli.ledger_checks import Finding
from nexus.engine.errors import EngineError
from nexus.engine.settings import Settings
from nexus.errors import LedgerError
from nexus.home import Home
from nexus.ledgers.invariants import LISTED, Invariant, Violation

_SHOWN = 3
_SERVE = "Run `nexus up`: it settles work left by a stopped process."
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


def examine(home: Home, settings: Settings) -> Iterator[Finding]:
    """One finding for each invariant that does not hold."""
    try:
        verdict = check(home, settings)
    except (LedgerError, EngineError, apsw.SQLError):
        return  # the checks of the ledgers and the engine report it
    for invariant in _TITLES:
        found = [each for each in verdict.violations if each.invariant == invariant]
        if found:
            yield _finding(found, is_served=verdict.is_served)
    if not verdict.violations:
        message = "No work is lost, stuck, duplicated or out of order"
        yield Finding(check="invariants", level="ok", message=message)


def _finding(found: list[Violation], *, is_served: bool) -> Finding:
    count = f"{LISTED} or more" if len(found) >= LISTED else str(len(found))
    shown = "; ".join(map(str, found[:_SHOWN]))
    more = "; …" if len(found) > _SHOWN else ""
    return Finding(
        check="invariants",
        # What a crash left open is settled at the next start; in a served home it should have been.
        level="error" if is_served else "warning",
        message=f"{_TITLES[found[0].invariant]} ({count}): {shown}{more}",
        remedy="Restart Nexus. If the problem remains, report it with this output." if is_served else _SERVE,
    )
