"""Carrying a plan out in one ledger. Every step may be repeated: what is gone already stays gone."""

import asyncio
import contextlib
import os
import re
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, ParamSpec, cast

import apsw

from nexus import ids
from nexus.errors import CareError, LedgerBusyError, LedgerFullError
from nexus.home import LEDGERS, Home
from nexus.ledgers import guards, staging
from nexus.ledgers.attach import statement
from nexus.ledgers.database import Database, Work
from nexus.ledgers.events import imports
from nexus.ledgers.forgetting import planning, recording, tables
from nexus.ledgers.forgetting.inspection import Item
from nexus.ledgers.forgetting.planning import Beside, Counts, Entry, Nothing, Plan
from nexus.ledgers.forgetting.receipts import Receipt
from nexus.ledgers.forgetting.recording import Sought
from nexus.ledgers.forgetting.rules import Table
from nexus.ledgers.forgetting.sets import (
    Sets,
    attach_all,
    key_condition,
    list_removal_conditions,
    referring_condition,
)
from nexus.ledgers.forgetting.targets import Names, Target, fold
from nexus.ledgers.ledgers import Ledgers
from nexus.ledgers.memory import seals
from nexus.ledgers.runtime import executions
from nexus.ledgers.tables import full_text

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
    receipt: Receipt
    # Where the receipt is.
    file: Path


async def find(ledgers: Ledgers, resolve: Work[P, Target], /, *args: P.args, **kwargs: P.kwargs) -> Target:
    """Look a target up with one of the functions of `targets`."""
    await _bring_up_to_date(ledgers)

    def look_up() -> Target:
        with closing(attach_all(ledgers.home)) as connection:
            return resolve(connection, *args, **kwargs)

    return await asyncio.to_thread(look_up)


async def preview(ledgers: Ledgers, target: Target) -> Plan:
    """Return what would go. Nothing is changed."""
    async with _plan(ledgers, target) as (_, plan):
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
    async with _plan(ledgers, target) as (sets, plan):
        if plan.is_empty:
            return None
        entry = Entry(forget_id=ids.new("fgt"), target=target, counts=Counts().and_those_of(plan))
        require_space(ledgers.home, _to_scrub(entry))
        sought = Sought()
        await asyncio.to_thread(sought.gather, sets)
        await ledgers.runtime.write(entry.begin, sets=sets, actor=actor)
    planned = time.perf_counter()
    report = await _carry_out(ledgers, entry, tell, beside, sought)
    named_in = await asyncio.to_thread(files_naming, ledgers.home, target.names)
    seconds = {"plan": planned - began, **report.seconds}
    return replace(report, seconds=seconds, kept=plan.kept, named_in=named_in)


async def list_unfinished(ledgers: Ledgers) -> list[Entry]:
    """Return every forget that was begun and is not complete."""
    return await ledgers.runtime.read(planning.list_unfinished)


async def resume(ledgers: Ledgers, *, tell: Tell = lambda _: None, beside: Beside = _NOTHING) -> list[Report]:
    """Finish every forget that a crash or a busy database interrupted."""
    await _bring_up_to_date(ledgers)
    return [await _carry_out(ledgers, entry, tell, beside) for entry in await list_unfinished(ledgers)]


async def repeat(
    ledgers: Ledgers, receipt: Receipt, target: Target, items: Sequence[Item], beside: Beside
) -> Report:
    """Remove again what a receipt names, where an older backup brought it back."""
    await _bring_up_to_date(ledgers)
    entry = Entry(forget_id=receipt.id, target=target, counts=Counts())
    await ledgers.runtime.write(entry.reopen, items=items, actor="restore")
    async with _plan(ledgers, target, entry.forget_id) as (sets, plan):
        entry = replace(entry, counts=Counts().and_those_of(plan))
        await ledgers.runtime.write(entry.extend, sets=sets)
    return await _carry_out(ledgers, entry, lambda _: None, beside)


async def _carry_out(
    ledgers: Ledgers, entry: Entry, tell: Tell, beside: Beside, sought: Sought | None = None
) -> Report:
    began = time.perf_counter()
    try:
        draft = await recording.begin(ledgers, entry)
        async with beside.elsewhere():
            entry = await _remove_all(ledgers, entry, tell, beside, sought)
            removed = time.perf_counter()
            await ledgers.events.write(entry.publish)
            await _drop_working_files(ledgers)
            items = await recording.note_items(ledgers, entry, draft)
            await _scrub_all(ledgers, entry, tell, beside)
        scrubbed = time.perf_counter()
        tell("Writing the receipt")
        receipt, file = await recording.finish(ledgers, entry, draft, items, sought, beside)
        await ledgers.runtime.write(entry.complete)
    except (LedgerBusyError, LedgerFullError) as error:
        raise CareError(
            f"The {entry.target.kind} {entry.target.value} was not deleted completely: {error.message}",
            hint=f"{error.hint} Then run `nexus forget resume`.",
        ) from error
    ended = time.perf_counter()
    seconds = {"remove": removed - began, "scrub": scrubbed - removed, "check": ended - scrubbed}
    return Report(
        forget_id=entry.forget_id,
        target=entry.target,
        counts=entry.counts,
        seconds=seconds,
        receipt=receipt,
        file=file,
    )


