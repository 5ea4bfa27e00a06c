"""The invariants of a home: nothing lost, stuck, doubled or out of order.

Reads only, in little memory, and works on a home that is stopped as well as on one that is served. What is
under way in a served home may look broken for a moment, so what is found there counts only if it stays.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from nexus import clock
from nexus.broker.queue import WORK
from nexus.engine import records
from nexus.engine.errors import FINAL
from nexus.engine.settings import Settings
from nexus.home import Home
from nexus.ledgers import invariants
from nexus.ledgers.invariants import LISTED, Violation

_INVOCATION = "automations.invocation"
# How long a message may take from coming in to its recorded run.
_LONGEST_INTAKE = timedelta(minutes=10)
_END_OF_TIME = "9999"
_TOGETHER = 500
_AGAIN_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was found in a home."""

    violations: list[Violation]
    is_served: bool
    """Whether a process is there to run what waits. If not, the next one settles part of this."""


def check(home: Home, settings: Settings, *, patience_s: float = 40.0, strict: bool = False) -> Verdict:
    """Every violation that stays, at most for so long as the patience in a served home.

    The patience must outlast the outbox, which hands over every 30 seconds what another process left.
    `strict` says that no message is coming in, so no request can be on its way to its run, and that the
    memory writer was on all along.
    """
    deadline = time.monotonic() + patience_s
    found, is_served = _look(home, settings, strict=strict)
    while found and is_served and time.monotonic() < deadline:
        time.sleep(_AGAIN_S)
        again, is_served = _look(home, settings, strict=strict)
        subjects = {(each.invariant, each.subject) for each in found}
        found = [each for each in again if (each.invariant, each.subject) in subjects]
    return Verdict(violations=found, is_served=is_served)


def _look(home: Home, settings: Settings, *, strict: bool) -> tuple[list[Violation], bool]:
    with records.look(settings) as engine, invariants.look(home) as ledgers:
        is_served = engine is not None and engine.is_served
        # In a home that nobody serves, nothing is coming in.
        young = is_served and not strict
        before = clock.timestamp(clock.now() - _LONGEST_INTAKE) if young else _END_OF_TIME
        found = list(ledgers.violations(before=before, strict=strict))
        if engine is not None:
            found += islice(_not_in_engine(ledgers, engine), LISTED)
            found += islice(_not_in_ledgers(ledgers, engine), LISTED)
            found += _standing_still(engine) if is_served else ()
        return found, is_served


def _not_in_engine(ledgers: invariants.Look, engine: records.Look) -> Iterator[Violation]:
    """What the ledgers wait for and the engine will never run."""
    for page in ledgers.list_unfinished():
        states = engine.states([each.id for each in page])
        for each in page:
            state = states.get(each.id)
            problem = (
                f"is {each.status}, but was never handed to the engine"
                if state is None
                else f"is {each.status}, but ended in the engine"
                if state in FINAL
                else None
            )
            if problem:
                invariant = "invocations" if each.kind == "invocations" else "queue"
                yield Violation(invariant=invariant, subject=each.id, problem=problem)


def _not_in_ledgers(ledgers: invariants.Look, engine: records.Look) -> Iterator[Violation]:
    """What waits in the engine, and belongs to nothing or to nobody.

    One that was cancelled while it waited may still be there: it ends when its turn comes.
    """
    waiting = engine.waiting()
    while page := list(islice(waiting, _TOGETHER)):
        recorded = ledgers.find_statuses([each.id for each in page if each.work in {WORK, _INVOCATION}])
        for each in page:
            if each.work in {WORK, _INVOCATION} and each.id not in recorded:
                problem = f"is {each.state} in the engine, but not recorded in the home"
            elif each.state == "running" and not each.is_owned:
                problem = "is running, but no process works on it"
            else:
                continue
            yield Violation(invariant="queue", subject=each.id, problem=problem)


def _standing_still(engine: records.Look) -> Iterator[Violation]:
    """Lanes in which work waits and none is running."""
    queued: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for each in engine.waiting():
        (running if each.state == "running" else queued)[each.lane] += each.state != "delayed"
    for lane, count in queued.items():
        if count and not running[lane]:
            yield Violation(
                invariant="queue", subject=lane, problem=f"has {count} executions waiting and none running"
            )
