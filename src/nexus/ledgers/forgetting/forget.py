"""Forgetting, from the plan to the last byte. A crash at any moment loses nothing of the intent.

No transaction spans two databases. The plan is written down first, in the runtime ledger; each ledger
then follows it and is written anew, copies elsewhere are replaced, and only then does the plan go. `resume`
finishes what was begun.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, ParamSpec

from nexus import ids
from nexus.errors import CareError, LedgerBusyError, LedgerFullError
from nexus.home import Home
from nexus.ledgers.database import Work
from nexus.ledgers.events import imports
from nexus.ledgers.forgetting import planning, removal
from nexus.ledgers.forgetting.planning import Beside, Counts, Entry, Nothing, Plan
from nexus.ledgers.forgetting.sets import Sets, attached
from nexus.ledgers.forgetting.targets import Target
from nexus.ledgers.ledgers import Ledgers
from nexus.ledgers.memory import seals
from nexus.ledgers.runtime import executions

# What was derived goes first; the runtime ledger, which holds the plan, last.
_ORDER: Final = ("memory", "embeddings", "agents", "events", "identity", "runtime")
# Other processes may write about the target meanwhile: it is looked for again this often at most.
_LATER_PASSES: Final = 3

P = ParamSpec("P")
Tell = Callable[[str], None]
_NOTHING: Final = Nothing()


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What was forgotten, how long it took, and where the target is still named."""

    forget_id: str
    target: Target
    counts: Counts
    seconds: dict[str, float]
    # Rows that name the target and stay, by `ledger.table.column`.
    kept: dict[str, int] = field(default_factory=dict[str, int])
    # Files of the home that name it, relative to the home.
    named_in: list[Path] = field(default_factory=list[Path])


async def find(ledgers: Ledgers, resolve: Work[P, Target], /, *args: P.args, **kwargs: P.kwargs) -> Target:
    """Look a target up with one of the functions of `targets`."""
    await _bring_up_to_date(ledgers)

    def look_up() -> Target:
        with closing(attached(ledgers.home)) as connection:
            return resolve(connection, *args, **kwargs)

    return await asyncio.to_thread(look_up)


async def preview(ledgers: Ledgers, target: Target) -> Plan:
    """What would go. Nothing is changed."""
    async with _planned(ledgers, target) as (_, plan):
        return plan


async def forget(
    ledgers: Ledgers,
    target: Target,
    *,
    actor: str,
    tell: Tell = lambda _: None,
    beside: Beside = _NOTHING,
) -> Report | None:
    """Remove a target from every ledger for good. None where there is nothing to remove."""
    began = time.perf_counter()
    tell("Searching")
    async with _planned(ledgers, target) as (sets, plan):
        if plan.is_empty:
            return None
        entry = Entry(forget_id=ids.new("fgt"), target=target, counts=Counts().and_those_of(plan))
        removal.require_space(ledgers.home, _to_scrub(entry))
        await ledgers.runtime.write(entry.begin, sets=sets, actor=actor)
    planned = time.perf_counter()
    report = await _carry_out(ledgers, entry, tell, beside)
    named_in = await asyncio.to_thread(removal.files, ledgers.home, target.names)
    seconds = {"plan": planned - began, **report.seconds}
    return replace(report, seconds=seconds, kept=plan.kept, named_in=named_in)


async def unfinished(ledgers: Ledgers) -> list[Entry]:
    """Every forget that was begun and is not complete."""
    return await ledgers.runtime.read(planning.unfinished)


async def resume(ledgers: Ledgers, *, tell: Tell = lambda _: None, beside: Beside = _NOTHING) -> list[Report]:
    """Finish every forget that a crash or a busy database interrupted."""
    await _bring_up_to_date(ledgers)
    return [await _carry_out(ledgers, entry, tell, beside) for entry in await unfinished(ledgers)]


async def _carry_out(ledgers: Ledgers, entry: Entry, tell: Tell, beside: Beside) -> Report:
    began = time.perf_counter()
    try:
        async with beside.elsewhere():
            entry = await _remove(ledgers, entry, tell, beside)
            removed = time.perf_counter()
            await ledgers.events.write(entry.publish)
            await _drop_streams(ledgers)
            await _scrub(ledgers, entry, tell, beside)
        await ledgers.runtime.write(entry.complete)
    except (LedgerBusyError, LedgerFullError) as error:
        raise CareError(
            f"The {entry.target.kind} {entry.target.value} was not deleted completely: {error.message}",
            hint=f"{error.hint} Then run `nexus forget resume`.",
        ) from error
    seconds = {"remove": removed - began, "scrub": time.perf_counter() - removed}
    return Report(forget_id=entry.forget_id, target=entry.target, counts=entry.counts, seconds=seconds)