async def _remove_all(
    ledgers: Ledgers, entry: Entry, tell: Tell, beside: Beside, sought: Sought | None
) -> Entry:
    await _follow_plan(ledgers, entry, tell, beside)
    for _ in range(_LATER_PASSES):
        tell("Checking for new data")
        async with _plan(ledgers, entry.target, entry.forget_id) as (sets, plan):
            if plan.is_empty:
                break
            entry = replace(entry, counts=entry.counts.and_those_of(plan))
            if sought is not None:
                await asyncio.to_thread(sought.gather, sets)
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
        await remove(ledgers[ledger], ledgers.home, entry.forget_id, kinds)
    while await ledgers.memory.write(seals.seal):
        pass
    files = await ledgers.runtime.read(entry.files)
    await asyncio.to_thread(_delete_files, ledgers.home, files)
    if entry.target.kind == "import":
        unrecorded = imports.UnrecordedFiles(ledgers.home, entry.target.value)
        paths = await asyncio.to_thread(unrecorded.paths)
        left = await ledgers.events.read(imports.list_unreferenced, paths=paths)
        await asyncio.to_thread(_delete_files, ledgers.home, left)
        await asyncio.to_thread(unrecorded.settle)


async def _scrub_all(ledgers: Ledgers, entry: Entry, tell: Tell, beside: Beside) -> None:
    left = [await beside.scrub()]
    for ledger in _to_scrub(entry):
        tell(f"Rewriting {ledger}")
        if ledger == "runtime":
            await ledgers.runtime.write(entry.drop_items)
        left.append(await scrub(ledgers[ledger]))
    if any(left):
        raise CareError(
            f"Everything was removed, but its bytes may still stand in {', '.join(filter(None, left))}",
            hint="Stop what holds it (`nexus status` shows who it is), then run `nexus forget resume`.",
        )


def _to_scrub(entry: Entry) -> list[str]:
    """Return all ledgers: any may hold the words on pages that were freed before. Vectors hold none."""
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


async def _drop_working_files(ledgers: Ledgers) -> None:
    """Remove what runs said while they ran, but for those under way that stay; and what a preview left."""
    under_way = set(await ledgers.runtime.read(executions.list_unfinished))

    def remove() -> None:
        for path in (ledgers.home.run / "streams").glob("*.jsonl"):
            if path.stem not in under_way:
                path.unlink(missing_ok=True)
        staging.remove_left_trial(ledgers.home)

    await asyncio.to_thread(remove)


@asynccontextmanager
async def _plan(
    ledgers: Ledgers, target: Target, forget_id: str | None = None
) -> AsyncGenerator[tuple[Sets, Plan]]:
    await _bring_up_to_date(ledgers)
    connection = await asyncio.to_thread(attach_all, ledgers.home)
    try:
        sets = Sets(connection)
        yield sets, await asyncio.to_thread(planning.make, sets, target, forget_id)
    finally:
        await asyncio.to_thread(connection.close)


async def _bring_up_to_date(ledgers: Ledgers) -> None:
    """Migrate all ledgers: the plan reads them in one connection, which knows today's schema only."""
    for database in ledgers:
        await database.read(lambda _: None)


# Between batches other writers have their turn.
_BATCH_KEYS: Final = 10_000
_WAL_S, _WAL_PAUSE_S = 10.0, 0.1
_ITEMS: Final = "SELECT item_id AS key FROM plan.forget_items WHERE forget_id = :forget AND kind"


async def remove(database: Database, home: Home, forget_id: str, kinds: set[str]) -> None:
    """Remove from one ledger what a recorded plan says, and empty what it says.

    `kinds` are those that the plan holds: rules about others find nothing to do.
    """
    # Parts before what they are parts of, so that no reader meets a part of nothing.
    for table in reversed(tables.of(database.ledger)):
        for kind, condition in list_removal_conditions(table, _batch):
            last: str | None = "" if kind in kinds else None
            while last is not None:
                last = await database.maintain(_Removal(home, table, kind, condition, forget_id, last))
        for assignment, condition in _list_assignments(table, kinds):
            await database.maintain(_Emptying(home, table, assignment, condition, forget_id))


