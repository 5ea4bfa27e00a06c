"""The engine: durable work, in order and one at a time for each key, on SQLite or Postgres.

engine = Engine(Settings(database=home.data / "engine.db"))
engine.register("greet", greet)
async with engine:
    execution = await engine.start("greet", {"name": "Ada"}, key="session-1", lane="chat")
    print(await execution.result())
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from nexus.engine import dbos_runtime, forgetting, records, store
from nexus.engine.claims import Shares, Sweeper, Wake
from nexus.engine.database import Database, translate_errors
from nexus.engine.dbos_runtime import DbosRuntime
from nexus.engine.errors import (
    FINAL,
    EndedError,
    EngineError,
    EngineStateError,
    State,
    UnknownExecutionError,
    UnknownWorkError,
    WorkCancelledError,
    WorkFailedError,
    WorkTimeoutError,
)
from nexus.engine.owner import Ownership, find_owner
from nexus.engine.prepare import prepare_database
from nexus.engine.records import WorkRecord
from nexus.engine.running import Entry, Running, Work, WorkContext
from nexus.engine.schedules import Schedules, Upkeep
from nexus.engine.settings import Settings
from nexus.engine.store import NewExecution
from nexus.watch import finish, wait_at_most

_FIRST_LOOK_S = 0.02
_FIRST_LOOK_SERVING_S = 0.1
_LONGEST_LOOK_S = 0.5
_LOOK_HERE_S = 5.0
# Work that cannot go on now is tried again after that.
_PAUSE_S = 1.0
_STARTS = 5
# How often a process that stands by looks whether the owner is gone.
_STAND_BY_S = 0.5
# Work that takes its process down each time must not do so forever, nor hold up its session.
_MOST_CRASHES = 10
_log = logging.getLogger(__name__)
_ERRORS: dict[State, type[EndedError]] = {
    "failed": WorkFailedError,
    "timeout": WorkTimeoutError,
    "cancelled": WorkCancelledError,
}
# Enough to hide the cost of a commit, few enough to stay prompt.
_COMMIT_TOGETHER = 500
# A server that was restarted leaves a pool of dead connections, each found out by using it.
_COMMIT_ATTEMPTS = 12


class Enqueuer:
    """One owner of inserts in the process, so that calls made in order are recorded in order."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[tuple[NewExecution, asyncio.Future[None]]] = []
        self._flushing: asyncio.Task[None] | None = None

    async def add(self, execution: NewExecution) -> None:
        """When this returns, the execution is durable."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((execution, future))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        await future

    async def close(self) -> None:
        if self._flushing is not None:
            await self._flushing

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:_COMMIT_TOGETHER]
                del self._waiting[:_COMMIT_TOGETHER]
                failure: Exception | None = None
                try:
                    await asyncio.to_thread(self._commit, [execution for execution, _ in batch])
                except Exception as error:  # every caller must hear of it
                    failure = error
                for _, future in batch:
                    if future.done():
                        continue
                    if failure is None:
                        future.set_result(None)
                    else:
                        future.set_exception(failure)
        finally:
            self._flushing = None

    def _commit(self, executions: Sequence[NewExecution]) -> None:
        """Ids are given, so that trying again after a lost connection cannot record anything twice."""
        for attempt in range(_COMMIT_ATTEMPTS):
            try:
                with self._database.write() as connection:
                    store.insert(self._database, connection, executions)
                    self._database.notify(connection)
                return
            except DBAPIError as error:
                if not error.connection_invalidated or attempt == _COMMIT_ATTEMPTS - 1:
                    raise


@dataclass(frozen=True, kw_only=True)
class BoundWork:
    """What runs an execution, and the execution as that code sees it."""

    work: Work
    context: WorkContext


@dataclass(frozen=True, kw_only=True)
class _Service:
    """What exists only while the engine serves."""

    ownership: Ownership
    dbos: DbosRuntime
    wake: Wake
    sweeper: Sweeper
    upkeep: Upkeep


class StartedExecution:
    """Ask for the result, look at the state, cancel. Dropping it changes nothing."""

    def __init__(self, engine: "Engine", execution_id: str) -> None:
        self._engine = engine
        self.id = execution_id

    async def result(self) -> Any:
        """The result once there is one; an `EndedError` when it ended without."""
        await self._engine.wait_for_end(self.id)
        execution = await self.state()
        if execution.state == "done":
            return execution.result
        reason = execution.error or execution.state
        raise _ERRORS[execution.state](
            f"{execution.work} ({self.id}) ended as {execution.state}: {reason}",
            hint=f"See `nexus engine show {self.id}`.",
        )

    async def state(self) -> WorkRecord:
        """The execution as it stands."""
        return await self._engine.show(self.id)

    async def cancel(self) -> None:
        """Ask that it stop. Its session goes on only after its code has stopped."""
        await self._engine.cancel(self.id)


class Engine:
    """Start work, wait for it, cancel it. One for each process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._works: dict[str, Work] = {}
        self._database: Database | None = None
        self._enqueuer: Enqueuer | None = None
        self._service: _Service | None = None
        self._standby: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()
        self.taken_over = asyncio.Event()
        """Set when this process stood by and now works, because the owner is gone."""
        self._running = Running()
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}
        self.suspended: set[str] = set()
        """Homes whose work waits for now, in a database that many share."""
        self.scope_limits: dict[str, int] = {}
        """Homes whose limit is not `scope_limit`."""

    def register(self, name: str, work: Work) -> None:
        """Make a piece of work known under a name. Names are stored: they must outlive an upgrade."""
        self._works[name] = work

    async def open(self, *, serve: bool = True) -> None:
        """Begin. With `serve=False` this process starts and watches work, and runs none.

        One process runs the work of a database. While it is another, this one stands by to take over.
        """
        if self._database is not None:
            raise EngineStateError("The engine is already running")
        if serve and self.settings.scope:
            raise EngineStateError(
                "This home is hosted: its host does its work",
                hint="Start the host with `nexus host serve --root DIR`.",
            )
        if serve:
            dbos_runtime.check_unused()
        with translate_errors(self.settings):
            self._database, self._service = await self._open_database(serve=serve)
        self._enqueuer = Enqueuer(self._database)
        if serve and self._service is None:
            self._leaving.clear()
            self._standby = asyncio.create_task(self._stand_by(self._database), name="engine-standby")

    async def close(self) -> None:
        """Finish what runs if it ends in time; the rest goes back to its queue, and nothing is lost."""
        if self._database is None:
            return
        await self.drain()
        assert self._enqueuer is not None  # noqa: S101 - an invariant, for the reader and the type checker
        await self._enqueuer.close()
        await asyncio.to_thread(self._database.close)
        self._database = None

    async def drain(self) -> None:
        """Run nothing more; what runs is finished or goes back to its queue. Work can still be recorded."""
        if self._standby is not None:
            self._leaving.set()
            await self._standby
            self._standby = None
        if self._service is not None:
            await self._stop_serving(self._service)
            self._service = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(
        self,
        work: str,
        payload: Any,
        *,
        key: str,
        lane: str,
        timeout_ms: int | None = None,
        execution_id: str | None = None,
        delay_until_ms: int | None = None,
    ) -> StartedExecution:
        """Record an execution and return it immediately; it runs when its turn comes.

        A sweep (`claims.py`) claims it, and DBOS then calls `_execute`, which `_serve` hands to it.

        Executions of one key run in the order of these calls, one at a time. A caller that may call
        twice for the same thing gives an id: the second call then finds the first one's execution. One
        that is delayed waits until that time, and those of its key that come later don't wait for it.
        """
        self.settings.lane(lane)
        if not key:
            # No lane would ever take it up: the turns of a lane go by key.
            raise EngineError(
                f"`{work}` cannot be started without a key",
                hint="Give the key that its order goes by, such as a session, or a key of its own.",
            )
        if self.serving and work not in self._works:
            known = ", ".join(self._works)
            raise UnknownWorkError(f"No work is registered as `{work}`", hint=f"Known: {known}.")
        new = store.new_execution(
            work,
            payload,
            key=self.add_prefix(key),
            lane=lane,
            version=self.settings.version,
            timeout_ms=timeout_ms,
            id_=self.add_prefix(execution_id or store.new_id()),
            delay_until_ms=delay_until_ms,
        )
        await self.record(new)
        return StartedExecution(self, self.remove_prefix(new.id))

    def execution(self, execution_id: str) -> StartedExecution:
        """An execution that was started before, here or elsewhere."""
        return StartedExecution(self, execution_id)

    async def show(self, execution_id: str) -> WorkRecord:
        """One execution as it stands."""
        with translate_errors(self.settings):
            found = await asyncio.to_thread(records.get, self.database, self.add_prefix(execution_id))
        if found is None:
            raise _unknown(execution_id)
        return replace(found, id=execution_id, key=self.remove_prefix(found.key))

    async def states(self, execution_ids: Sequence[str]) -> dict[str, State]:
        """How some executions stand; those that were never started are left out."""
        with translate_errors(self.settings):
            stored = [self.add_prefix(id_) for id_ in execution_ids]
            found = await asyncio.to_thread(records.states, self.database, stored)
            return {self.remove_prefix(id_): state for id_, state in found.items()}

    async def wait_for_end(self, execution_id: str) -> None:
        """Return when the execution has ended, and its end is recorded."""
        stored_id = self.add_prefix(execution_id)
        # What waits probably runs here soon, if this process serves.
        look_s = _FIRST_LOOK_SERVING_S if self.serving else _FIRST_LOOK_S
        looks = False
        while True:
            # Before the look, so that an end that comes during it is not missed.
            changed = self._waiter(stored_id)
            try:
                # Of what runs here, we are told the end.
                here = self.running(stored_id) is not None
                if looks or not here:
                    state = (await self.states([execution_id])).get(execution_id)
                    if state is None:
                        raise _unknown(execution_id)
                    if state in FINAL:
                        return
                looks = True
                await wait_at_most(changed, _LOOK_HERE_S if here else look_s)
            finally:
                self._leave(stored_id, changed)
            look_s = min(look_s * 1.5, _LONGEST_LOOK_S)

    async def cancel(self, execution_id: str) -> bool:
        """Cancel a queued execution, or ask a running one to stop. False: already finished."""
        stored = self.add_prefix(execution_id)
        with translate_errors(self.settings):
            if await asyncio.to_thread(store.cancel_waiting, self.database, stored):
                self._wake_waiters(stored)
                return True
            entry = self.running(stored)
            if entry is not None:
                entry.stop("cancelled")
                with suppress(
                    SQLAlchemyError
                ):  # It stops in any case; on record, it does so after a crash too.
                    await asyncio.to_thread(store.ask_to_stop, self.database, stored)
                return True
            if (await self.show(execution_id)).state in FINAL:
                return False
            await asyncio.to_thread(store.ask_to_stop, self.database, stored)
        return True

    async def forget_ended(self) -> None:
        """Forget what has ended, so that it can be started again under its id."""
        with translate_errors(self.settings):
            await asyncio.to_thread(forgetting.forget_ended, self.database, self.settings.prefix)

    async def close_letter(self, execution_id: str) -> bool:
        """Take an execution off the dead letters: somebody has dealt with it. False: it is not one."""
        with translate_errors(self.settings):
            return await asyncio.to_thread(
                records.close_dead_letter, self.database, self.add_prefix(execution_id)
            )

    # For the modules of this package that start work in their own way (schedules).

    def add_prefix(self, own: str) -> str:
        """An id or a key of this home as the database has it."""
        return self.settings.prefix + own

    def remove_prefix(self, stored: str) -> str:
        """An id or a key of the database as this home knows it."""
        return stored.removeprefix(self.settings.prefix)

    @property
    def schedules(self) -> Schedules:
        """What starts by the clock."""
        return Schedules(self.database, self.settings.version, self.settings.prefix)

    def running(self, stored_id: str) -> Entry | None:
        """The body of an execution, where this process runs it."""
        return self._running.get(stored_id)

    @property
    def database(self) -> Database:
        if self._database is None:
            raise EngineStateError("The engine is not running", hint="Call `open()` first.")
        return self._database

    @property
    def is_open(self) -> bool:
        return self._database is not None

    @property
    def serving(self) -> bool:
        return self._service is not None

    @property
    def may_run(self) -> bool:
        """Whether this process runs the home's work now."""
        return self.serving

    async def record(self, execution: NewExecution) -> None:
        if self._enqueuer is None or self._database is None:
            raise EngineStateError("The engine is not running", hint="Call `open()` first.")
        with translate_errors(self.settings):
            await self._enqueuer.add(execution)

    def announce(self) -> None:
        """Something else than what was recorded lets work begin."""
        if self._service is not None:
            self._service.wake.set()

    async def _open_database(self, *, serve: bool) -> tuple[Database, _Service | None]:
        """Open the database and begin to serve, again if a connection is lost on the way.

        Postgres ends the session of a process that is frozen in a transaction.
        """
        left = _STARTS
        while True:
            try:
                database = await asyncio.to_thread(prepare_database, self.settings)
                try:
                    return database, await self._serve(database) if serve else None
                except BaseException:
                    await asyncio.to_thread(database.close)
                    raise
            except DBAPIError as error:
                left -= 1
                if not (error.connection_invalidated and left):
                    raise
                _log.warning("a connection was lost while the engine started: starting again")

    async def _stand_by(self, database: Database) -> None:
        owner = find_owner(self.settings)
        pid = f" (pid {owner.pid})" if owner is not None and owner.pid else ""
        _log.info("another process%s works on this home: this one stands by", pid)
        while self._service is None and not self._leaving.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), _STAND_BY_S)
                return
            try:
                self._service = await self._serve(database)
            except Exception as error:  # Whatever it is, nobody else would take over.
                _log.warning("the work could not be taken over, and is tried again: %s", error)
        if self._service is not None:
            self.taken_over.set()

    async def _serve(self, database: Database) -> _Service | None:
        """Become the process that works on the database, and go on with what the last one left under way.

        None: another process works on it.
        """
        loop = asyncio.get_running_loop()
        dbos_runtime.check_unused()
        ownership = Ownership(self.settings)
        if not ownership.take():
            return None
        dbos: DbosRuntime | None = None
        try:
            version = self.settings.version
            # Also if cancelled: locks outlast what they guard.
            given_back, given_up = await finish(
                asyncio.to_thread(store.take_over, database, version, _MOST_CRASHES)
            )
            if given_back:
                _log.warning("took over %d executions", given_back)
            if given_up:
                _log.error("gave up on %d executions: their process died %d times", given_up, _MOST_CRASHES)
            dbos = DbosRuntime(database, self.settings, ownership.executor_id, self._execute)
            await finish(asyncio.to_thread(dbos.launch))
            dbos.adopt_loop()
            wake = Wake(database, self.settings.poll_ms)
            stop_running = partial(self._stop_running, loop)
            sweeper = Sweeper(
                database,
                dbos,
                ownership.executor_id,
                wake,
                self.settings,
                stop_running=stop_running,
                shares=Shares(self.suspended, self.scope_limits),
            )
            upkeep = Upkeep(database, self.settings, wake)
            wake.start()
            wake.set()
            sweeper.start()
            upkeep.start()
        except BaseException:
            try:
                if dbos is not None:
                    await dbos.stop()
            finally:
                ownership.release()
            raise
        return _Service(ownership=ownership, dbos=dbos, wake=wake, sweeper=sweeper, upkeep=upkeep)

    async def _stop_serving(self, service: _Service) -> None:
        await service.upkeep.stop()
        await service.sweeper.stop()
        if not await self._running.wait_until_idle(self.settings.stop_grace_ms / 1000):
            self._running.stop_all("stopping")
            await self._running.wait_until_idle(self.settings.stop_grace_ms / 1000)
        # Results of what has just ended are still on their way to the database.
        await service.sweeper.wait_until_settled(self.settings.stop_grace_ms / 1000)
        await service.wake.stop()
        try:
            await asyncio.to_thread(store.requeue, self.database)
        except SQLAlchemyError as error:
            # The next owner gives back what is recorded as running.
            _log.warning("what still runs could not be given back: %s", error)
        service.ownership.release()
        await service.dbos.stop()

    async def _execute(self, execution_id: str, work: str, payload: Any, options: dict[str, Any]) -> Any:
        """The body that the durable engine runs for every execution."""
        assert self._service is not None  # noqa: S101 - an invariant, for the reader and the type checker
        lane = str(options["lane"])
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - an invariant, for the reader and the type checker
        self._service.sweeper.note_begun(execution_id)
        task.add_done_callback(lambda _: self._release(execution_id, lane))
        entry = Entry(id=execution_id, lane=lane, key=str(options["key"]))
        context = WorkContext(
            id=execution_id,
            work=work,
            lane=lane,
            key=entry.key,
            ownership=self._service.ownership,
            executor_id=self._service.ownership.executor_id,
            entry=entry,
            database=self.database,
        )
        async with AsyncExitStack() as held:

            async def body() -> Any:
                context.require()
                code = await self._find(context, held)
                return await code.work(code.context, payload)

            try:
                return await self._running.run(entry, body, options["timeout_ms"])
            except asyncio.CancelledError:
                if entry.reason in {"put_back", "start_over"}:
                    await self._put_back(context)
                raise

    async def _find(self, context: WorkContext, held: AsyncExitStack) -> BoundWork:
        """The code of an execution; what it needs for as long as that runs is entered on the stack.

        Of a run that is `SessionQueue._execute`. Homes that share an engine each have works of their own.
        """
        if context.work not in self._works:
            raise UnknownWorkError(f"No work is registered as `{context.work}` in this process")
        return BoundWork(work=self._works[context.work], context=context)

    async def _put_back(self, context: WorkContext) -> None:
        """Give work back to its queue, after a pause in which what it could not go on with may pass."""
        drops = context.entry.reason == "start_over"
        while context.is_ours:
            await asyncio.sleep(_PAUSE_S)
            try:
                await asyncio.to_thread(
                    store.put_back, self.database, context.id, context.executor_id, drops_steps=drops
                )
                return
            except SQLAlchemyError as error:
                # The disk may be full here, too.
                _log.warning("%s could not be put back yet: %s", context.id, error)

    def _release(self, execution_id: str, lane: str) -> None:
        if self._service is not None:
            self._service.sweeper.release(lane, execution_id)
        self._wake_waiters(execution_id)

    def _wake_waiters(self, execution_id: str) -> None:
        for waiter in self._waiters.get(execution_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    def _waiter(self, execution_id: str) -> "asyncio.Future[None]":
        """A future for one look of one waiter: the code of a fenced run ends without an end on record."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(execution_id, set()).add(waiter)
        return waiter

    def _leave(self, execution_id: str, waiter: "asyncio.Future[None]") -> None:
        waiters = self._waiters[execution_id]
        waiters.discard(waiter)
        if not waiters:
            del self._waiters[execution_id]

    def _stop_running(self, loop: asyncio.AbstractEventLoop, execution_ids: list[str]) -> None:
        for execution_id in execution_ids:
            entry = self._running.get(execution_id)
            if entry is not None:
                loop.call_soon_threadsafe(entry.stop, "cancelled")


def _unknown(execution_id: str) -> UnknownExecutionError:
    return UnknownExecutionError(
        f"Unknown execution {execution_id}", hint="List them with `nexus engine executions`."
    )