async def _remove(ledgers: Ledgers, entry: Entry, tell: Tell, beside: Beside) -> Entry:
    await _follow_plan(ledgers, entry, tell, beside)
    for _ in range(_LATER_PASSES):
        tell("Checking for new data")
        async with _planned(ledgers, entry.target, entry.forget_id) as (sets, plan):
            if plan.is_empty:
                break
            entry = replace(entry, counts=entry.counts.and_those_of(plan))
            await ledgers.runtime.write(entry.extend, sets=sets)
        await _follow_plan(ledgers, entry, tell, beside)
    return entry


async def _follow_plan(ledgers: Ledgers, entry: Entry, tell: Tell, beside: Beside) -> None:
    # First, because it stops runs that would go on to write.
    tell("Stopping affected runs")
    await beside.remove(await ledgers.runtime.read(entry.executions))
    kinds = await ledgers.runtime.read(entry.kinds)
    # Before seals are lifted: else a fact that was changed before would be sealed as it is without a word.
    broken = await ledgers.memory.read(lambda connection: sum(1 for _ in seals.breaks(connection)))
    await ledgers.memory.write(seals.note_forget, forget_id=entry.forget_id, broken=broken)
    for ledger in _ORDER:
        tell(f"Removing from {ledger}")
        await removal.remove(ledgers[ledger], ledgers.home, entry.forget_id, kinds)
    while await ledgers.memory.write(seals.seal):
        pass
    files = await ledgers.runtime.read(entry.files)
    await asyncio.to_thread(_delete_files, ledgers.home, files)
    if entry.target.kind == "import":
        unrecorded = imports.Unrecorded(ledgers.home, entry.target.value)
        paths = await asyncio.to_thread(unrecorded.paths)
        left = await ledgers.events.read(imports.unreferenced, paths=paths)
        await asyncio.to_thread(_delete_files, ledgers.home, left)
        await asyncio.to_thread(unrecorded.settle)


async def _scrub(ledgers: Ledgers, entry: Entry, tell: Tell, beside: Beside) -> None:
    left = [await beside.scrub()]
    for ledger in _to_scrub(entry):
        tell(f"Rewriting {ledger}")
        if ledger == "runtime":
            await ledgers.runtime.write(entry.drop_items)
        left.append(await removal.scrub(ledgers[ledger]))
    if any(left):
        raise CareError(
            f"Everything was removed, but its bytes may still stand in {', '.join(filter(None, left))}",
            hint="Stop what holds it (`nexus status` shows who it is), then run `nexus forget resume`.",
        )


def _to_scrub(entry: Entry) -> list[str]:
    """All ledgers: any may hold the words on pages that were freed before. Vectors hold none."""
    touched = {path.partition(".")[0] for path in entry.counts.removed}
    return [ledger for ledger in _ORDER if ledger != "embeddings" or ledger in touched]


def _delete_files(home: Home, paths: list[str]) -> None:
    for path in paths:
        file = (home.root / path).resolve()
        # A path is what a channel made of somebody's file name: it may not lead out, nor to our own files.
        ours = {home.root.resolve(), home.data.resolve()}
        if file.is_relative_to(home.root.resolve()) and file.parent not in ours:
            with contextlib.suppress(FileNotFoundError):
                file.unlink()


async def _drop_streams(ledgers: Ledgers) -> None:
    """Remove what runs said while they ran, but for those under way that stay."""
    under_way = set(await ledgers.runtime.read(executions.unfinished))

    def remove() -> None:
        for path in (ledgers.home.run / "streams").glob("*.jsonl"):
            if path.stem not in under_way:
                path.unlink(missing_ok=True)

    await asyncio.to_thread(remove)


@asynccontextmanager
async def _planned(
    ledgers: Ledgers, target: Target, forget_id: str | None = None
) -> AsyncGenerator[tuple[Sets, Plan]]:
    await _bring_up_to_date(ledgers)
    connection = await asyncio.to_thread(attached, ledgers.home)
    try:
        sets = Sets(connection)
        yield sets, await asyncio.to_thread(planning.make, sets, target, forget_id)
    finally:
        await asyncio.to_thread(connection.close)


async def _bring_up_to_date(ledgers: Ledgers) -> None:
    """The plan reads all ledgers in one connection, which knows today's schema only."""
    for database in ledgers:
        await database.read(lambda _: None)