class _Removal:
    """Removes the rows of a table that go with the next keys of a kind; tells the last of these keys."""

    def __init__(
        self, home: Home, table: Table, kind: str, condition: str, forget_id: str, after: str
    ) -> None:
        self._home = home
        self._table = table.name
        self._next = f"SELECT max(key) FROM ({_ITEMS} = '{kind}' AND item_id > :after ORDER BY 1 LIMIT :keys)"  # noqa: S608 - names are constants of the program, values are bound
        self._first = _first(table, condition)
        self._remove = f"DELETE FROM {table.name} WHERE {condition}"  # noqa: S608 - names are constants of the program, values are bound
        self._bindings: dict[str, str | int] = {"forget": forget_id, "after": after, "keys": _BATCH_KEYS}

    def __call__(self, connection: apsw.Connection) -> str | None:
        with _plan_beside(connection, self._home):
            last = connection.execute(self._next, self._bindings).get
            if last is not None:
                bindings = {**self._bindings, "last": last}
                with _suspend_guards(connection, self._table):
                    _lift_seals(connection, self._first, bindings)
                    connection.execute(self._remove, bindings)
        return cast("str | None", last)


class _Emptying:
    """Empties a column of rows that stay."""

    def __init__(self, home: Home, table: Table, assignment: str, condition: str, forget_id: str) -> None:
        self._home = home
        self._table = table.name
        self._wanted = f"SELECT 1 FROM {table.name} WHERE {condition} LIMIT 1"  # noqa: S608 - names are constants of the program, values are bound
        self._first = _first(table, condition)
        self._empty = f"UPDATE {table.name} SET {assignment} WHERE {condition}"  # noqa: S608 - names are constants of the program, values are bound
        self._bindings: dict[str, str | int] = {"forget": forget_id}

    def __call__(self, connection: apsw.Connection) -> None:
        with _plan_beside(connection, self._home):
            if connection.execute(self._wanted, self._bindings).get:
                with _suspend_guards(connection, self._table):
                    _lift_seals(connection, self._first, self._bindings)
                    connection.execute(self._empty, self._bindings)


def _first(table: Table, condition: str) -> str | None:
    """Return the query for the first row that changes, where rows are sealed in order."""
    return f"SELECT min(seq) FROM facts WHERE {condition}" if table.name == "facts" else None  # noqa: S608 - names are constants of the program, values are bound


def _lift_seals(connection: apsw.Connection, query: str | None, bindings: dict[str, str | int]) -> None:
    """Drop the seals from the first fact that changes; they are made again when all is removed."""
    first = connection.execute(query, bindings).get if query else None
    if first is not None:
        seals.lift(connection, cast("int", first))


def _list_assignments(table: Table, kinds: set[str]) -> Iterator[tuple[str, str]]:
    """Yield what is assigned to which rows of a table."""
    for ref in table.refs:
        if ref.table in kinds and not (ref.removes or ref.implied):
            yield f"{ref.column} = NULL", referring_condition(ref, _planned_keys)
    for text in table.texts:
        if f"{table.name}.{text.column}" in kinds:
            blank = "NULL" if text.blank is None else f"'{text.blank}'"
            keys = _planned_keys(f"{table.name}.{text.column}")
            yield f"{text.column} = {blank}", key_condition(table, keys)


def _planned_keys(kind: str) -> str:
    return f"({_ITEMS} = '{kind}')"


def _batch(kind: str) -> str:
    return f"({_ITEMS} = '{kind}' AND item_id > :after AND item_id <= :last)"


@contextmanager
def _plan_beside(connection: apsw.Connection, home: Home) -> Generator[None]:
    """Attach the recorded plan to read from, in whichever ledger the connection is."""
    connection.execute(statement(home, "runtime", writes=False, name="plan"))
    try:
        yield
    finally:
        connection.execute("DETACH DATABASE plan")


@contextmanager
def _suspend_guards(connection: apsw.Connection, table: str) -> Generator[None]:
    """Open a transaction in which rows of a table may change and go.

    Only that table's guards are lifted, because every other connection reads the schema anew then.
    Foreign keys are not enforced meanwhile: the plan takes both ends, and looking for the other end of
    each row would take longer than removing it.
    """
    connection.pragma("foreign_keys", False)
    try:
        connection.execute("BEGIN IMMEDIATE")
        with guards.suspend(connection, guards.refusals_of(table)):
            yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.pragma("foreign_keys", True)


# Where SQLite puts the copy from which it writes a file anew, in its order.
_TEMPORARY: Final = ("SQLITE_TMPDIR", "TMPDIR")
_TEMPORARY_DIRECTORIES: Final = ("/var/tmp", "/usr/tmp", "/tmp")  # noqa: S108  SQLite's own choice
# Rows still come and go while the copy is made.
_MARGIN_BYTES: Final = 16 * 1024 * 1024


def require_space(home: Home, ledgers: list[str]) -> None:
    """Refuse before anything is removed, where a ledger could not be written anew."""
    largest = max((home.ledger(name).stat().st_size for name in ledgers), default=0) + _MARGIN_BYTES
    temporary = _temporary_directory()
    needed = {home.data: largest}
    if temporary.stat().st_dev == home.data.stat().st_dev:
        needed[home.data] += largest
    else:
        needed[temporary] = largest
    for place, size_bytes in needed.items():
        if shutil.disk_usage(place).free < size_bytes:
            raise CareError(
                f"Not enough disk space: deleting needs {size_bytes // 2**20} MiB free at {place}",
                hint="Free disk space and try again. Nothing was deleted.",
            )


async def scrub(database: Database) -> str:
    """Write a ledger anew without what was removed from it, and empty its WAL.

    Returns what could not be done, and why; nothing where all was.
    """
    file = database.path.name
    try:
        await database.maintain(_rewrite)
    except LedgerBusyError:
        return f"the free pages of {file} (another process keeps writing to it)"
    except LedgerFullError:
        return f"the free pages of {file} (the disk is full)"
    give_up_at = time.monotonic() + _WAL_S
    # A checkpoint of another process isn't waited for by SQLite: this one is refused at once.
    while not await database.maintain(_empty_wal):
        if time.monotonic() > give_up_at:
            return f"{file}-wal (another process keeps reading an old state)"
        await asyncio.sleep(_WAL_PAUSE_S)
    return ""


def _rewrite(connection: apsw.Connection) -> None:
    for index in full_text(connection):
        connection.execute(f"INSERT INTO {index} ({index}) VALUES ('optimize')")  # noqa: S608 - names are constants of the program, values are bound
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'").get:
        # The planner's statistics hold samples of what stood in the indexes.
        connection.execute("ANALYZE")
    # In memory, the copy of a large ledger would not fit.
    connection.pragma("temp_store", "FILE")
    try:
        connection.execute("VACUUM")
    finally:
        connection.pragma("temp_store", "MEMORY")


def _empty_wal(connection: apsw.Connection) -> bool:
    busy, _, _ = cast(
        "tuple[int, int, int]", connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    )
    return not busy


def _temporary_directory() -> Path:
    wanted = [os.environ[name] for name in _TEMPORARY if os.environ.get(name)]
    for place in (*wanted, *_TEMPORARY_DIRECTORIES):
        if Path(place).is_dir() and os.access(place, os.W_OK | os.X_OK):
            return Path(place)
    return Path.cwd()


_CHUNK_BYTES: Final = 1024 * 1024
# A name that lies across two chunks is found in the second one, which begins with the end of the first.
_OVERLAP_BYTES: Final = 1024
# Shorter names turn up in any bytes.
_LEAST_IN_BYTES: Final = 4
_BINARY: Final = re.compile(rb"\0")


def files_naming(home: Home, names: Names) -> list[Path]:
    """Return the files below the home that hold one of the names, relative to it."""
    if not names.all:
        return []
    return [path.relative_to(home.root) for path in _candidates(home) if _holds(path, names)]


def _candidates(home: Home) -> Iterator[Path]:
    ledgers = {f"{home.ledger(name)}{end}" for name in LEDGERS for end in ("", "-wal", "-shm")}
    for path in sorted(home.root.rglob("*")):
        if path.is_file() and not path.is_symlink() and str(path) not in ledgers:
            yield path


def _holds(path: Path, names: Names) -> bool:
    long = [fold(name) for name in names.all if len(name) >= _LEAST_IN_BYTES]
    try:
        with path.open("rb") as stream:
            before = b""
            while chunk := stream.read(_CHUNK_BYTES):
                text = (before + chunk).decode("utf-8", "replace")
                # In binary files, such as databases, words stand without edges.
                if _BINARY.search(chunk):
                    if any(name in fold(text) for name in long):
                        return True
                elif names.found(text):
                    return True
                before = chunk[-_OVERLAP_BYTES:]
    except OSError:
        # What cannot be read cannot be cleared of suspicion.
        return True
    return False
